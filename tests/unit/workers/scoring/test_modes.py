"""The modes that write: from question to verdict, with scripted engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from contract import Failure, Mode, Outcome, Prompt, Question, Verdict, load_settings
from contract.spec import Chat, ChatTemplate, RunSpec, Sampling
from tests.support import make_question, make_questions, make_spec
from tests.unit.workers.ready_engine import LETTERED, ReadyEngine
from tests.unit.workers.writer import CAPITAL, WRITES, Writer, ask
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.pipeline import score_batch
from workers.scoring import MODES, Item, Reading
from workers.scoring.extract import Extraction
from workers.scoring.generate import named, texts_of


def test_every_mode_can_ask_and_read() -> None:
    assert MODES.keys() == set(Mode)


def test_generate_reads_the_choice_by_a_named_rule_and_keeps_the_text() -> None:
    verdict = ask(Writer(lambda _: ["It is in Lazio. Answer: B"]), mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice) == (Outcome.CORRECT, "B")
    assert verdict.raw_text == "It is in Lazio. Answer: B"
    assert verdict.rule not in {"", "none"}
    assert verdict.completion_tokens == 3


@pytest.mark.parametrize(("truncated", "full"), [(False, False), (True, False), (True, True)])
def test_the_verdict_says_whether_its_text_was_cut_off_and_whether_by_the_context(
    *, truncated: bool, full: bool
) -> None:
    engine = Writer(lambda _: ["Answer: B. It is"], truncated=truncated, context_full=full)
    verdict = ask(engine, mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.truncated, verdict.context_full) == (truncated, full)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("It is on the Tiber.\nB", None),  # which may go on as "But"
        ("The candidates are:\n- B", None),
        ("It is on the Tiber.\nRome", None),  # … as "Rome is not meant"
        ("It is on the Tiber, so the capital is Rome", "B"),
        ("B\n\nIt is on the", "B"),
        ("It is on the Tiber.\nB\n", "B"),  # … but its line has ended
        ("\n\nRome", "B"),  # nothing is above it
        ("<think>\nThe Tiber.\n</think>\n\nRome", "B"),
        ("The answer is:\nB", "B"),
        ("B", "B"),
    ],
)
def test_a_label_or_choice_with_which_a_text_was_cut_off_in_its_last_line_is_none(
    text: str, choice: str | None
) -> None:
    def read(*, truncated: bool) -> str | None:
        return ask(Writer(lambda _: [text], truncated=truncated), mode=Mode.GENERATE, sampling=Sampling()).choice

    assert (read(truncated=True), read(truncated=False)) == (choice, "B")


def test_a_vote_counts_no_label_with_which_one_of_its_texts_was_cut_off() -> None:
    said = "It is on the Tiber.\nA"  # which may go on as "Also"
    texts = (Text(said, 3, truncated=True), Text("Answer: B", 3), Text("It is on the Tiber.\nA", 3))
    found = MODES[Mode.VOTE].read(CAPITAL, [Completion(texts=texts)], make_spec(**WRITES[1]))
    assert isinstance(found, Reading)
    assert found.choice_scores == {"A": 1 / 3, "B": 1 / 3, "C": 0.0, "D": 0.0}


def test_of_several_texts_one_that_the_context_cut_off_is_told_of_the_verdict() -> None:
    texts = (Text("Answer: B", 3, truncated=False), Text("It is", 3, truncated=True, context_full=True))

    class Cut(ReadyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            return [Completion(texts=texts) for _ in requests]

    verdict = ask(Cut(load_settings()), mode=Mode.VOTE, sampling=Sampling(samples=2, temperature=1.0))
    assert (verdict.choice, verdict.truncated, verdict.context_full) == ("B", True, True)


def test_a_text_that_names_several_choices_is_right_where_each_of_them_is() -> None:
    several = CAPITAL.model_copy(update={"also_right": ("D",)})
    both = Writer(lambda _: ["The answer is B and D."])
    one = Writer(lambda _: ["The answer is B and C."])

    verdict = ask(both, several, mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice, verdict.rule) == (Outcome.CORRECT, "B", "each-right")
    assert ask(one, several, mode=Mode.GENERATE, sampling=Sampling()).outcome is Outcome.UNANSWERED
    assert ask(both, CAPITAL, mode=Mode.GENERATE, sampling=Sampling()).outcome is Outcome.UNANSWERED
    twice = Writer(lambda _: ["The answer is B and D.", "Both B and D are correct. So B, D."])
    assert ask(twice, several, mode=Mode.VOTE, sampling=Sampling(samples=2, temperature=1.0)).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    "text", ["The answer is B, D and A.", "B, D, A", "The answer is 2, 4 and 1.", r"\boxed{A} and \boxed{B}"]
)
def test_a_third_choice_that_is_wrong_is_not_overheard_behind_two_that_are_right(text: str) -> None:
    several = CAPITAL.model_copy(update={"also_right": ("D",)})
    verdict = ask(Writer(lambda _: [text]), several, mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice) == (Outcome.UNANSWERED, None)


def test_how_a_text_is_read_does_not_depend_on_which_choice_is_right() -> None:
    text = Writer(lambda _: ["The answer is A. For children, the answer is E."])  # there is no E
    found = [
        ask(text, CAPITAL.model_copy(update={"answer": key}), mode=Mode.GENERATE, sampling=Sampling()) for key in "AB"
    ]
    assert [(each.outcome, each.choice, each.rule) for each in found] == [(Outcome.UNANSWERED, None, "ambiguous")] * 2


def test_a_text_that_names_no_choice_is_unanswered_and_never_a_guess() -> None:
    verdict = ask(Writer(lambda _: ["I would rather not say."]), mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice) == (Outcome.UNANSWERED, None)


REASONED = Prompt(name="reasoned", text=LETTERED.text.removesuffix("Answer:") + "\nThink, then give the letter.")


@pytest.mark.parametrize(
    ("prompt", "text", "choice"),
    [
        (LETTERED, " B\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A\n\nCapital of", "B"),
        (LETTERED, " B. Rome\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A\n\nCapital of", "B"),
        (LETTERED, " B\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A", "B"),
        (LETTERED, " The answer is B.\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A", "B"),
        (LETTERED, " B\nRome is the capital.\n\nThe capital of Spain is\nA. Madrid\nB. Oslo\nAnswer: A", "B"),
        (LETTERED, " B\n\nCapital of France?\nA. Paris\nB. Nice\nAnswer: A", "B"),
        (LETTERED, " Rome\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A\n\nOf Peru?\nA. Lima\nB. Cusco", "B"),
        (LETTERED, " Hm.\n\nCapital of Italy?\nA. Paris\nB. Rome\nAnswer: B", "B"),
        (
            LETTERED,
            " Paris?\n\nIs that right? Let me check each:\nA. is in France: no\nB. is in Italy: yes\n\nSo B",
            "B",
        ),
        (LETTERED, "I'd say A.\n\nBut is it in Italy?\nA. it is in France: no\nB. it is: yes\n\nThe answer is B.", "B"),
        (LETTERED, " A\n\nLet me look again:\nA. Paris: no.\nB. Rome: yes.\nAnswer: B", "B"),
        (LETTERED, "Let me see.\n\nOf these:\nA. is in France\nB. is in Italy\nAnswer: B", "B"),
        (LETTERED, "It is not Rome but Paris.\n\nThat is:\nA. in France\nB. in Italy\nNo: the answer is B", "B"),
        (
            REASONED,
            "It is in Lazio.\nAnswer: B\n\nOf Spain?\nA. Madrid\nB. Oslo\n\nThink, then give the letter.\nAnswer: A",
            "B",
        ),
        (REASONED, "Hm.\n\nCapital of Italy?\nA. Paris\nB. Rome\n\nThink, then give the letter.\nAnswer: B", "B"),
    ],
)
def test_the_answer_to_a_question_that_a_model_makes_up_behind_its_own_is_not_taken_for_it(
    prompt: Prompt, text: str, choice: str
) -> None:
    verdict = ask(Writer(lambda _: [text]), mode=Mode.GENERATE, sampling=Sampling(), prompt=prompt)
    assert (verdict.choice, verdict.raw_text) == (choice, text)


def test_an_answer_behind_the_restated_question_is_read() -> None:
    text = "First I restate it.\n\nQuestion: Capital of Italy?\n\nThe answer is B."
    assert ask(Writer(lambda _: [text]), mode=Mode.GENERATE, sampling=Sampling()).choice == "B"


def test_vote_takes_the_majority_and_its_share_as_confidence() -> None:
    engine = Writer(lambda _: ["Answer: B", "Answer: A", "hm", "Answer: B"])
    verdict = ask(engine, mode=Mode.VOTE, sampling=Sampling(samples=4, temperature=0.7))
    assert (verdict.outcome, verdict.choice, verdict.confidence, verdict.margin) == (Outcome.CORRECT, "B", 0.5, 0.25)
    assert verdict.choice_scores == {"A": 0.25, "B": 0.5, "C": 0.0, "D": 0.0}
    assert json.loads(verdict.raw_text) == ["Answer: B", "Answer: A", "hm", "Answer: B"]


def test_texts_that_name_no_choice_win_no_vote_however_many_they_are() -> None:
    engine = Writer(lambda _: ["hm", "Answer: B", "well"])
    verdict = ask(engine, mode=Mode.VOTE, sampling=Sampling(samples=3, temperature=0.7))
    assert (verdict.choice, verdict.confidence, verdict.margin) == ("B", 1 / 3, 1 / 3)


def test_a_vote_in_which_no_text_names_a_choice_is_unanswered_and_keeps_the_texts() -> None:
    engine = Writer(lambda _: ["hm", "¿qué?"], truncated=True)
    verdict = ask(engine, mode=Mode.VOTE, sampling=Sampling(samples=2, temperature=0.7))
    assert (verdict.outcome, verdict.choice, verdict.confidence) == (Outcome.UNANSWERED, None, None)
    assert verdict.choice_scores == dict.fromkeys("ABCD", 0.0)
    assert verdict.raw_text == '["hm", "¿qué?"]'
    assert verdict.truncated


@pytest.mark.parametrize("truncated", [False, True])
def test_a_vote_is_truncated_if_any_of_its_texts_is(truncated: bool) -> None:
    texts = (Text("Answer: B", 3), Text("Answer: B", 3, truncated))
    found = MODES[Mode.VOTE].read(CAPITAL, [Completion(texts=texts)], make_spec(**WRITES[1]))
    assert isinstance(found, Reading)
    assert (found.choice, found.truncated) == ("B", truncated)


def test_a_vote_that_the_rules_fail_on_is_not_counted_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(question: Question, text: str, spec: RunSpec, *, truncated: bool) -> Extraction:
        if text == "!":
            raise IndexError("no such group")
        return named(question, text, spec, truncated=truncated)

    monkeypatch.setattr("workers.scoring.vote.named", fragile)

    def vote(*texts: str) -> Verdict:
        sampling = Sampling(samples=len(texts), temperature=0.7)
        return ask(Writer(lambda _: texts), mode=Mode.VOTE, sampling=sampling)

    verdict = vote("!", "Answer: B", "hm", "!")
    assert (verdict.outcome, verdict.choice, verdict.confidence) == (Outcome.CORRECT, "B", 0.25)
    unread = vote("!", "!")
    assert (unread.outcome, unread.error) == (Outcome.FAILED, Failure(type="IndexError", message="no such group"))


@pytest.mark.parametrize("spec", WRITES, ids=lambda spec: spec["mode"])
def test_what_was_cut_off_in_reasoning_that_the_chat_template_had_begun_is_no_answer(spec: dict[str, Any]) -> None:
    def written(text: str, prompt_end: str, *, truncated: bool = True) -> Outcome:
        samples = 2 if spec["mode"] is Mode.VOTE else 1
        engine = Writer(lambda _: samples * [text], prompt_end, truncated=truncated)
        verdict = ask(engine, **spec)
        assert len(engine.calls) == 1, "nothing is judged that was not said"
        return verdict.outcome

    thought = "Paris is in France. The answer must be B. But the question says"
    assert written(thought, "‹assistant›<think>\n") is Outcome.UNANSWERED
    if spec["mode"] is Mode.JUDGE:
        return
    assert written(f"{thought}</think>The answer is B, as", "‹assistant›<think>\n") is Outcome.CORRECT
    assert written(thought, "‹assistant›<think>\n\n</think>\n\n") is Outcome.CORRECT, "it was told not to reason"
    assert written(thought, "‹assistant›") is Outcome.CORRECT
    assert written("The answer is B.", "‹assistant›<think>\n", truncated=False) is Outcome.CORRECT, "it did not reason"


def test_what_a_stop_string_ended_in_such_reasoning_is_no_answer_either() -> None:
    """A stop at an empty line ended it behind its first paragraph, which was read as if it answered."""
    for stopped, text in ((True, "<think>\nHmm. The answer is A."), (False, "Hmm. The answer is A.")):
        written = Completion(texts=(Text("Hmm. The answer is A.", 5, stopped=stopped),), prompt_end="<think>\n")
        assert texts_of(written)[0].text == text


@pytest.mark.parametrize("spec", WRITES[:2], ids=lambda spec: spec["mode"])
def test_a_letter_names_no_choice_where_the_prompt_shows_none(spec: dict[str, Any]) -> None:
    """ "D", for vitamin D, was read as the fourth choice, vitamin A."""
    vitamins = make_question(1, choices=tuple(f"Vitamin {letter}" for letter in "CDKA"), answer="B")

    def outcome(text: str) -> Outcome:
        return ask(Writer(lambda _: 2 * [text] if "samples=2" in str(spec) else [text]), vitamins, **blind).outcome

    blind = {**spec, "prompt": Prompt(name="bare", text="{{ question }}")}
    assert outcome("The answer is D.") is Outcome.UNANSWERED
    assert outcome("It is vitamin D.") is Outcome.CORRECT


def test_a_prompt_without_choices_is_answered_by_its_text() -> None:
    prompt = Question(id="q", question="Say hello.", choices=())
    verdict = ask(Writer(lambda _: ["Answer: B"], truncated=True), prompt, mode=Mode.FREE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice, verdict.raw_text) == (Outcome.ANSWERED, None, "Answer: B")
    assert verdict.truncated


def test_of_equal_votes_the_choice_named_first_wins() -> None:
    engine = Writer(lambda _: ["Answer: C", "Answer: B"])
    assert ask(engine, mode=Mode.VOTE, sampling=Sampling(samples=2, temperature=1.0)).choice == "C"


def test_votes_for_several_right_choices_are_not_added_up() -> None:
    both = CAPITAL.model_copy(update={"answer": "A", "also_right": ("B",)})
    engine = Writer(lambda _: [f"Answer: {label}" for label in "AABBCCC"])
    verdict = ask(engine, both, mode=Mode.VOTE, sampling=Sampling(samples=7, temperature=1.0))
    assert (verdict.outcome, verdict.choice, verdict.confidence) == (Outcome.WRONG, "C", 3 / 7)


def test_a_question_is_sampled_with_the_same_seed_in_whatever_batch_it_is() -> None:
    spec = make_spec(mode=Mode.GENERATE, sampling=Sampling())
    engine = Writer(lambda _: ["Answer: A"])
    questions = make_questions(4)
    score_batch([Item(each, spec) for each in questions], engine)
    score_batch([Item(questions[2], spec)], engine)
    together, alone = engine.calls
    assert together[2] == alone[0]
    assert len({each.seed for each in together if isinstance(each, GenerateRequest)}) == 4


def test_the_chat_template_is_used_as_the_spec_says() -> None:
    engine = Writer(lambda _: ["Answer: A"])
    ask(engine, mode=Mode.GENERATE, sampling=Sampling(), chat_template=ChatTemplate.AUTO)
    assert engine.calls[0][0].chat == Chat(ChatTemplate.AUTO)
