"""Free answers, graded by a judge."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from contract import Mode, Outcome, Prompt, Verdict, load_settings
from contract.spec import ChatTemplate, FewShot, Judge, Sampling
from tests.support import make_question, make_questions, make_spec
from tests.unit.workers.ready_engine import LETTERED, ReadyEngine
from tests.unit.workers.writer import CAPITAL, GRADE, WRITES, Writer, ask
from workers.engines.base import Completion, GenerateRequest, Request, Text
from workers.pipeline import score_batch
from workers.scoring import Item


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


@pytest.mark.parametrize(
    ("answer", "rule"),
    [("", "none"), (" \n", "none"), ("<think>Rome, or is it", "unfinished-reasoning")],
    ids=["nothing", "blank", "unfinished"],
)
def test_where_the_model_said_nothing_a_judge_that_likes_everything_is_not_asked(answer: str, rule: str) -> None:
    verdict, engine = judged(answer=answer)
    assert (verdict.outcome, verdict.rule, verdict.raw_text) == (Outcome.UNANSWERED, rule, answer)
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


def test_the_choice_beside_a_grade_is_that_of_the_answer_and_not_of_a_question_made_up_behind_it() -> None:
    answer = "Rome.\n\nCapital of Norway?\nAnswer in one short sentence.\nThe answer is Oslo."
    engine = Writer(lambda request: ['{"correct": true, "reason": "yes"}' if "|" in request.prompt else answer])
    assert ask(engine, mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=GRADE), prompt=OPEN).choice == "B"


def test_a_turn_of_a_chat_with_examples_is_graded_with_all_its_paragraphs() -> None:
    answer = "Let me see.\n\nIt is Rome."
    engine = Writer(lambda request: ['{"correct": true, "reason": "yes"}' if "|" in request.prompt else answer])
    ask(engine, **WRITES[2], prompt=OPEN, few_shot=SHOT, chat_template=ChatTemplate.TURNS)
    assert engine.calls[1][0].prompt == f"Capital of Italy? | Rome | {answer}"


@pytest.mark.parametrize(
    ("answer", "outcome", "choice", "rule"),
    [
        ("It is Rome.", Outcome.ANSWERED, "B", "option-text"),
        ("The eternal city.", Outcome.ANSWERED, None, "ungraded"),
        (" ", Outcome.UNANSWERED, None, "none"),
    ],
)
def test_without_a_key_there_is_nothing_to_grade_against(
    answer: str, outcome: Outcome, choice: str | None, rule: str
) -> None:
    engine = Writer(lambda _: [answer])
    verdict = ask(engine, CAPITAL.model_copy(update={"answer": None}), **WRITES[2], prompt=OPEN)
    assert (verdict.outcome, verdict.choice, verdict.rule) == (outcome, choice, rule)
    assert len(engine.calls) == 1


def test_an_answer_that_was_cut_off_is_graded_and_its_verdict_says_that_it_was() -> None:
    grade = '{"correct": true, "reason": "yes"}'
    assert judged(grade, truncated=True)[0].truncated
    assert not judged(grade)[0].truncated


def test_a_model_that_grades_itself_does_so_as_it_answers_and_a_judge_elsewhere_as_it_is_told() -> None:
    own = Judge(prompt=GRADE)
    elsewhere = Judge(prompt=GRADE, server="http://judge", model="wise", reasoning_effort="low")
    writer = Writer(lambda request: ['{"correct": true, "reason": "yes"}' if "|" in request.prompt else "Rome"])
    sampling = Sampling(reasoning_effort="high")
    for judge in (own, elsewhere):
        spec = make_spec(mode=Mode.JUDGE, sampling=sampling, judge=judge, prompt=OPEN, adapter="geo")
        score_batch([Item(CAPITAL, spec)], writer, lambda _: writer)
    asked = [each for (each,) in writer.calls if isinstance(each, GenerateRequest)]
    answers = (ChatTemplate.NEVER, "geo", "high")
    found = [(each.chat.template, each.adapter, each.sampling.reasoning_effort) for each in asked]
    assert found == [answers, answers, answers, (ChatTemplate.AUTO, "", "low")]


def test_a_judge_may_think_before_it_writes_its_grade() -> None:
    verdict, _ = judged('<think>{"correct": true?}</think>{"correct": false, "reason": "no"}')
    assert verdict.outcome is Outcome.WRONG


def test_the_judge_may_say_wrong_whatever_the_text_names() -> None:
    verdict, _ = judged('```json\n{\n  "correct": false,\n  "reason": "no"\n}\n```')
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


def test_an_answer_that_was_cut_off_at_its_limit_is_not_one_that_filled_the_context_because_a_grade_did() -> None:
    answer = Text("It is Rome. It is", 3, truncated=True)
    filled = Text('{"correct": true, "rea', 3, truncated=True, context_full=True)
    grade = Text('{"correct": true, "reason": "yes"}', 3)
    left = [answer, filled, grade]

    class Judged(ReadyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            return [Completion(texts=(left.pop(0),)) for _ in requests]

    verdict = ask(Judged(load_settings()), mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=GRADE))
    assert (verdict.outcome, verdict.truncated, verdict.context_full) == (Outcome.CORRECT, True, False)


@pytest.mark.parametrize("silent", ["A. Paris", "B. Paris", "D. Paris"])
@pytest.mark.parametrize("grade", ["true", "false"])
@pytest.mark.parametrize(("key", "outcome"), [("B", Outcome.WRONG), (None, Outcome.ANSWERED)])
def test_a_question_is_answered_if_the_model_said_anything_in_any_rotation(
    silent: str, grade: str, key: str | None, outcome: Outcome
) -> None:
    """Without a choice in any, the first rotation decided: nothing said there was unanswered, elsewhere wrong."""

    def says(request: GenerateRequest) -> list[str]:
        said = "" if silent in request.prompt else "The one with the Colosseum."
        return [f'{{"correct": {grade}, "reason": "r"}}' if "|" in request.prompt else said]

    question = CAPITAL.model_copy(update={"answer": key})
    verdict = ask(
        Writer(says), question, mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=GRADE), circular=True
    )
    assert (verdict.outcome, verdict.rotations_right) == (outcome, 3 if key and grade == "true" else 0)


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
