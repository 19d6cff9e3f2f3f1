"""The modes that write, few-shot, and the order of choices: from question to verdict, with scripted engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from contract import Failure, Mode, Outcome, Prompt, Question, Verdict, load_settings
from contract.choice_order import arrangements
from contract.prompts import examples
from contract.spec import Chat, ChatTemplate, FewShot, Judge, RunSpec, Sampling, Selection
from tests.support import build_prompt, make_question, make_questions, make_spec
from tests.unit.workers.engines import LETTERED, ReadyEngine
from workers.engines.base import Completion, GenerateRequest, Request, ScoreRequest, Text
from workers.pipeline import score_batch
from workers.scoring import Item
from workers.scoring.extract import Extraction
from workers.scoring.generate import named

GRADE = Prompt(name="grade", text="{{ question }} | {{ reference }} | {{ response }}")
CAPITAL = make_question(1, question="Capital of Italy?", choices=("Paris", "Rome", "Oslo", "Bern"), answer="B")


class Writer(ReadyEngine):
    """Writes what `says` makes of a request; remembers all requests, call by call.

    `prompt_end` is what its chat template writes last; `truncated`: nothing that it writes comes to its end.
    """

    def __init__(
        self, says: Callable[[GenerateRequest], Sequence[str]], prompt_end: str = "", *, truncated: bool = False
    ) -> None:
        super().__init__(load_settings())
        self.calls: list[list[Request]] = []
        self._says = says
        self._prompt_end, self._truncated = prompt_end, truncated

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(list(requests))
        return [self._answer(each) for each in requests]

    def _answer(self, request: Request) -> Completion:
        if isinstance(request, ScoreRequest):
            # Likes whatever is shown in the first place.
            return Completion(
                logprobs=tuple(-float(i) for i in range(len(request.continuations))), token_counts=(1,) * 4
            )
        texts = tuple(Text(each, tokens=3, truncated=self._truncated) for each in self._says(request))
        return Completion(texts=texts, prompt_end=self._prompt_end, prompt_tokens=5)


def ask(engine: ReadyEngine, question: Question = CAPITAL, **spec: object) -> Verdict:
    (verdict,) = score_batch([Item(question, make_spec((), **{"prompt": LETTERED, **spec}))], engine)
    return verdict


def test_generate_reads_the_choice_by_a_named_rule_and_keeps_the_text() -> None:
    verdict = ask(Writer(lambda _: ["It is in Lazio. Answer: B"]), mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice) == (Outcome.CORRECT, "B")
    assert verdict.raw_text == "It is in Lazio. Answer: B"
    assert verdict.rule not in {"", "none"}
    assert verdict.completion_tokens == 3


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


def test_a_text_that_names_no_choice_is_unanswered_and_never_a_guess() -> None:
    verdict = ask(Writer(lambda _: ["I would rather not say."]), mode=Mode.GENERATE, sampling=Sampling())
    assert (verdict.outcome, verdict.choice) == (Outcome.UNANSWERED, None)


REASONED = Prompt(name="reasoned", text=LETTERED.text.removesuffix("Answer:") + "\nThink, then give the letter.")


@pytest.mark.parametrize(
    ("prompt", "text", "choice"),
    [
        (LETTERED, " B\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A\n\nCapital of", "B"),
        (LETTERED, " B. Rome\n\nCapital of Spain?\nA. Madrid\nB. Oslo\nAnswer: A\n\nCapital of", "B"),
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


def test_a_vote_that_the_rules_fail_on_is_not_counted_and_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(question: Question, text: str, spec: RunSpec) -> Extraction:
        if text == "!":
            raise IndexError("no such group")
        return named(question, text, spec)

    monkeypatch.setattr("workers.scoring.vote.named", fragile)

    def vote(*texts: str) -> Verdict:
        sampling = Sampling(samples=len(texts), temperature=0.7)
        return ask(Writer(lambda _: texts), mode=Mode.VOTE, sampling=sampling)

    verdict = vote("!", "Answer: B", "hm", "!")
    assert (verdict.outcome, verdict.choice, verdict.confidence) == (Outcome.CORRECT, "B", 0.25)
    unread = vote("!", "!")
    assert (unread.outcome, unread.error) == (Outcome.FAILED, Failure(type="IndexError", message="no such group"))


WRITES: tuple[dict[str, Any], ...] = (
    {"mode": Mode.GENERATE, "sampling": Sampling()},
    {"mode": Mode.VOTE, "sampling": Sampling(samples=2, temperature=1.0)},
    {"mode": Mode.JUDGE, "sampling": Sampling(), "judge": Judge(prompt=GRADE)},
)


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


def test_of_equal_votes_the_choice_named_first_wins() -> None:
    engine = Writer(lambda _: ["Answer: C", "Answer: B"])
    assert ask(engine, mode=Mode.VOTE, sampling=Sampling(samples=2, temperature=1.0)).choice == "C"


def test_votes_for_several_right_choices_are_not_added_up() -> None:
    both = CAPITAL.model_copy(update={"answer": "A", "also_right": ("B",)})
    engine = Writer(lambda _: [f"Answer: {label}" for label in "AABBCCC"])
    verdict = ask(engine, both, mode=Mode.VOTE, sampling=Sampling(samples=7, temperature=1.0))
    assert (verdict.outcome, verdict.choice, verdict.confidence) == (Outcome.WRONG, "C", 3 / 7)


def judged(*grades: str, answer: str = "It is Rome.", truncated: bool = False) -> tuple[Verdict, Writer]:
    left = list(grades)
    engine = Writer(lambda request: [left.pop(0) if "|" in request.prompt else answer], truncated=truncated)
    open_prompt = Prompt(name="open", text="{{ question }}")
    judge = Judge(prompt=GRADE, retries=2)
    return ask(engine, mode=Mode.JUDGE, sampling=Sampling(), judge=judge, prompt=open_prompt), engine


def test_the_judge_sees_question_reference_and_answer_and_decides() -> None:
    verdict, engine = judged('{"correct": true, "reason": "the same city"}')
    assert (verdict.outcome, verdict.judge_reason, verdict.rule) == (Outcome.CORRECT, "the same city", "judge")
    assert verdict.raw_text == "It is Rome."
    (grading,) = engine.calls[1]
    assert grading.prompt == "Capital of Italy? | Rome | It is Rome."


def test_a_judge_reasons_as_much_as_it_is_told_and_a_model_that_grades_itself_as_for_its_answer() -> None:
    own = Judge(prompt=GRADE)
    other = Judge(prompt=GRADE, server="http://judge", model="wise", reasoning_effort="low")
    writer = Writer(lambda request: ['{"correct": true, "reason": "yes"}' if "|" in request.prompt else "Rome"])
    sampling, prompt = Sampling(reasoning_effort="high"), Prompt(name="open", text="{{ question }}")
    for judge in (own, other):
        spec = make_spec((), mode=Mode.JUDGE, sampling=sampling, judge=judge, prompt=prompt)
        score_batch([Item(CAPITAL, spec)], writer, lambda _: writer)
    efforts = [each.sampling.reasoning_effort for (each,) in writer.calls if isinstance(each, GenerateRequest)]
    assert efforts == ["high", "high", "high", "low"]


@pytest.mark.parametrize("answer", ["", " \n", "<think>Rome, or is it"], ids=["nothing", "blank", "unfinished"])
def test_where_the_model_said_nothing_a_judge_that_likes_everything_is_not_asked(answer: str) -> None:
    verdict, engine = judged(answer=answer)
    assert (verdict.outcome, verdict.raw_text) == (Outcome.UNANSWERED, answer)
    assert len(engine.calls) == 1


def test_the_judge_is_shown_what_was_said_and_not_what_was_thought() -> None:
    verdict, engine = judged('{"correct": true, "reason": "yes"}', answer="<think>Paris? Oslo?</think>\nRome.")
    assert engine.calls[1][0].prompt == "Capital of Italy? | Rome | Rome."
    assert verdict.raw_text == "<think>Paris? Oslo?</think>\nRome."


OPEN = Prompt(name="open", text="{{ question }}\nAnswer in one short sentence.")
PLAIN = Prompt(name="question", text="Question: {{ question }}\nAnswer:")
SHOT = FewShot(k=1, pool=(make_question(8, question="Capital of France?", choices=("Paris", "Bern")),))


@pytest.mark.parametrize(
    ("prompt", "few_shot", "answer", "shown"),
    [
        (OPEN, None, "Rome.\n\nCapital of Spain?\nAnswer in one short sentence.\nMadrid.", "Rome."),
        (OPEN, None, "Rome.\nCapital of Spain?\nAnswer in one short sentence.\nMadrid.", "Rome."),
        (
            OPEN,
            None,
            "Rome.\n\nIt is in Lazio.\n\nAnd Spain?\nAnswer in one short sentence.",
            "Rome.\n\nIt is in Lazio.",
        ),
        (OPEN, SHOT, " Rome\n\nCapital of Spain?\nAnswer in one short sentence. Madrid\n\nCap", "Rome"),
        (OPEN, None, "Sure.\n\nCapital of Italy?\nAnswer in one short sentence.\nRome.", None),
        (OPEN, None, "Capital of Italy?\nAnswer in one short sentence.\nRome.", None),
        (OPEN, None, "\nAnswer in one short sentence.\nRome.", "Answer in one short sentence.\nRome."),
        (PLAIN, None, " Let me see. It is in Lazio.\n\nAnswer: Rome", "Let me see. It is in Lazio.\n\nAnswer: Rome"),
        (PLAIN, SHOT, " Rome\n\nCapital of Spain? Madrid", "Rome"),
        (OPEN, None, "First, the task.\n\nQuestion: Capital of Italy?\n\nRome.", None),
        (OPEN, None, "Rome.\n\nQuestion: Capital of Italy?\n\nRome.", "Rome."),
        (OPEN, None, "In Lazio.\n\nQuestion: Capital of Spain?\n\nMadrid.", "In Lazio."),
    ],
)
def test_the_judge_is_not_shown_the_questions_that_a_model_makes_up_behind_its_answer(
    prompt: Prompt, few_shot: FewShot | None, answer: str, shown: str | None
) -> None:
    grade = '{"correct": true, "reason": "yes"}'
    engine = Writer(lambda request: [grade if "|" in request.prompt else answer])
    judge = Judge(prompt=GRADE)

    verdict = ask(engine, mode=Mode.JUDGE, sampling=Sampling(), judge=judge, prompt=prompt, few_shot=few_shot)

    (grading,) = engine.calls[1]
    assert isinstance(grading, GenerateRequest)
    assert grading.prompt == f"Capital of Italy? | Rome | {answer if shown is None else shown}"
    assert verdict.raw_text == answer


def test_a_judge_may_think_before_it_writes_its_grade() -> None:
    verdict, _ = judged('<think>{"correct": true?}</think>{"correct": false, "reason": "no"}')
    assert verdict.outcome is Outcome.WRONG


def test_the_judge_may_say_wrong_whatever_the_text_names() -> None:
    verdict, _ = judged('```json\n{"correct": false, "reason": "no"}\n```')
    assert (verdict.outcome, verdict.choice) == (Outcome.WRONG, "B")


BLOOD = make_question(3, question="Whose blood?", choices=("O positive", "A positive", "B positive"), answer="B")


@pytest.mark.parametrize(
    ("prompt", "answer", "choice"),
    [
        (OPEN, "The answer is A.", None),
        (OPEN, "The answer is A positive.", "B"),
        (OPEN, "A positive.", "B"),
        (OPEN, "The first option is O positive, but I'd say the second option.", None),
        (LETTERED, "The answer is A.", "A"),
    ],
)
def test_a_letter_in_a_free_answer_is_no_label_that_the_model_never_saw(
    prompt: Prompt, answer: str, choice: str | None
) -> None:
    engine = Writer(lambda request: ['{"correct": true, "reason": "y"}' if "|" in request.prompt else answer])
    verdict = ask(engine, BLOOD, mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=GRADE), prompt=prompt)
    assert (verdict.outcome, verdict.choice) == (Outcome.CORRECT, choice)


def test_a_judge_is_told_what_was_wrong_and_asked_again() -> None:
    verdict, engine = judged("Yes!", '{"correct": "maybe"}', '{"correct": true, "reason": "fine"}')
    assert verdict.outcome is Outcome.CORRECT
    assert len(engine.calls) == 4
    assert "Your answer was: Yes!" in engine.calls[2][0].prompt


def test_a_judge_that_gives_a_long_reason_is_not_asked_again_and_its_grade_counts() -> None:
    verdict, engine = judged(json.dumps({"correct": True, "reason": "so " * 200}))

    assert (verdict.outcome, verdict.judge_reason) == (Outcome.CORRECT, "so " * 100)
    assert len(engine.calls) == 2, "the answer and one grade"
    (schema,) = (request.json_schema for request in engine.calls[1] if isinstance(request, GenerateRequest))
    assert json.loads(schema)["properties"]["reason"]["maxLength"] == 300, "as before, the judge is held to it"


def test_a_judge_that_never_answers_makes_the_question_failed_not_wrong() -> None:
    verdict, _ = judged("no", "no", "no")
    assert verdict.outcome is Outcome.FAILED
    assert verdict.error is not None
    assert verdict.error.type == "JudgeSilent"


def test_a_grade_that_was_cut_off_names_the_setting_to_raise() -> None:
    verdict, _ = judged(*['{"correct": true, "rea'] * 3, truncated=True)
    assert verdict.error is not None
    assert verdict.error.message.endswith("cut off at judge.max_tokens 256: raise it")


def test_a_judge_that_this_worker_cannot_reach_fails_its_questions_alone() -> None:
    judge = Judge(prompt=GRADE, server="http://nowhere", model="grader")
    judged_elsewhere = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    own = make_spec(mode=Mode.GENERATE, sampling=Sampling())
    items = [Item(CAPITAL, judged_elsewhere), Item(make_question(2, question="2?"), own)]
    lost, scored = score_batch(items, Writer(lambda _: ["Answer: A"]))
    assert lost.outcome is Outcome.FAILED
    assert lost.error is not None
    assert "http://nowhere" in lost.error.message
    assert scored.error is None


def test_all_gradings_of_a_batch_go_into_one_call() -> None:
    engine = Writer(lambda request: ['{"correct": true, "reason": ""}' if "|" in request.prompt else "Rome"])
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=GRADE))
    score_batch([Item(each, spec) for each in make_questions(5)], engine)
    assert [len(call) for call in engine.calls] == [5, 5]


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


def test_a_model_that_likes_the_first_place_is_caught_by_circular() -> None:
    verdict = ask(Writer(lambda _: []), mode=Mode.LETTER, circular=True)
    assert (verdict.rotations, verdict.rotations_right) == (4, 1)
    assert verdict.rotation_choices == ("A", "B", "C", "D"), "the first one shown, in the file's words"
    assert verdict.outcome is not Outcome.CORRECT


def test_a_model_that_knows_is_right_in_every_rotation() -> None:
    def knows(request: GenerateRequest) -> list[str]:
        (line,) = [line for line in request.prompt.splitlines() if line.endswith(". Rome")]
        return [f"Answer: {line[0]}"]

    verdict = ask(Writer(knows), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.outcome, verdict.choice, verdict.rotations_right, verdict.rotations) == (Outcome.CORRECT, "B", 4, 4)
    assert verdict.rotation_choices == ("B", "B", "B", "B")


def test_a_rotation_without_a_choice_has_none() -> None:
    def sometimes(request: GenerateRequest) -> list[str]:
        return ["Answer: A" if "A. Rome" in request.prompt else "No idea."]

    verdict = ask(Writer(sometimes), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.rotation_choices, verdict.rotations_right) == ((None, "B", None, None), 1)


def test_shuffled_choices_are_read_back_into_their_original_labels() -> None:
    chosen = set()
    for number in range(40):
        question = CAPITAL.model_copy(update={"id": f"q{number}"})
        verdict = ask(Writer(lambda _: []), question, mode=Mode.LETTER, shuffle=True)
        (arrangement,) = arrangements(question, make_spec(mode=Mode.LETTER, shuffle=True))
        assert verdict.choice == arrangement.original("A")
        assert (verdict.outcome is Outcome.CORRECT) == (arrangement.question.choices[0] == "Rome")
        assert list(verdict.choice_scores) == ["A", "B", "C", "D"]
        chosen.add(verdict.choice)
    assert chosen == {"A", "B", "C", "D"}


def test_several_right_choices_stay_the_right_ones_in_every_order() -> None:
    question = CAPITAL.model_copy(update={"answer": "B", "also_right": ("D",)})
    right = {question.choice_text(label) for label in question.right}
    for arranged in arrangements(question, make_spec(mode=Mode.LETTER, circular=True)):
        shown = arranged.question
        assert {shown.choice_text(label) for label in shown.right} == right
        assert {arranged.original(label) for label in shown.right} == {"B", "D"}


def test_an_order_depends_on_seed_and_question_alone() -> None:
    def orders(seed: int) -> list[tuple[int, ...]]:
        spec = make_spec(mode=Mode.LETTER, shuffle=True, seed=seed)
        return [arrangements(each, spec)[0].order for each in make_questions(20)]

    assert orders(1) == orders(1) != orders(2)


POOL = tuple(make_questions(6))


def test_examples_come_solved_before_the_question() -> None:
    spec = make_spec(few_shot=FewShot(k=2, pool=POOL))
    prompt = build_prompt(make_question(50), spec)
    assert prompt == (
        "Question: What is 0 plus 0?\nAnswer: 0\n\nQuestion: What is 1 plus 1?\nAnswer: 3\n\n"
        "Question: What is 50 plus 50?\nAnswer:"
    )


def test_examples_of_a_lettered_prompt_are_solved_by_their_letter() -> None:
    spec = make_spec(mode=Mode.LETTER, prompt=LETTERED, few_shot=FewShot(k=1, pool=POOL))
    assert "Answer: A\n\n" in build_prompt(make_question(50), spec)


def of_subject(subject: str | None, *numbers: int) -> tuple[Question, ...]:
    return tuple(make_question(number, subject=subject) for number in numbers)


def test_examples_by_subject_are_the_first_of_the_questions_own() -> None:
    pool = (*of_subject("law", 0, 1, 2), *of_subject("art", 3, 4), *of_subject(None, 5, 6))
    few_shot = FewShot(k=2, selection=Selection.SUBJECT, pool=pool)

    def shown(subject: str | None) -> list[str]:
        return [each.id for each in examples(make_question(50, subject=subject), few_shot, seed=1)]

    assert (shown("law"), shown("art"), shown(None)) == (["q0", "q1"], ["q3", "q4"], ["q5", "q6"])


def test_a_description_stands_once_before_the_examples_and_names_the_questions_subject() -> None:
    spec = make_spec(few_shot=FewShot(k=1, pool=POOL), description='On {{ subject | replace("_", " ") }}.')

    asked = build_prompt(make_question(50, subject="world_history"), spec)

    assert asked.startswith("On world history.\n\nQuestion: What is 0 plus 0?\nAnswer: 0\n\nQuestion: What is 50")
    assert build_prompt(make_question(50), spec).count("On ") == 1


@pytest.mark.parametrize("spec", WRITES[:2], ids=lambda spec: spec["mode"])
@pytest.mark.parametrize("reasoning", ["", "\nIt lies on the Tiber.\nAnswer:"], ids=["label", "reasoned"])
def test_questions_that_a_model_makes_up_behind_its_answer_are_not_read_for_one(
    reasoning: str, spec: dict[str, Any]
) -> None:
    """A model that was shown examples goes on with more of them until `max_tokens` ends it."""
    few_shot = FewShot(k=1, pool=POOL)
    text = f"{reasoning} B\n\nCapital of Spain?\nA. Lima\nB. Quito\nC. Madrid\nD. Bern\nAnswer: C\n\nCapital of"

    def read(text: str, **more: Any) -> Verdict:
        samples = 2 if spec["mode"] is Mode.VOTE else 1
        return ask(Writer(lambda _: samples * [text]), **{**spec, "few_shot": few_shot, **more})

    assert read(text).choice == "B"
    assert read(text).raw_text.count("Spain"), "what was written is kept"
    assert read(text, chat_template=ChatTemplate.TURNS).choice == "C", "a turn has one answer, the last one"
    second_thoughts = f"{reasoning} B\n\nA. Paris is in France.\nB. Rome is in Italy, but wait.\n\nThe answer is C."
    assert read(second_thoughts).choice == "C"
    assert read(f"<think>{text}</think>The answer is D.").choice == "D"


def test_examples_with_reasoning_are_solved_as_the_model_is_told_to_end() -> None:
    pool = tuple(make_question(number, metadata={"cot": f"Twice {number}."}) for number in range(2))
    spec = make_spec(
        mode=Mode.GENERATE,
        sampling=Sampling(),
        prompt=Prompt(name="t", text="{{ question }}"),
        few_shot=FewShot(k=2, rationale="cot", pool=pool),
    )

    assert build_prompt(make_question(50), spec) == (
        "What is 0 plus 0?\nTwice 0.\nAnswer: A\n\nWhat is 1 plus 1?\nTwice 1.\nAnswer: B\n\nWhat is 50 plus 50?"
    )


def test_a_template_may_name_the_subject() -> None:
    spec = make_spec(prompt=Prompt(name="t", text="{{ subject }}: {{ question }}"))

    assert build_prompt(make_question(1, subject="sums"), spec) == "sums: What is 1 plus 1?"
    assert build_prompt(make_question(1, subject=None), spec) == ": What is 1 plus 1?"


@pytest.mark.parametrize("selection", [Selection.FIXED, Selection.SEEDED])
def test_a_question_is_never_shown_to_itself(selection: Selection) -> None:
    few_shot = FewShot(k=5, selection=selection, pool=POOL)
    for seed, question in enumerate(POOL):
        shown = examples(question, few_shot, seed)
        assert len(shown) == 5
        assert question not in shown
    twin = POOL[0].model_copy(update={"id": "under another id"})
    assert POOL[0] not in examples(twin, few_shot, 1)


@pytest.mark.parametrize("selection", Selection)
def test_white_space_case_and_order_that_another_file_has_make_no_other_question_of_it(selection: Selection) -> None:
    few_shot = FewShot(k=len(POOL) - 1, selection=selection, pool=POOL)
    spaced = POOL[0].model_copy(update={"question": f" {POOL[0].question.replace(' ', '  ', 1)}\n"})
    louder = POOL[0].model_copy(update={"question": POOL[0].question.upper(), "choices": POOL[0].choices[::-1]})

    assert POOL[0] not in examples(spaced, few_shot, seed=1)
    assert POOL[0] not in examples(louder, few_shot, seed=1)


@pytest.mark.parametrize("selection", Selection)
def test_questions_that_read_alike_about_different_contexts_or_choices_are_examples_of_each_other(
    selection: Selection,
) -> None:
    said, verdicts = "Is the claim supported?", ("yes", "no")
    by_context = [make_question(n, question=said, choices=verdicts, context=f"Text {n}.", answer="A") for n in range(4)]
    by_choices = [make_question(n, question=said, choices=(f"claim {n}", "none"), answer="A") for n in range(4, 8)]
    pool = tuple(each.model_copy(update={"subject": "facts"}) for each in (*by_context, *by_choices))
    few_shot = FewShot(k=7, selection=selection, pool=pool)

    for seed, question in enumerate(pool):
        shown = examples(question, few_shot, seed)
        assert sorted(each.id for each in shown) == [each.id for each in pool if each.id != question.id]


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("size", [2, 40, 500])
def test_examples_are_those_of_a_list_of_all_others(selection: Selection, size: int) -> None:
    choices = ("a", "b", "c", "d")
    asked = [f"What is {n * n % (size // 2)}?" for n in range(size)]  # some come twice
    pool = tuple(make_question(n, question=each, choices=choices) for n, each in enumerate(asked))
    for k in {1, 2, min(size, 30)}:
        few_shot = FewShot(k=k, selection=selection, pool=pool)
        for seed, question in enumerate((*pool, make_question(size))):
            others = [each for each in pool if each.question != question.question]
            if selection is Selection.SUBJECT:
                others = [each for each in others if each.subject == question.subject]
            drawn = Random(seed).sample(others, min(k, len(others)))
            expected = drawn if selection is Selection.SEEDED else others[:k]
            assert list(examples(question, few_shot, seed)) == expected


class Steps(tuple[Question, ...]):
    """Counts how often one of them is looked at on a walk through them."""

    taken = 0

    def __iter__(self) -> Iterator[Question]:
        for each in super().__iter__():
            self.taken += 1
            yield each


@pytest.mark.parametrize("selection", Selection)
def test_the_pool_is_read_through_once_at_most_and_not_for_every_question(selection: Selection) -> None:
    pool = Steps(make_question(number) for number in range(1000))
    few_shot = FewShot.model_construct(k=2, selection=selection, pool=pool)
    for number in range(1000, 1100):
        assert len(examples(make_question(number), few_shot, seed=number)) == 2
    assert pool.taken <= 1000


def test_an_example_that_only_has_the_questions_id_is_another_question() -> None:
    question = make_question(50, id=POOL[0].id)

    assert POOL[0] in examples(question, FewShot(k=1, pool=POOL), seed=0)


def test_seeded_examples_differ_from_question_to_question_and_repeat_for_one() -> None:
    spec = make_spec(few_shot=FewShot(k=2, selection=Selection.SEEDED, pool=POOL))
    prompts = [build_prompt(make_question(number), spec).rpartition("Question:")[0] for number in range(50, 60)]
    assert len(set(prompts)) > 1
    assert prompts == [build_prompt(make_question(n), spec).rpartition("Question:")[0] for n in range(50, 60)]
