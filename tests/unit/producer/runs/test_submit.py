"""A planned run is written and sent: anew, the rest of it, or not at all; under its name, with its priority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from contract import Run, prefix_order
from contract.errors import RedisUnreachable, UnknownRun
from contract.ledger import MemoryLedger
from contract.priority import Priority
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.runs.earlier_runs import asked_already
from producer.runs.planning import afresh
from producer.runs.submit import State, submit
from tests.support import settle
from tests.unit.producer.planning import planned


def test_a_new_run_is_written_and_sent(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    done = submit(planned(five), ledger, broker)

    assert (done.state, done.sent, done.messages) == (State.NEW, 5, 3)
    assert done.run.run_id.startswith("questions-smollm2-135m-instruct-likelihood-")
    assert list(ledger.unsettled(done.run.run_id)) == ["q0", "q1", "q2", "q3", "q4"]
    assert [each[2] for each in broker.messages] == [["q0", "q1"], ["q2", "q3"], ["q4"]]


def test_a_run_that_another_command_made_in_the_same_millisecond_is_not_new(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would have sent all of its questions, and of two that ask afresh, each is to make a run of its own."""
    monkeypatch.setattr("producer.runs.planning.now", lambda: 1_800_000_000.123)

    states = [submit(planned(five), ledger, broker, only_new=only_new).state for only_new in (True, True, False)]

    assert states == [State.NEW, State.TAKEN, State.RESUMED]


class EagerWorkers(MemoryBroker):
    """Workers that settle whatever is sent to them at once, up to a number of questions, and then lose Redis."""

    up_to: float = float("inf")

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:  # noqa: ARG002 - all the same
        ids = list(question_ids)
        assert not self.ledger.counts(run.run_id).finished
        if self.ledger.counts(run.run_id).settled + len(ids) > self.up_to:
            raise RedisUnreachable("gone")
        settle(self.ledger, run.run_id, *ids)
        return 1


def test_a_run_is_not_finished_before_all_is_written_even_if_workers_have_settled_what_was_sent_so_far(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)

    done = submit(planned(five), ledger, EagerWorkers(ledger))

    assert (done.state, done.sent, done.messages) == (State.NEW, 5, 3)
    assert ledger.counts(done.run.run_id).finished
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == ["q0", "q1", "q2", "q3", "q4"]


def test_an_enqueue_that_is_cut_short_between_its_parts_sends_only_the_rest_when_it_is_repeated(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)
    lost = EagerWorkers(ledger)
    lost.up_to = 3
    with pytest.raises(RedisUnreachable):
        submit(planned(five), ledger, lost)
    assert ledger.counts(planned(five).run_id).unwritten == 1

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.unsettled, again.sent) == (State.RESUMED, 3, 3)
    assert [each for _, _, ids in broker.messages for each in ids] == ["q2", "q3", "q4"]


class PurgingBroker(MemoryBroker):
    """Somebody purges the run as soon as its first questions have been sent."""

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        messages = super().publish(run, question_ids, priority)
        self.ledger.purge(run.run_id)
        return messages


def test_an_enqueue_whose_run_is_purged_meanwhile_says_so_and_names_no_other_run(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)

    with pytest.raises(UnknownRun, match="it was purged, or Redis lost its data") as caught:
        submit(planned(five), ledger, PurgingBroker(ledger))

    assert caught.value.hint == "To ask its questions, run the same command again."


def test_the_same_thing_again_resumes_and_sends_only_what_is_lost(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    settle(ledger, run_id, "q0")
    del broker.messages[1]

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.run.run_id, again.unsettled) == (State.RESUMED, run_id, 4)
    assert (again.sent, again.messages) == (2, 1)
    assert len(ledger.runs()) == 1


def test_a_settled_run_is_left_alone(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    settle(ledger, run_id, "q0", "q1", "q2", "q3", "q4")
    broker.messages.clear()

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.sent) == (State.SETTLED, 0)
    assert broker.messages == []


def test_a_run_killed_half_way_is_completed(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    ready = planned(five)
    ledger.open_run(ready.run())
    ledger.add_questions(ready.run_id, list(ready.survey.questions())[:2])
    settle(ledger, ready.run_id, "q0")

    done = submit(planned(five), ledger, broker)

    assert (done.state, done.unsettled, done.sent) == (State.RESUMED, 4, 4)
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == ["q0", "q1", "q2", "q3", "q4"]


def test_to_find_who_asked_the_same_before_no_other_run_is_read(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may hold a whole training split as examples."""
    before = submit(planned(five, name="before"), ledger, broker).run.run_id
    submit(planned(five, Selection(limit=2), name="fewer"), ledger, broker)
    asked = submit(planned(five, name="now"), ledger, broker)
    read: list[str] = []

    def reading(among: Sequence[str] | None = None) -> list[Run]:
        found = MemoryLedger.runs(ledger, among)
        read.extend(each.run_id for each in found)
        return found

    there = ledger.run_ids()
    monkeypatch.setattr(ledger, "runs", reading)
    monkeypatch.setattr(ledger, "run_ids", lambda: there)

    assert asked_already([asked], ledger) == {asked.run.run_id: [before]}
    assert read == [before]


def test_asking_afresh_takes_the_next_free_number(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    first = submit(afresh(planned(five), ledger), ledger, broker).run.run_id
    second = submit(afresh(planned(five), ledger), ledger, broker).run.run_id
    third = submit(afresh(planned(five), ledger), ledger, broker).run.run_id

    assert (second, third) == (f"{first}-2", f"{first}-3")


def test_asking_afresh_leaves_the_number_of_a_run_that_cannot_be_read_here(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version's run is in the list of ids alone, as in `RedisLedger.runs`."""
    theirs = planned(five).run_id
    monkeypatch.setattr(ledger, "run_ids", lambda: [theirs])

    assert afresh(planned(five), ledger).run_id == f"{theirs}-2"


def test_a_name_of_ones_own_stands_before_the_fingerprint(five: Path) -> None:
    ready = planned(five, name="My Run")

    assert ready.run_id == f"my-run-{ready.spec.fingerprint()[:8]}"


def test_a_priority_reaches_the_messages(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    submit(planned(five), ledger, broker)
    urgent = submit(planned(five, name="urgent"), ledger, broker, Priority.HIGH)

    assert broker.messages[0][1] == urgent.run.run_id


def test_a_run_that_is_enqueued_again_keeps_its_priority_unless_another_is_named_for_what_is_sent(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Priority] = []

    def send_missing(_: Run, priority: Priority) -> tuple[int, int]:
        sent.append(priority)
        return 0, 0

    monkeypatch.setattr(broker, "send_missing", send_missing)
    submit(planned(five), ledger, broker, Priority.HIGH)
    for asked in (None, Priority.LOW):
        assert submit(planned(five), ledger, broker, asked).run.priority is Priority.HIGH
    assert sent == [Priority.HIGH, Priority.LOW]


def test_a_weight_is_kept_beside_the_run_and_is_no_part_of_what_is_asked(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    assert broker.weight(run_id) == 1
    assert submit(planned(five), ledger, broker, weight=3).run.run_id == run_id
    assert submit(planned(five), ledger, broker).run.run_id == run_id
    assert broker.weight(run_id) == 3


@pytest.mark.parametrize("rewrite", [("Question 0?", "Question zero?"), ('"answer": "B"', '"answer": "Z"')])
def test_what_was_checked_is_what_is_asked_although_the_file_changed_meanwhile(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, rewrite: tuple[str, str]
) -> None:
    ready = planned(five)
    checked = list(ready.survey.questions())
    five.write_text(five.read_text().replace(*rewrite))

    done = submit(ready, ledger, broker)

    assert [question for question, _ in ledger.results(done.run.run_id)] == checked
    assert done.run.spec.questions_digest == ready.survey.digest.hexdigest()
