"""`compare` as a person meets it, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract.ledger import Run
from contract.memory import MemoryLedger
from contract.question import Question
from contract.spec import Mode, Normalization, Prompt, RunSpec
from contract.verdict import Outcome, Verdict
from producer.cli import main
from producer.compare import differences
from producer.session import Session

SPEC = RunSpec(
    questions_digest="0" * 64, model="small", mode=Mode.LETTER, prompt=Prompt(name="plain", text="{{ question }}")
)
#: q0 to q5 have a key; q6 has none.
QUESTIONS = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A", subject="red") for n in range(6)] + [
    Question(id="q6", question="q", choices=("a", "b"))
]
OUTCOMES = {
    "c": Outcome.CORRECT,
    "w": Outcome.WRONG,
    "u": Outcome.UNANSWERED,
    "f": Outcome.FAILED,
    "a": Outcome.ANSWERED,
}
CHOICES = {Outcome.CORRECT: "A", Outcome.WRONG: "B", Outcome.ANSWERED: "A"}
Ran = Callable[..., Run]
Compare = Callable[..., Result]


@pytest.fixture
def ran(ledger: MemoryLedger) -> Ran:
    """A run in the ledger, its outcomes given by their first letters; `-` is not settled."""

    def make(run_id: str, outcomes: str, questions: list[Question] | None = None, **spec: Any) -> Run:
        asked = questions or QUESTIONS
        whole = SPEC.model_copy(update=spec)
        run = Run(run_id=run_id, spec=whole, source="q.json", questions=len(asked), chance=0.5, created_at=1.0)
        ledger.open_run(run)
        ledger.add_questions(run_id, asked)
        ended = [(question.id, OUTCOMES.get(letter)) for question, letter in zip(asked, outcomes, strict=True)]
        ledger.commit(
            run_id,
            [Verdict(question_id=each, outcome=came, choice=CHOICES.get(came)) for each, came in ended if came],
        )
        return run

    return make


@pytest.fixture
def compare(session: Session) -> Compare:
    def call(*words: object, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["compare", *(str(word) for word in words)], obj=session)
        assert result.exit_code == exit_code, result.output
        return result

    return call


def test_the_figures_are_those_of_the_pairs_with_a_key(ran: Ran, compare: Compare) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    found = json.loads(compare("one", "two", "--json").stdout)

    # q0 both, q1 only A, q2 to q4 only B, q5 neither (it failed in A); q6 has no key.
    assert found["contingency"] == {"both": 1, "only_a": 1, "only_b": 3, "neither": 1}
    assert (found["pairs"], found["without_key"], found["either_failed"]) == (6, 1, 1)
    assert (found["a"]["accuracy_all"]["right"], found["b"]["accuracy_all"]["right"]) == (2, 4)
    assert found["difference"]["value"] == pytest.approx(2 / 6, abs=1e-6)
    # Four discordant pairs, one of them for A: 2 · (1 + 4) / 16.
    assert found["mcnemar"] == {"p_value": pytest.approx(10 / 16), "discordant": 4}
    assert found["minimum_detectable_effect"]["power"] == 0.8
    assert found["spec_differences"] == {"model": {"a": "small", "b": "large"}}
    assert [each["id"] for each in found["flips"]] == ["q1", "q2", "q3", "q4"]
    assert found["flips"][3] == {
        "id": "q4",
        "subject": "red",
        "answer": "A",
        "outcome_a": "unanswered",
        "choice_a": None,
        "outcome_b": "correct",
        "choice_b": "A",
    }


def test_a_person_sees_the_same_and_the_first_questions_that_flipped(ran: Ran, compare: Compare) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    text = compare("one", "two", "--flips", 2).stdout

    assert "A           0.333  95 % interval 0.097 to 0.700 (2 of 6)  one" in text
    assert "differ in   model: 'small' → 'large'" in text
    assert "pairs       6: both right 1 · only A 1 · only B 3 · neither 1" in text
    # Six draws of -1, 0 and 1 with chances 1/6, 2/6 and 3/6: their sum is at most -3 in 0.9 %, at most -2 in 3.3 %,
    # at most 4 in 92.2 % and at most 5 in 98.4 % of the cases. Hence -2/6 and 5/6.
    assert "difference  +0.333  95 % interval -0.333 to +0.833 (B minus A)" in text
    assert "McNemar     p = 0.62 (exact, two-sided, 4 discordant pairs)" in text
    assert "failed      in A or B: 1 pair, counted as not right" in text
    assert "no key      1 question, in no figure" in text
    assert "flipped     4, shown 2" in text
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["question", "subject", "key", "A", "B"],
        ["q1", "red", "A", "A", "correct", "B", "wrong"],
        ["q2", "red", "A", "B", "wrong", "A", "correct"],
    ]


def test_ten_flips_are_shown_where_nobody_says_how_many(ran: Ran, compare: Compare) -> None:
    many = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A") for n in range(12)]
    ran("one", "c" * 12, many)
    ran("two", "w" * 12, many, seed=1)

    text = compare("one", "two").stdout

    assert "flipped     12, shown 10" in text
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["q8", "q9"]
    assert "q0" not in compare("one", "two", "--flips", 0).stdout


def test_a_run_against_itself_differs_in_nothing(ran: Ran, compare: Compare) -> None:
    ran("one", "ccwwwwa")

    text = compare("one", "last").stdout

    assert "differ in   nothing: the same was asked twice" in text
    assert "difference  +0.000  95 % interval +0.000 to +0.000" in text
    assert "detectable  no difference: too few discordant pairs" in text
    assert "flipped     0, shown 0" in text
    assert "failed" not in text


def test_what_could_have_been_found_is_said(ran: Ran, compare: Compare) -> None:
    many = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A") for n in range(100)]
    ran("one", "c" * 60 + "w" * 40, many)
    ran("two", "c" * 50 + "w" * 30 + "c" * 20, many, seed=1)

    # ψ = 0.3, n = 100: √0.3 · (1.95996 · 10 + 0.84162 · √(100 + 0.70833 - 3.84146)) / 100.70833 = 0.15165
    assert "detectable  0.152 or more (80 % power at level 0.05" in compare("one", "two").stdout


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (["q0", "q1", "x2"], "of 7 and 3 ids they share 2. Enqueue the very same file"),
        ([f"q{n}" for n in range(7)], "of 7 and 7 ids they share 7, whose content or order differs."),
        (["x"], "of 7 and 1 ids they share 0."),
    ],
    ids=["some", "all", "none"],
)
def test_runs_over_different_questions_are_refused(ran: Ran, compare: Compare, ids: list[str], wanted: str) -> None:
    others = [Question(id=each, question="other", choices=("a", "b"), answer="A") for each in ids]
    ran("one", "ccccccc")
    ran("two", "c" * len(others), others, questions_digest="1" * 64)

    result = compare("one", "two", exit_code=1)

    assert "error: Runs one and two asked different questions: " in result.stderr
    assert wanted in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("one", "two", "culprit"), [("ccccc-c", "ccccccc", "one"), ("ccccccc", "ccccc-c", "two")])
def test_a_run_that_is_not_settled_is_refused(ran: Ran, compare: Compare, one: str, two: str, culprit: str) -> None:
    ran("one", one)
    ran("two", two)

    result = compare("one", "two", exit_code=1)

    assert f"Run {culprit} is not settled: 6 of 7 questions have a verdict." in result.stderr
    assert f"python -m producer watch {culprit}" in result.stderr


def test_questions_without_any_key_cannot_be_compared(ran: Ran, compare: Compare) -> None:
    ran("one", "a", QUESTIONS[6:])
    ran("two", "a", QUESTIONS[6:], seed=1)

    assert "None of the 1 question has a key" in compare("one", "two", exit_code=1).stderr


def test_an_unknown_run_is_one_line(ran: Ran, compare: Compare) -> None:
    ran("one", "ccccccc")

    assert "error: No run 'three'" in compare("one", "three", exit_code=1).stderr


def test_specs_differ_by_their_nested_fields() -> None:
    other = SPEC.model_copy(
        update={
            "mode": Mode.LIKELIHOOD,
            "normalization": Normalization.BYTE,
            "prompt": Prompt(name="plain", text="Q: {{ question }}"),
        }
    )

    assert differences(SPEC, other) == {
        "mode": ("letter", "likelihood"),
        "normalization": ("none", "byte"),
        "prompt.text": ("{{ question }}", "Q: {{ question }}"),
        "prompt.version": (SPEC.prompt.version, other.prompt.version),
    }
    assert differences(SPEC, SPEC) == {}


def test_a_long_value_is_shown_by_its_beginning(ran: Ran, compare: Compare) -> None:
    ran("one", "ccccccc")
    ran("two", "ccccccc", prompt=Prompt(name="plain", text="long " * 50))

    text = compare("one", "two").stdout

    assert "prompt.version: " in text
    assert "long long…" in text
    assert "long " * 50 in json.loads(compare("one", "two", "--json").stdout)["spec_differences"]["prompt.text"]["b"]
