"""Words that a run puts before each answer: in the prompt, in the examples, before a label, and before what is read."""

from __future__ import annotations

from typing import Any

import pytest

from contract import Mode, Outcome, Prompt, load_settings
from contract.mode import Normalization
from contract.prompts import prompts_of, turns_of
from contract.question import Question
from contract.spec import ChatTemplate, FewShot, Judge, RunSpec, Sampling
from contract.turns import Role, Turn, one_turn
from tests.support import make_question, make_spec
from tests.unit.workers.engines.test_chat import LLAMA_2, TAKES_SYSTEM, tokenizer
from tests.unit.workers.writer import Writer
from workers.engines.base import Completion, Text
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.simulated import SimulatedEngine
from workers.pipeline import score_batch
from workers.reading import Unread, read_here
from workers.scoring import MODES, Item, Reading

WORDS = "The answer is"
ASKED = make_question(1, question="Which?", choices=("Paris", "Rome"), answer="A")
SOLVED = Question(id="x", question="Sure?", choices=("no", "yes"), answer="B", metadata={"why": "Because."})
BEGINS_TO_REASON = TAKES_SYSTEM.replace("[assistant]\n{%", "[assistant]\n<think>\n{%")
SHOWN = Prompt(name="q", text="{{ question }} {{ choices | map(attribute='label') | join('/') }}:")


def spec_of(mode: Mode, chat: ChatTemplate, **more: Any) -> RunSpec:
    sampling = {"sampling": Sampling(max_tokens=8)} if mode.writes else {}
    return make_spec(mode=mode, prompt=SHOWN, chat_template=chat, answer_prefix=WORDS, **{**sampling, **more})


def encoded(template: str, spec: RunSpec) -> Encoded:
    first = MODES[spec.mode].ask(ASKED, turns_of(ASKED, spec), spec)[0]
    (found,) = PromptEncoder(tokenizer(template)).encode([first])
    assert isinstance(found, Encoded)
    return found


def test_a_plain_prompt_ends_with_the_words_as_its_examples_do() -> None:
    spec = spec_of(Mode.LETTER, ChatTemplate.NEVER, few_shot=FewShot(k=1, pool=(SOLVED,)))
    assert turns_of(ASKED, spec) == one_turn("Sure? A/B: The answer is B\n\nWhich? A/B: The answer is")


def test_in_a_chat_the_models_turn_begins_with_the_words_as_in_its_examples() -> None:
    spec = spec_of(Mode.LETTER, ChatTemplate.TURNS, few_shot=FewShot(k=1, pool=(SOLVED,)))
    *before, last = turns_of(ASKED, spec)
    assert before == [
        Turn(Role.USER, "Sure? A/B:"),
        Turn(Role.ASSISTANT, "The answer is B"),
        Turn(Role.USER, "Which? A/B:"),
    ]
    assert last.role is Role.ASSISTANT
    assert prompts_of(ASKED, spec)[0].endswith("\n\n‹user›\nWhich? A/B:\n\n‹assistant›\nThe answer is")


def test_an_example_reasons_behind_the_words() -> None:
    spec = spec_of(Mode.GENERATE, ChatTemplate.NEVER, few_shot=FewShot(k=1, pool=(SOLVED,), rationale="why"))
    assert turns_of(ASKED, spec)[0].text.startswith("Sure? A/B: The answer is\nBecause.\nAnswer: B\n\n")


@pytest.mark.parametrize("chat", [ChatTemplate.AUTO, ChatTemplate.ALWAYS, ChatTemplate.TURNS])
def test_a_label_behind_the_words_keeps_its_space_and_is_one_token(chat: ChatTemplate) -> None:
    found = encoded(TAKES_SYSTEM, spec_of(Mode.LETTER, chat))
    assert found.text == "[user]\nWhich? A/B: [end][assistant]\nThe answer is"
    assert found.continuations == (" A", " B")
    assert list(map(len, found.tails)) == [1, 1]


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD, Mode.GENERATE])
def test_a_model_without_a_chat_template_is_asked_as_outside_a_chat(mode: Mode) -> None:
    auto, never = (encoded("", spec_of(mode, each)) for each in (ChatTemplate.AUTO, ChatTemplate.NEVER))
    assert auto == never
    assert auto.text == "Which? A/B: The answer is"


def test_the_words_stand_where_a_label_would() -> None:
    """Behind the space that Llama 2's template puts there, and behind the tag of a template that begins to reason."""
    assert encoded(LLAMA_2, spec_of(Mode.GENERATE, ChatTemplate.AUTO)).text.endswith("[/INST] The answer is")
    assert encoded(BEGINS_TO_REASON, spec_of(Mode.GENERATE, ChatTemplate.AUTO)).text.endswith("<think>\nThe answer is")


@pytest.mark.parametrize("prompt", ["", "Answer:"])
@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_without_its_question_a_choice_has_the_tokens_that_it_has_behind_the_words(
    chat: ChatTemplate, prompt: str
) -> None:
    spec = spec_of(Mode.LIKELIHOOD, chat, normalization=Normalization.MUTUAL_INFO, unconditional_prompt=prompt)
    asked = MODES[spec.mode].ask(ASKED, turns_of(ASKED, spec), spec)
    found = [each for each in PromptEncoder(tokenizer(TAKES_SYSTEM)).encode(asked) if isinstance(each, Encoded)]
    assert found[0].tails == found[1].tails
    assert found[1].text == prompt


def read(spec: RunSpec, *texts: Text, prompt_end: str = "") -> Reading:
    (found,) = read_here([Unread(ASKED, [Completion(texts=texts, prompt_end=prompt_end)], spec)])
    assert isinstance(found, Reading), found
    return found


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.ALWAYS])
def test_a_text_is_read_and_kept_with_the_words_that_it_continues(chat: ChatTemplate) -> None:
    """ " Rome, not Paris" names two choices; " B" alone, behind other words, may be none."""
    found = read(spec_of(Mode.GENERATE, chat), Text(" B, as everybody knows", 6))
    assert (found.choice, found.raw_text) == ("B", "The answer is B, as everybody knows")


def test_each_text_of_a_vote_is_read_with_the_words() -> None:
    spec = spec_of(Mode.VOTE, ChatTemplate.NEVER, sampling=Sampling(samples=3, temperature=0.7))
    found = read(spec, Text(" B, hm", 3), Text(" B, ah", 3), Text(" A, oh", 3))
    assert found.choice == "B"
    assert found.confidence == pytest.approx(2 / 3)


def test_reasoning_that_the_template_began_before_the_words_is_still_known_as_such() -> None:
    spec = spec_of(Mode.GENERATE, ChatTemplate.ALWAYS)
    found = read(spec, Text(" B, or rather", 4, truncated=True), prompt_end="<think>\nThe answer is")
    assert (found.choice, found.raw_text) == (None, "<think>\nThe answer is B, or rather")


def test_a_judge_grades_the_whole_answer_and_its_own_begins_with_no_words() -> None:
    judge = Judge(prompt=Prompt(name="grade", text="Grade: {{ response }}"))
    grade = '{"correct": true, "reason": "so it is"}'
    engine = Writer(lambda request: [grade if request.json_schema else " Paris."])
    (verdict,) = score_batch([Item(ASKED, spec_of(Mode.JUDGE, ChatTemplate.ALWAYS, judge=judge))], engine)
    assert verdict.outcome is Outcome.CORRECT, verdict.error
    assert verdict.raw_text == "The answer is Paris."
    assert [each.prompt for each in engine.calls[-1]] == ["Grade: The answer is Paris."]


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD, Mode.GENERATE])
def test_questions_are_settled_with_the_words_through_the_whole_pipeline(mode: Mode) -> None:
    engine = SimulatedEngine(load_settings(None, ["engine=simulated"]))
    engine.start()
    items = [Item(make_question(n), spec_of(mode, ChatTemplate.AUTO)) for n in range(8)]
    verdicts = score_batch(items, engine)
    assert all(each.choice for each in verdicts), verdicts
    assert all(each.raw_text.startswith("The answer is The answer is") for each in verdicts) is mode.writes
