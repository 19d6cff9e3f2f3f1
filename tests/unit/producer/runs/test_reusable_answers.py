"""Which answers `enqueue --reuse` takes over: those to the same prompts, marked by the key of now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.made_up import LETTERED
from contract.ledger import MemoryLedger
from contract.mode import Mode, Normalization
from contract.question import Question
from contract.spec import IndexKind, Judge, Prompt, Retrieval, RunSpec, Sampling
from contract.verdict import Outcome, Passage, Verdict
from producer.runs.reuse import Earlier
from tests.support import make_question, make_spec, open_run

Asked = Callable[..., Verdict | None]


def earlier_verdict(question: Question, verdict: Verdict, spec: RunSpec) -> Asked:
    """Return what is taken over of `verdict` on `question` for the same question with changes."""
    ledger = MemoryLedger()
    run = open_run(ledger, [question], **spec.model_dump(exclude={"questions_digest", "model"}))
    ledger.commit(run.run_id, [verdict])

    def asked(**changes: object) -> Verdict | None:
        earlier = Earlier(ledger, run, run.spec)
        found = earlier.answers([question.model_copy(update=changes)])
        assert len(found) + earlier.asked.total() == 1, "either is told"
        return found[0] if found else None

    return asked


def test_a_changed_subject_asks_again_where_the_prompt_names_it() -> None:
    question = make_question(0, subject="chemistry")
    verdict = Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice=question.answer)
    silent = earlier_verdict(question, verdict, make_spec())
    naming = earlier_verdict(question, verdict, make_spec(description="Questions about {{ subject }}."))
    assert silent(subject="physics") is not None
    assert naming(subject="physics") is None
    assert naming(metadata={"page": 3}) is not None


def test_a_changed_context_asks_again_where_the_prompt_shows_it() -> None:
    question = make_question(0, context="A text.")
    verdict = Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice=question.answer)
    closed_book = earlier_verdict(question, verdict, make_spec())
    shown = Prompt(name="open-book", text="{{ context }} {{ question }}")
    open_book = earlier_verdict(question, verdict, make_spec(use_context_field=True, prompt=shown))
    for context in ("Another text.", None):
        assert closed_book(context=context) is not None
        assert open_book(context=context) is None
    assert open_book(metadata={"page": 3}) is not None


@pytest.mark.parametrize("changes", [{"question": "Else?"}, {"choices": ("1", "2", "3", "5")}])
def test_another_text_is_another_question(changes: dict[str, Any]) -> None:
    question = make_question(0)
    verdict = Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice=question.answer)
    asked = earlier_verdict(question, verdict, make_spec())
    assert asked() is not None
    assert asked(**changes) is None


def test_of_rotations_each_is_marked_again() -> None:
    question = make_question(0, answer="A")
    spec = make_spec(mode=Mode.LETTER, circular=True, prompt=LETTERED)
    rotations: tuple[str | None, ...] = ("B", "B", "A", "B")
    verdict = Verdict(
        question_id=question.id,
        outcome=Outcome.WRONG,
        choice="B",
        rotations=4,
        rotations_right=1,
        rotation_choices=rotations,
    )
    asked = earlier_verdict(question, verdict, spec)
    mixed = asked(answer="B")
    assert mixed is not None
    assert (mixed.outcome, mixed.rotations_right) == (Outcome.WRONG, 3)
    every = earlier_verdict(question, verdict.model_copy(update={"rotation_choices": ("B",) * 4}), spec)(answer="B")
    assert every is not None
    assert (every.outcome, every.rotations_right) == (Outcome.CORRECT, 4)
    older = earlier_verdict(question, verdict.model_copy(update={"rotation_choices": ()}), spec)
    assert older(answer="B") is None, "an older verdict does not say what was chosen in each"
    assert older(subject="other") is not None


def test_a_free_answer_is_graded_again_if_its_key_changed_and_only_then() -> None:
    question = make_question(0, answer="A")
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    verdict = Verdict(question_id=question.id, outcome=Outcome.WRONG, raw_text="Something else.")
    asked = earlier_verdict(question, verdict, make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge))
    assert asked(answer="B") is None
    kept = asked(subject="other")
    assert kept is not None
    assert kept.outcome is Outcome.WRONG, "it is the judge's grade"


def test_a_free_answer_is_graded_again_if_its_subject_changed_and_the_judge_is_told_it() -> None:
    question = make_question(0, subject="chemistry")
    judge = Judge(prompt=Prompt(name="grade", text="On {{ subject }}: {{ response }}"))
    verdict = Verdict(question_id=question.id, outcome=Outcome.WRONG, raw_text="Something else.")
    asked = earlier_verdict(question, verdict, make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge))
    assert asked(subject="physics") is None
    assert asked(metadata={"page": 3}) is not None


def test_a_text_is_read_again_where_several_choices_are_right() -> None:
    question = make_question(0, answer="A")
    verdict = Verdict(question_id=question.id, outcome=Outcome.UNANSWERED, rule="ambiguous", raw_text="A and B.")
    asked = earlier_verdict(question, verdict, make_spec(mode=Mode.GENERATE, sampling=Sampling()))
    assert asked(answer="A", also_right=("B",)) is None
    single = asked(answer="B")
    assert single is not None
    assert single.outcome is Outcome.UNANSWERED
    several = question.model_copy(update={"also_right": ("B",)})
    named_both = Verdict(question_id=question.id, outcome=Outcome.CORRECT, choice="A", raw_text="A and B.")
    asked = earlier_verdict(several, named_both, make_spec(mode=Mode.GENERATE, sampling=Sampling()))
    assert asked(also_right=()) is None, "now it names a wrong one as well"


def test_a_choice_that_was_not_read_from_a_text_is_marked_again_where_several_are_right() -> None:
    question = make_question(0, answer="A")
    verdict = Verdict(question_id=question.id, outcome=Outcome.WRONG, choice="B")
    asked = earlier_verdict(question, verdict, make_spec())
    found = asked(also_right=("B",))
    assert found is not None
    assert found.outcome is Outcome.CORRECT


def test_without_a_key_an_answer_is_neither_right_nor_wrong_until_there_is_one() -> None:
    question = make_question(0, answer=None)
    verdict = Verdict(question_id=question.id, outcome=Outcome.ANSWERED, choice="C")
    asked = earlier_verdict(question, verdict, make_spec(normalization=Normalization.BYTE))
    outcomes = [found.outcome for key in ("C", "A") if (found := asked(answer=key))]
    assert outcomes == [Outcome.CORRECT, Outcome.WRONG]


def test_whether_a_relevant_passage_was_shown_follows_the_sources_that_are_named_now() -> None:
    question = make_question(0, gold_passages=("p1",))
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    shown = (Passage(id="p2", score=1.0, text="t"),)
    verdict = Verdict(
        question_id=question.id, outcome=Outcome.CORRECT, choice=question.answer, passages=shown, retrieval_hit=False
    )
    asked = earlier_verdict(question, verdict, make_spec(rag=rag))
    hits = [found.retrieval_hit for gold in (("p1",), ("p2",), ()) if (found := asked(gold_passages=gold))]
    assert hits == [False, True, None]
