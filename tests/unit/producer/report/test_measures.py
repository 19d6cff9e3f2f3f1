"""What the figures are drawn from: positions, spreads, axes, throughput."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import Outcome, Verdict
from producer.report.figures import places
from producer.report.measures import Measures, Spread, Throughput, steps, throughput
from tests.support import make_questions, open_run
from tests.unit.producer.report.conftest import settle


def test_where_a_circular_runs_choices_stood_is_counted_rotation_by_rotation(ledger: MemoryLedger) -> None:
    run = open_run(ledger, make_questions(2), circular=True)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "rotations": 4, "rotations_right": 1}
    # Of q0 the first one shown is chosen whatever it is; of q1 nothing is told, as before this was kept.
    first_shown = Verdict(question_id="q0", choice="A", rotation_choices=tuple("ABCD"), **rotated)
    ledger.commit(run.run_id, [first_shown, Verdict(question_id="q1", choice="A", **rotated)])
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)

    assert measures.chosen_places == {0: 4}
    assert measures.key_places == {0: 1, 1: 1, 2: 1, 3: 1}
    figure = places(measures)
    assert figure is not None
    assert figure.caption.startswith("4 answered rotations of questions with a key.")


def test_positions_are_those_that_the_model_was_shown(ledger: MemoryLedger) -> None:
    questions = make_questions(40)
    run = open_run(ledger, questions, shuffle=True)
    settle(ledger, run, right=lambda _: True)
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)
    assert measures.key_places == measures.chosen_places
    assert [measures.key_places[at] for at in range(4)] != [10, 10, 10, 10], "in the file the key walks"
    assert measures.confusion == {(label, label): 10 for label in "ABCD"}


def test_a_guesser_shows_no_position_bias_where_several_choices_are_right(ledger: MemoryLedger) -> None:
    # Every pair of right choices once with every choice: right and wrong answers are at all positions alike.
    pairs = list(combinations("ABCD", 2))
    asked = [
        Question(id=f"{a}{b}{chosen}", question="?", choices=tuple("wxyz"), answer=a, also_right=(b,))
        for a, b in pairs
        for chosen in "ABCD"
    ]
    run = open_run(ledger, asked)
    ledger.commit(
        run.run_id,
        [
            Verdict(
                question_id=each.id,
                choice=each.id[-1],
                outcome=Outcome.CORRECT if each.id[-1] in each.right else Outcome.WRONG,
            )
            for each in asked
        ],
    )
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)
    assert measures.chosen_places == measures.key_places == {0: 6, 1: 6, 2: 6, 3: 6}
    figure = places(measures)
    assert figure is not None
    assert figure.rows == [(label, "0.250", "0.250") for label in "ABCD"]
    assert figure.caption.startswith("24 answered questions with a key.")


def test_a_spread_is_by_nearest_rank() -> None:
    assert Spread.of_values([float(n) for n in range(1, 101)]) == Spread(50.0, 90.0, 99.0, 100.0)
    assert Spread.of_values([3.0]) == Spread(3.0, 3.0, 3.0, 3.0)
    assert Spread.of_values([]) is None


@pytest.mark.parametrize(
    ("low", "high", "most", "width"), [(0, 1, 6, 0.2), (0, 97, 10, 10), (0, 1, 1, 1), (5, 5, 3, 1)]
)
def test_steps_are_round(low: float, high: float, most: int, width: float) -> None:
    assert steps(low, high, most) == pytest.approx(width)


def test_throughput_counts_every_verdict_once_from_the_first_call() -> None:
    found = throughput([10.0, 10.2, 14.9, 15.0], started_at=9.0, batches=50)

    assert found is not None
    assert found.unit == "s"
    assert found.edges == pytest.approx([0, 1, 2, 3, 4, 5, 6])
    assert found.verdicts == [0, 2, 0, 0, 0, 2]
    assert throughput([], started_at=9.0, batches=0) is None


def steady(batches: int, each_s: float, size: int = 32) -> Throughput:
    """Of a run whose batches take equally long."""
    ends = [1_000.0 + each_s * (at + 1) for at in range(batches) for _ in range(size)]
    found = throughput(ends, 1_000.0, batches)
    assert found is not None
    assert sum(found.verdicts) == batches * size
    return found


@pytest.mark.parametrize(
    ("batches", "each_s", "unit", "width", "pieces"),
    [
        (1, 0.2, "s", 0.2, 1),
        (12, 0.17, "s", 2.04, 1),
        (60, 0.034, "s", 0.2, 10),
        (1_000, 0.2, "s", 5, 40),
        (3_000, 0.2, "min", 0.5, 20),
        (20_000, 1.8, "h", 0.5, 20),
        (20_000, 18.0, "h", 5, 20),
    ],
)
def test_a_steady_run_is_shown_as_steady_however_long_it_takes(
    batches: int, each_s: float, unit: str, width: float, pieces: int
) -> None:
    """Of 2 s, half of the columns were empty; of 10 h, one was a quarter of an hour and 1,000 s, and the last empty."""
    found = steady(batches, each_s)

    assert (found.unit, len(found.verdicts)) == (unit, pieces)
    assert found.edges[1] == pytest.approx(width)
    assert found.edges[-1] * found.unit_s == pytest.approx(batches * each_s)
    assert found.rates == pytest.approx([32 / each_s] * pieces, rel=0.25)
