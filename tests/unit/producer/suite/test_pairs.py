"""Which runs of a suite can be compared, and whether its models differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger
from contract.verdict import Outcome
from producer.suite.cell import Cell
from producer.suite.pairs import paired
from tests.support import make_questions, open_run
from tests.unit.producer.conftest import Producer, settle_next
from tests.unit.producer.suite.conftest import cell, settle_all, table, write_suite


def test_runs_over_the_same_questions_are_named_for_compare_and_report(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    told = producer.json(two_by_two)
    assert told["comparable"] == [], "nothing is settled"
    settle_all(ledger)
    red, large = (each["run_id"] for each in told["runs"][:2])

    said = producer(two_by_two).stdout

    assert f"python -m producer compare {red} {large}" in said
    assert f"python -m producer report {red} {large}\n" in said
    assert f"python -m producer report {red} {large} --out there\n" in producer(two_by_two, "--out", "there").stdout
    assert producer.json(two_by_two)["comparable"][0] == [red, large]


def test_a_pair_that_different_engines_answered_says_in_what_they_differ(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    for run, dtype in zip(
        producer.json(two_by_two)["runs"], ("float32", "bfloat16", "float32", "float32"), strict=True
    ):
        ledger.note_engine(run["run_id"], EngineUsed(worker="w", since=0.0, engine={"dtype": dtype}))
    settle_all(ledger)

    lines = producer(two_by_two).stdout.splitlines()

    assert [line.endswith("; engines differ in dtype") for line in lines if " vs. " in line] == [True, False]


def test_a_pair_of_which_one_is_harder_to_guess_right_says_the_chance_levels(
    producer: Producer, sets: tuple[Path, Path], ledger: MemoryLedger
) -> None:
    """Two guessing runs differed by -0.250, p = 3.1e-05, as one was asked in every rotation."""
    ways: dict[str, dict[str, Any]] = {"plain": {}, "seeded": {"seed": 1}, "rotated": {"circular": True}}
    entries = [{"name": name, "file": sets[0].name, "set": {"mode": "letter", **way}} for name, way in ways.items()]
    path = write_suite(entries)
    producer(path)
    settle_all(ledger)

    lines = producer(path, "--watch").stdout.splitlines()

    told = [line.partition("; ")[2] for line in lines if " vs. plain" in line]
    assert told == ["", "chance 0.250 vs. 0.500"]
    assert "; chance 0.250 vs. 0.500 |" in Path("results/mine/suite.md").read_text()


def test_ways_of_asking_the_same_are_comparable() -> None:
    one, other = cell("a", "m", 1, 2, digest="0" * 64), cell("b", "m", 1, 2, digest="0" * 64)

    assert table(one, other, cell("c", "m", 1, 2)).comparable() == [[one, other]]


def test_a_settled_suite_says_whether_its_models_differ(
    producer: Producer, two_by_two: Path, ledger: MemoryLedger
) -> None:
    runs = producer.json(two_by_two)["runs"]
    assert producer.json(two_by_two)["comparisons"] == []
    for run in runs:
        better = run["model"] == "large"
        settle_next(ledger, run["run_id"], *[Outcome.CORRECT if better else Outcome.WRONG] * 3, Outcome.FAILED)

    said = producer(two_by_two, exit_code=3).stdout
    found = producer.json(two_by_two, exit_code=3)["comparisons"]

    assert [(each["a"], each["b"]) for each in found] == [
        (runs[0]["run_id"], runs[1]["run_id"]),
        (runs[2]["run_id"], runs[3]["run_id"]),
    ]
    # Three discordant pairs, all for B: 2 · ½ / 2³, and twice that beside the other comparison.
    assert [(each["p_value"], each["p_value_together"]) for each in found] == [(0.125, 0.25), (0.125, 0.25)]
    assert (found[0]["pairs"], found[0]["either_failed"], found[0]["difference"]["value"]) == (3, 1, 1.0)
    told = "p = 0.12, p = 0.25 adjusted (Holm); 1 failed question excluded"
    assert "red: large vs. small: +1.000 (" in said
    assert told in said
    producer(two_by_two, "--watch", exit_code=3)
    assert f"{told} |" in Path("results/mine/suite.md").read_text()


def test_a_suite_keeps_none_of_the_questions_that_flipped_which_may_be_millions(ledger: MemoryLedger) -> None:
    runs = [open_run(ledger, make_questions(4), model=model) for model in ("small", "large")]
    settle_next(ledger, runs[0].run_id, *[Outcome.WRONG] * 4)
    settle_next(ledger, runs[1].run_id, *[Outcome.CORRECT] * 4)

    (found,) = paired(ledger, [[Cell("red", run, ledger.counts(run.run_id)) for run in runs]])

    assert (found.found.pairs.discordant, found.found.flips) == (4, [])
