"""What the figures are drawn from: positions, spreads, axes, throughput."""

from __future__ import annotations

import pytest

from contract.ledger import MemoryLedger
from producer.report.measures import Measures, Spread, Throughput, steps, throughput
from tests.support import make_questions, open_run
from tests.unit.producer.report.conftest import answer_all


def test_a_shuffled_run_is_tallied_by_the_labels_of_the_file(ledger: MemoryLedger) -> None:
    run = open_run(ledger, make_questions(40), shuffle=True)
    answer_all(ledger, run, right=lambda _: True)
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)
    assert measures.confusion == {(label, label): 10 for label in "ABCD"}


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
