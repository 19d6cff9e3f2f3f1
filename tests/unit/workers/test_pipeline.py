"""The heart, with engines made for the purpose."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from contract import Mode, Normalization, Outcome, Prompt, Question, load_settings
from contract.errors import EngineDead, EngineError, EngineOutOfMemory
from contract.verdict import Failure, Verdict
from tests.support import make_question, make_questions, make_spec
from tests.unit.workers.ready_engine import ReadyEngine, SlowTexts
from workers.engines.base import Completion, Engine, Part, Request, ScoreRequest, UnexpectedFailure
from workers.pipeline import score_batch, score_in_parts
from workers.scoring import Item


class KeyEngine(ReadyEngine):
    """Finds the continuation `right` likeliest; fails as told; remembers its calls."""

    def __init__(self, right: str = "", poison: str = "", error: type[EngineError] = EngineError, room: int = 10**6):
        super().__init__(load_settings())
        self.calls: list[int] = []
        self._right, self._poison, self._error, self._room = right, poison, error, room

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(len(requests))
        if len(requests) > self._room:
            raise EngineOutOfMemory("too many at once")
        if self._poison and any(self._poison in each.prompt for each in requests):
            raise self._error("poisoned")
        return [
            Completion(
                logprobs=tuple(-0.1 if text.strip() == self._right else -5.0 for text in each.continuations),
                token_counts=(1,) * len(each.continuations),
                prompt_tokens=7,
            )
            for each in requests
            if isinstance(each, ScoreRequest)
        ]


def items(questions: Sequence[Question], **spec: object) -> list[Item]:
    made = make_spec((), **spec)
    return [Item(question, made) for question in questions]


def test_all_questions_of_a_batch_go_into_one_call() -> None:
    engine = KeyEngine()
    verdicts = score_batch(items(make_questions(20)), engine)
    assert engine.calls == [20]
    assert [verdict.question_id for verdict in verdicts] == [f"q{number}" for number in range(20)]


def test_runs_with_different_specs_share_a_call() -> None:
    engine = KeyEngine(right="B")
    letters = items([make_question(1, answer="B")], mode=Mode.LETTER)
    choices = items([make_question(2, choices=("B", "x"), answer="A")])
    verdicts = score_batch(letters + choices, engine)
    assert engine.calls == [2]
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT, Outcome.CORRECT]


@pytest.mark.parametrize(
    ("answer", "outcome"), [("A", Outcome.CORRECT), ("B", Outcome.WRONG), (None, Outcome.ANSWERED)]
)
def test_the_outcome_compares_choice_and_key(answer: str | None, outcome: Outcome) -> None:
    question = make_question(1, choices=("yes", "no"), answer=answer)
    (verdict,) = score_batch(items([question]), KeyEngine(right="yes"))
    assert (verdict.choice, verdict.outcome, verdict.prompt_tokens) == ("A", outcome, 7)
    assert verdict.latency_ms > 0


@pytest.mark.parametrize(("chosen", "outcome"), [("x", Outcome.CORRECT), ("y", Outcome.WRONG), ("z", Outcome.CORRECT)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_of_several_right_choices_each_is_right_in_whatever_order(chosen: str, outcome: Outcome, shuffle: bool) -> None:
    questions = [make_question(n, choices=("x", "y", "z"), answer="A", also_right=("C",)) for n in range(8)]
    verdicts = score_batch(items(questions, shuffle=shuffle), KeyEngine(right=chosen))
    assert {(each.choice, each.outcome) for each in verdicts} == {("ABC"["xyz".index(chosen)], outcome)}


def test_scores_without_the_question_are_those_of_the_same_choices_in_whatever_order() -> None:
    class Unlike(KeyEngine):
        """Knows each choice, whatever is asked; the prompt adds to all the same."""

        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            return [
                Completion(
                    logprobs=tuple(-1.0 - "xyz".index(text.strip()) - bool(each.prompt) for text in texts),
                    token_counts=tuple(1 + "xyz".index(text.strip()) for text in texts),
                )
                for each in requests
                if isinstance(each, ScoreRequest) and (texts := each.continuations)
            ]

    questions = [make_question(n, choices=("x", "y", "z"), answer="A") for n in range(8)]
    spec = {"normalization": Normalization.MUTUAL_INFO, "shuffle": True}
    verdicts = score_batch(items(questions, **spec), Unlike())
    assert [each.choice_scores for each in verdicts] == [{"A": -1.0, "B": -1.0, "C": -1.0}] * 8
    assert [each.unconditional_scores for each in verdicts] == [{"A": -1.0, "B": -2.0, "C": -3.0}] * 8


def test_a_poison_question_fails_alone_and_its_company_is_scored() -> None:
    questions = [*make_questions(9), make_question(9, question="poison?"), *make_questions(15)[10:]]
    verdicts = score_batch(items(questions), KeyEngine(poison="poison"))
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED]
    assert [verdict.question_id for verdict in failed] == ["q9"]
    assert failed[0].error == Failure(type="EngineError", message="poisoned")


def test_out_of_memory_is_answered_with_smaller_calls() -> None:
    engine = KeyEngine(room=3)
    verdicts = score_batch(items(make_questions(10)), engine)
    assert all(verdict.outcome is not Outcome.FAILED for verdict in verdicts)
    assert engine.calls[0] == 10


def test_a_dead_engine_is_nobodys_verdict() -> None:
    with pytest.raises(EngineDead):
        score_batch(items(make_questions(3)), KeyEngine(poison="What", error=EngineDead))


def ids_by_part(engine: Engine, *asked: Item) -> list[list[str]]:
    return [[verdict.question_id for _, verdict in part] for part in parts_of(engine, *asked)]


def parts_of(engine: Engine, *asked: Item) -> list[list[tuple[int, Verdict]]]:
    return [part for part in score_in_parts(asked, engine) if part]


def test_verdicts_come_as_answers_end_with_the_position_of_their_question() -> None:
    engine = SlowTexts(load_settings(), "What is 1 plus")
    asked = items(make_questions(4))
    parts = parts_of(engine, *asked)
    assert [[i for i, _ in part] for part in parts] == [[0, 2, 3], [1]]
    assert all(verdict.question_id == asked[i].question.id for part in parts for i, verdict in part)
    assert parts[0][0][1].latency_ms < parts[1][0][1].latency_ms
    assert [each.question_id for each in score_batch(asked, engine)] == ["q0", "q1", "q2", "q3"]


def test_a_question_asked_in_several_orders_has_its_verdict_with_the_last_of_them() -> None:
    question = make_question(1, choices=("first", "second", "third", "fourth"), answer="A")
    shown = Prompt(name="shown", text="{% for each in choices %}{{ each.label }}. {{ each.text }}\n{% endfor %}")
    item = Item(question, make_spec((), mode=Mode.LETTER, circular=True, prompt=shown))
    last_order = SlowTexts(load_settings(), "A. fourth")
    assert ids_by_part(last_order, item, *items([make_question(2)])) == [["q2"], ["q1"]]
    assert last_order.calls == [5]


@pytest.mark.parametrize(
    ("trouble", "kind"), [(EngineError("poisoned"), Failure), (ZeroDivisionError("a bug"), UnexpectedFailure)]
)
def test_what_was_answered_before_a_call_failed_is_not_asked_again(trouble: Exception, kind: type[Failure]) -> None:
    engine = SlowTexts(load_settings(), "What is 3 plus", trouble)
    parts = parts_of(engine, *items(make_questions(6)))
    assert [[verdict.question_id for _, verdict in part] for part in parts] == [["q0", "q1", "q2", "q4", "q5"], ["q3"]]
    ((_, failed),) = parts[1]
    assert type(failed.error) is kind
    assert engine.calls == [6]


def test_what_was_answered_before_the_engine_died_has_its_verdicts() -> None:
    parts = score_in_parts(items(make_questions(3)), SlowTexts(load_settings(), "What is 2 plus", EngineDead("gone")))
    assert [verdict.question_id for _, verdict in next(parts)] == ["q0", "q1"]
    with pytest.raises(EngineDead):
        next(parts)


def test_a_request_that_an_engine_forgets_is_asked_again_and_fails_if_it_is_forgotten_alone() -> None:
    class Forgetful(KeyEngine):
        def answers(self, requests: Sequence[Request]) -> Iterator[Part]:
            yield [(i, each) for i, each in enumerate(self.generate(requests)) if "2 plus" not in requests[i].prompt]

    engine = Forgetful()
    verdicts = score_batch(items(make_questions(5)), engine)
    assert [each.question_id for each in verdicts if each.error] == ["q2"]
    assert engine.calls == [5]


def test_a_question_whose_prompt_cannot_be_rendered_fails_alone() -> None:
    broken = make_spec(prompt=Prompt(name="broken", text="{{ question }} {{ choices[3].text }}"))
    both = [Item(make_question(1, choices=("a", "b"), answer="A"), broken), Item(make_question(2), broken)]
    first, second = score_batch(both, KeyEngine())
    assert first.outcome is Outcome.FAILED
    assert first.error is not None
    assert second.outcome is not Outcome.FAILED


def test_a_rejected_request_is_failed_with_the_engines_reason() -> None:
    class Rejecting(KeyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            return [Completion(error=Failure(type="RequestRejected", message="too long")) for _ in requests]

    (verdict,) = score_batch(items(make_questions(1)), Rejecting())
    assert (verdict.outcome, verdict.error) == (
        Outcome.FAILED,
        Failure(type="RequestRejected", message="too long"),
    )


def test_a_verdict_has_the_tokens_of_all_its_requests_and_the_time_from_the_call_to_its_end() -> None:
    spent_s: list[float] = []

    class Metered(ReadyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            called = time.monotonic()
            made = [
                Completion((-1.0,) * 4, (1,) * 4, prompt_tokens=10 * n, prefill_tokens=7 * n, cached_tokens=3 * n)
                for n in range(1, 1 + len(requests))
            ]
            spent_s.append(time.monotonic() - called)
            return made

    began = time.monotonic()
    asked = items([make_question(1)], normalization=Normalization.MUTUAL_INFO)
    (verdict,) = score_batch(asked, Metered(load_settings()))
    assert (verdict.prompt_tokens, verdict.prefill_tokens, verdict.cached_tokens) == (30, 21, 9)
    assert 1000 * spent_s[0] <= verdict.latency_ms <= 1000 * (time.monotonic() - began)


def test_an_empty_batch_asks_nothing() -> None:
    engine = KeyEngine()
    assert score_batch([], engine) == []
    assert engine.calls == []


def test_the_context_is_shown_only_where_the_spec_says_so() -> None:
    prompt = Prompt(name="p", text="{% if context %}{{ context }} {% endif %}{{ question }}")
    seen: list[str] = []

    class Seeing(KeyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            seen.extend(each.prompt for each in requests)
            return super().generate(requests)

    question = make_question(1, question="Q?", context="C.")
    score_batch(items([question], prompt=prompt) + items([question], prompt=prompt, use_context_field=True), Seeing())
    assert seen == ["Q?", "C. Q?"]
