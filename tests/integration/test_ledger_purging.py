"""Ledgers of runs that are not there, or not any more."""

from __future__ import annotations

import pytest

from contract import Counts, Ledger
from contract.errors import UnknownRun
from contract.ledger import REQUEST_ENDED
from contract.names import request_id
from contract.verdict import Passage
from tests.integration.ledgers import ASKED, QUESTIONS, verdict, verdicts
from tests.support import make_questions, open_run


@pytest.mark.parametrize("method", ASKED)
def test_an_unknown_run_is_told_with_the_nearest_known_one(ledger: Ledger, method: str) -> None:
    run = open_run(ledger, QUESTIONS, name="chemistry")
    open_run(ledger, QUESTIONS, name="history")
    misspelt = run.run_id.replace("chemistry", "chemstry")
    with pytest.raises(UnknownRun) as caught:
        ASKED[method](ledger, misspelt)
    assert f"No run {misspelt!r} in the ledger" in str(caught.value)
    assert caught.value.hint == f"Did you mean {run.run_id!r}?"


def test_a_request_that_is_not_there_any_more_is_told_as_one_that_ended(ledger: Ledger) -> None:
    """The request of another client was suggested instead."""
    run = open_run(ledger, QUESTIONS)
    ledger.open_run(run.model_copy(update={"run_id": request_id()}))
    with pytest.raises(UnknownRun) as caught:
        ledger.named(request_id())
    assert caught.value.hint == REQUEST_ENDED


@pytest.mark.parametrize("method", ASKED)
def test_a_purged_run_is_unknown_and_stays_so_whatever_is_asked_of_it(ledger: Ledger, method: str) -> None:
    run = open_run(ledger, QUESTIONS)
    ledger.begin(run.run_id, ["q0"])
    ledger.purge(run.run_id)
    for _ in range(2):
        with pytest.raises(UnknownRun):
            ASKED[method](ledger, run.run_id)
    assert ledger.runs() == []
    assert ledger.open_runs() == []


@pytest.mark.parametrize("method", ASKED)
def test_a_run_is_known_from_before_its_questions_are_written_until_after_all_are_settled(
    ledger: Ledger, method: str
) -> None:
    settled = open_run(ledger, QUESTIONS, "settled")
    ledger.commit(settled.run_id, verdicts(1))
    ASKED[method](ledger, settled.run_id)
    bare = settled.model_copy(update={"run_id": "bare"})
    ledger.open_run(bare)
    if method != "result":  # the question is unknown
        ASKED[method](ledger, "bare")


def test_why_searches_failed_does_not_count_among_the_attempts_at_scoring(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(1))
    assert ledger.note_trouble(run.run_id, ["q0"], "cpu0: the index was overwritten") == [1]
    ledger.attach(run.run_id, {"q0": [Passage(id="p", score=1.0, text="Iron is Fe.")]})
    assert ledger.troubles(run.run_id, "q0") == []
    assert ledger.note_trouble(run.run_id, ["q0"], "gpu0: odd") == [1]


def test_a_purged_run_has_no_passages_and_no_troubles_which_ends_no_batch_that_has_it(ledger: Ledger) -> None:
    assert ledger.passages("purged", ["q0"]) == {}
    assert ledger.troubles("purged", "q0") == []


def test_a_purge_leaves_other_runs_as_they_are(ledger: Ledger) -> None:
    kept, gone = (open_run(ledger, make_questions(2), name=name) for name in ("run", "run-2"))
    ledger.commit(kept.run_id, verdicts(1))
    ledger.purge(gone.run_id)
    assert ledger.runs() == [kept]
    assert ledger.counts(kept.run_id).settled == 1
    assert list(ledger.unsettled(kept.run_id)) == ["q1"]


def test_several_runs_are_purged_all_at_once_or_none_of_them(ledger: Ledger) -> None:
    one, two, kept = (open_run(ledger, make_questions(2), name=name) for name in ("one", "two", "kept"))
    with pytest.raises(UnknownRun):
        ledger.purge(one.run_id, "unknown", two.run_id)
    assert len(ledger.run_ids()) == 3
    ledger.purge(one.run_id, two.run_id)
    assert (ledger.run_ids(), ledger.open_runs()) == ([kept.run_id], [kept.run_id])


def test_a_purged_run_can_be_asked_afresh(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0"])
    ledger.commit(run.run_id, verdicts(2))
    ledger.purge(run.run_id)
    assert open_run(ledger, make_questions(2)).run_id == run.run_id
    assert ledger.counts(run.run_id) == Counts(total=2, todo=2)
    assert ledger.begin(run.run_id, ["q0"])[0].attempts == 1


def test_a_run_made_anew_under_its_name_counts_the_questions_that_it_has_now(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert ledger.counts(run.run_id).total == 2
    ledger.purge(run.run_id)
    ledger.open_run(run.model_copy(update={"questions": 3, "created_at": run.created_at + 1}))
    assert ledger.counts(run.run_id).total == 3


def test_a_verdict_of_a_question_that_the_run_does_not_have_changes_nothing(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    assert ledger.commit(run.run_id, [verdict("stranger")]) == []
    assert (ledger.counts(run.run_id).settled, ledger.counts(run.run_id).todo) == (0, 2)


def test_a_run_purged_and_written_anew_while_a_batch_was_in_flight_still_finishes(ledger: Ledger) -> None:
    run = open_run(ledger, make_questions(2))
    ledger.begin(run.run_id, ["q0", "q1"])
    ledger.purge(run.run_id)
    ledger.open_run(run)
    ledger.commit(run.run_id, [verdict("q0")])  # late, and before the body is written again
    ledger.add_questions(run.run_id, make_questions(2))
    assert not ledger.counts(run.run_id).finished
    ledger.commit(run.run_id, [verdict("q0"), verdict("q1")])
    assert ledger.counts(run.run_id).finished


def test_a_run_that_is_purged_while_runs_are_looked_at_is_left_out(ledger: Ledger) -> None:
    gone, there = (open_run(ledger, make_questions(1), name) for name in ("gone", "there"))
    runs = ledger.runs()
    ledger.purge(gone.run_id)
    assert [run for run, _ in ledger.standings(runs)] == [there]
