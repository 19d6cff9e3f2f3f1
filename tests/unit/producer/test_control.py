"""Pause, resume, cancel, requeue as a person meets them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from contract.errors import LedgerError, RunHalted, WritesRefused
from contract.ledger import MemoryLedger, Run, RunState
from contract.names import request_id
from contract.verdict import Failure, Outcome, Verdict
from producer.broker import MemoryBroker
from producer.options import CANCELLED
from tests.support import interrupted_run, make_questions, open_run, settle
from tests.unit.producer.conftest import Producer


def drop_all(ledger: MemoryLedger, broker: MemoryBroker) -> None:
    """What workers do with messages of a halted run."""
    for _, run_id, ids in broker.messages:
        with pytest.raises(RunHalted):
            ledger.begin(run_id, ids)
    broker.messages.clear()


@contextmanager
def unchanged(ledger: MemoryLedger, run_id: str) -> Iterator[None]:
    before = ledger.counts(run_id), list(ledger.results(run_id))
    yield
    assert (ledger.counts(run_id), list(ledger.results(run_id))) == before


def test_a_paused_run_goes_on_with_what_was_put_aside(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    settle(ledger, run_id, "q0")
    assert producer("pause", run_id).stdout == f"{run_id} is paused: 1 of 5 settled\n"
    assert producer("pause", run_id).stdout == f"{run_id} is already paused: 1 of 5 settled\n"
    drop_all(ledger, broker)
    assert producer("resume", run_id).stdout == f"{run_id} was paused, now resumed: 4 questions sent in 2 messages\n"
    assert [ids for _, _, ids in broker.messages] == [["q1", "q2"], ["q3", "q4"]]
    again = producer("resume", run_id).stdout
    assert again == f"{run_id} was not halted: every unsettled question is already in a message, nothing was sent\n"


def test_a_request_to_the_http_server_cannot_be_paused_and_nothing_is_done_to_other_runs(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    """It was called paused, and was gone at once: its client was told to send it again."""
    request = request_id()
    ledger.open_run(ledger.run(run_id).model_copy(update={"run_id": request}))
    ledger.add_questions(request, make_questions(5))
    with unchanged(ledger, run_id), unchanged(ledger, request):
        assert producer("pause", run_id, request, exit_code=1).stderr == (
            f"error: {request} is a request to the HTTP server, whose client waits for the answer. "
            f"To have it told that there will be none: python -m producer cancel {request}\n"
        )
    assert producer("cancel", request).stdout == f"{request} is cancelled: 0 of 5 settled\n"
    settle(ledger, request, *(f"q{n}" for n in range(5)))
    assert producer("pause", request).stdout == f"{request} is already settled\n"


def test_what_workers_still_finish_of_a_cancelled_run_is_told(
    producer: Producer, run_id: str, broker: MemoryBroker
) -> None:
    broker.held.add(run_id)
    told = producer("cancel", run_id).stdout
    assert told == f"{run_id} is cancelled: 0 of 5 settled, and workers finish what they have begun\n"


@pytest.mark.parametrize("words", [["resume"], ["requeue"]])
def test_what_is_sent_again_has_the_priority_that_the_run_was_enqueued_with(
    producer: Producer, five: Path, ledger: MemoryLedger, broker: MemoryBroker, words: list[str]
) -> None:
    urgent = producer.json("enqueue", five, "--priority", "high")["run_id"]
    if words == ["resume"]:
        producer("pause", urgent)
        drop_all(ledger, broker)
    broker.messages.clear()
    producer("enqueue", five, "--fresh")

    producer(*words, urgent)

    assert broker.messages[0][1] == urgent


def test_pausing_and_resuming_before_any_worker_looked_sends_nothing_twice(
    producer: Producer, run_id: str, broker: MemoryBroker
) -> None:
    before = broker.messages[:]
    producer("pause", run_id)
    producer("resume", run_id)
    assert broker.messages == before


def test_every_view_of_a_run_says_that_it_is_paused(producer: Producer, run_id: str, ledger: MemoryLedger) -> None:
    settle(ledger, run_id, "q0")
    producer("pause", run_id)
    assert "paused, not finished: 4 of 5 without a verdict" in producer("status").stdout
    assert producer.json("status")["state"] == "paused"
    assert producer("runs").stdout.splitlines()[1].split()[2] == "paused"
    assert producer.json("runs")[0]["state"] == "paused"
    exported = producer.json("export")
    assert exported["state"] == "paused"
    assert json.loads(Path(exported["files"][-1]).read_text())["state"] == "paused"
    assert "paused, not finished: 4 of 5 without a verdict" in producer("export").stdout


def test_an_unfinished_export_says_so_and_a_finished_one_does_not(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    settle(ledger, run_id, "q0", "q1")
    assert "running, not finished: 3 of 5 without a verdict" in producer("export").stdout
    assert producer.json("export")["state"] == "running"
    settle(ledger, run_id, "q2", "q3", "q4")
    assert "not finished" not in producer("export").stdout
    assert producer.json("export")["state"] == "settled"


def test_a_run_whose_questions_were_not_all_written_is_nowhere_taken_for_a_finished_one(
    producer: Producer, ledger: MemoryLedger
) -> None:
    run_id = interrupted_run(ledger, make_questions(5), written=2).run_id
    settle(ledger, run_id, "q0")
    settle(ledger, run_id, "q1", outcome=Outcome.FAILED)

    told = [producer.json("export"), producer.json("status")]  # export: 0, not 3 for finished with failed questions
    producer("cancel", run_id)
    watched = producer.json("watch", exit_code=CANCELLED)
    exported = [producer.json("watch", "--export", exit_code=CANCELLED), producer.json("export")]

    for each in (*told, watched, *exported):
        assert (each["total"], each["settled"], each["unsettled"]) == (5, 2, 3)


def test_a_watch_ends_at_a_cancelled_run_with_what_there_is_and_an_exit_code_of_its_own(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    settle(ledger, run_id, "q0", "q1")
    assert producer("cancel", run_id).stdout == f"{run_id} is cancelled: 2 of 5 settled\n"
    watched = producer("watch", exit_code=CANCELLED)
    assert f"The run is cancelled. Resume it with: python -m producer resume {run_id}" in watched.stderr
    assert "cancelled, not finished: 3 of 5 without a verdict" in watched.stdout
    assert "2 of 2" in watched.stdout, "verdicts stay"
    assert producer.json("watch", exit_code=CANCELLED)["state"] == "cancelled"
    exported = producer("watch", "--export", exit_code=CANCELLED)
    assert "results.csv" in exported.stdout


def test_a_cancelled_run_is_taken_up_by_enqueuing_it_again(
    producer: Producer, run_id: str, five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    settle(ledger, run_id, "q0")
    producer("cancel", run_id)
    drop_all(ledger, broker)
    said = producer("enqueue", five).stdout
    assert "was cancelled, now resumed: 4 of 5 unsettled, 4 re-sent in 2 messages" in said
    assert ledger.counts(run_id).standing == "running"
    producer("cancel", run_id)
    assert producer.json("enqueue", five)["state"] == "revived"


def test_a_paused_run_waits_also_when_it_is_enqueued_again(
    producer: Producer, run_id: str, five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    producer("pause", run_id)
    drop_all(ledger, broker)
    said = producer("enqueue", five).stdout
    assert f"paused: nothing was sent; resume it with: python -m producer resume {run_id}" in said
    assert broker.messages == []
    assert producer.json("enqueue", five)["state"] == "paused"


def test_a_cancelled_run_cannot_be_paused_and_can_be_resumed(producer: Producer, run_id: str) -> None:
    producer("cancel", run_id)
    assert producer("cancel", run_id).stdout == f"{run_id} is already cancelled: 0 of 5 settled\n"
    refused = producer("pause", run_id, exit_code=1).stderr
    assert refused == f"error: {run_id} is cancelled. Resume it first: python -m producer resume {run_id}\n"
    assert "was cancelled, now resumed" in producer("resume", run_id).stdout


def test_a_cancelled_run_keeps_none_of_those_named_with_it_from_being_paused(producer: Producer, five: Path) -> None:
    ended, open_ = (producer.json("enqueue", five, "--run", each)["run_id"] for each in ("one", "two"))
    producer("cancel", ended)
    told = producer("pause", ended, open_, exit_code=1)
    assert told.stdout == f"{open_} is paused: 0 of 5 settled\n"
    assert told.stderr == f"error: {ended} is cancelled. Resume it first: python -m producer resume {ended}\n"


def test_several_runs_are_halted_and_resumed_in_the_order_in_which_they_are_named(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    """A suite is as many runs as it has entries and models, and each took a command."""
    one, two, three = (producer.json("enqueue", five, "--run", each)["run_id"] for each in ("one", "two", "three"))
    for verb, state in (("pause", "paused"), ("cancel", "cancelled")):
        told = producer(verb, "two", "one").stdout
        assert told == f"{two} is {state}: 0 of 5 settled\n{one} is {state}: 0 of 5 settled\n"
    assert [ledger.counts(each).standing for each in (one, two, three)] == ["cancelled", "cancelled", "running"]
    told = producer("resume", "one", "two", "--priority", "high").stdout
    assert [line.partition(":")[0] for line in told.splitlines()] == [
        f"{each} was cancelled, now resumed" for each in (one, two)
    ]


@pytest.mark.parametrize("words", [("resume",), ("requeue",), ("requeue", "--failed")])
def test_for_several_runs_the_messages_are_read_once_unless_another_process_is_sending_some(
    producer: Producer,
    five: Path,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole queue was read for each of them: for 100 runs with 313 messages each, that took half a minute."""
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "three", "four")]
    settle(ledger, ids[3], *(f"q{n}" for n in range(5)))
    broker.messages = [each for each in broker.messages if each[1] == ids[2]]
    read: list[list[str]] = []

    def in_messages(runs: Sequence[Run]) -> Mapping[str, Collection[str]]:
        read.append([run.run_id for run in runs])
        return MemoryBroker.in_messages(broker, runs)

    monkeypatch.setattr(broker, "in_messages", in_messages)
    monkeypatch.setattr(broker, "sole_sender_of_free", lambda _: nullcontext(frozenset(ids[1:])))
    waited_for: list[str] = []

    def sole_sender(run_id: str) -> nullcontext[None]:
        waited_for.append(run_id)
        return nullcontext()

    monkeypatch.setattr(broker, "sole_sender", sole_sender)
    said = producer(*words, *ids).stdout

    assert waited_for == ids[:1]
    assert read == [ids[1:3], ids[:1]], "not for the one that is settled"
    assert [line.partition(":")[0].split()[0] for line in said.splitlines()] == [*ids[1:], ids[0]]
    assert sorted(run_id for _, run_id, _ in broker.messages) == sorted(ids[:3] * 3)


def test_a_failed_question_is_sent_again_although_a_worker_still_holds_the_message_that_it_failed_in(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    """It was said to be in a message already: the one that the worker acknowledged once the others were settled."""
    held = list(broker.messages)
    settle(ledger, run_id, "q1", outcome=Outcome.FAILED)

    said = producer("requeue", run_id, "--failed").stdout

    assert said == f"{run_id}: 1 failed verdict discarded; 1 question sent in 1 message\n"
    assert [ids for *_, ids in broker.messages if ids not in [each for *_, each in held]] == [["q1"]]


@pytest.mark.parametrize("verb", ["pause", "cancel", "resume", "requeue", "purge"])
def test_nothing_is_done_to_any_run_if_one_of_the_names_is_wrong(
    producer: Producer, run_id: str, ledger: MemoryLedger, verb: str
) -> None:
    with unchanged(ledger, run_id):
        assert "No run 'nothing'" in producer(verb, run_id, "nothing", exit_code=1).stderr


@pytest.mark.parametrize("verb", ["pause", "cancel", "resume"])
def test_a_settled_run_is_beyond_control(producer: Producer, run_id: str, ledger: MemoryLedger, verb: str) -> None:
    settle(ledger, run_id, *(f"q{n}" for n in range(5)))
    with unchanged(ledger, run_id):
        assert producer(verb, run_id).stdout == f"{run_id} is already settled\n"
        assert producer.json("watch")["state"] == "settled"


def test_requeue_sends_what_is_in_no_message(producer: Producer, run_id: str, broker: MemoryBroker) -> None:
    broker.messages.pop(0)
    assert producer("requeue", run_id).stdout == f"{run_id}: 2 questions sent in 1 message\n"
    again = producer("requeue", run_id).stdout
    assert again == f"{run_id}: every unsettled question is already in a message, nothing was sent\n"


def test_requeue_asks_no_model_where_stored_texts_were_read_again(
    producer: Producer, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    run = open_run(ledger, make_questions(1), rescored_from="old-0a1b2c3d")
    with unchanged(ledger, run.run_id):
        said = producer("requeue", run.run_id, exit_code=1).stderr
    assert "Finish it with: python -m workers rescore old-0a1b2c3d" in said
    assert broker.messages == []


def test_failed_questions_of_stored_texts_are_asked_again_in_the_run_that_has_the_texts(
    producer: Producer, ledger: MemoryLedger
) -> None:
    """`export` and `status` advised a `requeue --failed` that was refused, and the refusal to finish what was."""
    run = open_run(ledger, make_questions(1), rescored_from="old-0a1b2c3d")
    why = Failure(type="RequestRejected", message="too long")
    ledger.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.FAILED, error=why)])
    again = (
        "requeue old-0a1b2c3d --failed, and once it has settled: python -m workers rescore old-0a1b2c3d"
        " (if old-0a1b2c3d was purged, enqueue its questions again instead)"
    )
    with unchanged(ledger, run.run_id):
        refused = producer("requeue", run.run_id, "--failed", exit_code=1).stderr
    for said in (refused, producer("status").stdout, producer("export", exit_code=3).stdout):
        assert again in " ".join(said.split())
        assert f"requeue {run.run_id}" not in said


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_stored_texts_that_are_read_again_cannot_be_paused(
    producer: Producer, ledger: MemoryLedger, command: str
) -> None:
    """It said "is paused", and the reading went on; "resume" said that all questions were in messages."""
    run = open_run(ledger, make_questions(2), rescored_from="old-0a1b2c3d")
    settle(ledger, run.run_id, "q0")
    with unchanged(ledger, run.run_id):
        said = producer(command, run.run_id, exit_code=1).stderr
    assert "Finish it with: python -m workers rescore old-0a1b2c3d" in said
    settle(ledger, run.run_id, "q1")
    assert producer(command, run.run_id).stdout == f"{run.run_id} is already settled\n"


@pytest.mark.parametrize("step", ["reopen_failed", "unsettled"])
@pytest.mark.parametrize("verb", ["cancel", "purge", "damage"])
def test_a_run_that_is_cancelled_purged_or_damaged_while_several_are_requeued_keeps_none_of_the_others_from_being_sent(
    producer: Producer,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    step: str,
) -> None:
    """What had failed of the others was taken back, and sent by nobody."""
    runs = [open_run(ledger, make_questions(2), name) for name in ("one", "two", "three", "four")]
    for run in runs:
        settle(ledger, run.run_id, "q0", outcome=Outcome.FAILED)
    broken = [run.run_id for run in runs[1:3]]
    real, broker.messages = getattr(ledger, step), []

    def late(run_id: str) -> Any:
        if run_id in broken:
            if verb == "damage":
                raise LedgerError(f"Run {run_id}, question 'q0': cannot be read from the ledger.")
            ledger.purge(run_id) if verb == "purge" else ledger.halt(run_id, RunState.CANCELLED)
        return real(run_id)

    monkeypatch.setattr(ledger, step, late)
    is_sent = verb == "cancel" and step == "unsettled"  # workers put it aside
    done = producer("requeue", *(run.run_id for run in runs), "--failed", exit_code=0 if is_sent else 1)

    sent = "1 failed verdict discarded; 2 questions sent in 1 message"
    assert done.stdout == "".join(f"{run.run_id}: {sent}\n" for run in runs if is_sent or run.run_id not in broken)
    if not is_sent:
        told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert [each in line for each, line in zip(broken, told, strict=True)] == [True, True]


def test_a_run_that_is_purged_while_it_is_given_a_weight_is_not_said_to_have_it(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    weigh = broker.weigh

    def late(of: str, weight: int) -> None:
        ledger.purge(of)
        weigh(of, weight)

    monkeypatch.setattr(broker, "weigh", late)
    done = producer("weight", run_id, "3", exit_code=1)
    assert (done.stdout, broker.weights) == ("", {})
    assert run_id in done.stderr


def test_requeue_takes_failed_verdicts_back_only_when_told(
    producer: Producer, run_id: str, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    broker.messages.clear()
    settle(ledger, run_id, "q0", "q2", "q4")
    settle(ledger, run_id, "q1", "q3", outcome=Outcome.FAILED)
    with unchanged(ledger, run_id):
        producer("requeue", run_id)
    said = producer("requeue", run_id, "--failed", "--priority", "high").stdout
    assert said == f"{run_id}: 2 failed verdicts discarded; 2 questions sent in 1 message\n"
    assert [ids for _, _, ids in broker.messages] == [["q1", "q3"]]
    assert ledger.counts(run_id).of(Outcome.FAILED) == 0
    again = producer("requeue", run_id, "--failed").stdout
    assert again.startswith(f"{run_id}: 0 failed verdicts discarded; every unsettled question is already in a message")


def test_failed_questions_of_several_runs_are_asked_again_at_once_and_of_none_if_one_is_halted(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    """After a night in which a suite failed here and there, each run had to be named in a command of its own."""
    ids = [producer.json("enqueue", five, "--run", name)["run_id"] for name in ("one", "two", "three")]
    for run_id in ids[:2]:
        settle(ledger, run_id, "q0", "q1", outcome=Outcome.FAILED)
    producer("pause", ids[2])

    producer("requeue", *ids, "--failed", exit_code=1)
    assert [ledger.counts(each).of(Outcome.FAILED) for each in ids[:2]] == [2, 2]

    said = producer("requeue", *ids[:2], ids[0], "--failed").stdout

    assert [line.split(";")[0] for line in said.splitlines()] == [
        f"{each}: 2 failed verdicts discarded" for each in ids[:2]
    ]
    assert [ledger.counts(each).of(Outcome.FAILED) for each in ids[:2]] == [0, 0]


def test_requeue_of_a_settled_run_says_so_and_how_its_failed_questions_are_asked_anew(
    producer: Producer, run_id: str, ledger: MemoryLedger
) -> None:
    settle(ledger, run_id, "q0", "q2", "q4")
    settle(ledger, run_id, "q1", "q3", outcome=Outcome.FAILED)
    settled = f"{run_id}: already settled, nothing was sent"
    assert producer("requeue", run_id).stdout == f"{settled}; --failed asks 2 failed questions again\n"
    producer("requeue", run_id, "--failed")
    settle(ledger, run_id, "q1", "q3")
    assert producer("requeue", run_id).stdout == f"{settled}\n"
    again = producer("requeue", run_id, "--failed").stdout
    assert again == f"{run_id}: 0 failed verdicts discarded; already settled, nothing was sent\n"


def cut_off(run_id: str, ledger: MemoryLedger) -> None:
    """A run `cut`, like the other one, but of whose five questions an enqueueing wrote two."""
    ledger.open_run(ledger.run(run_id).model_copy(update={"run_id": "cut"}))
    ledger.add_questions("cut", [question for question, _ in ledger.results(run_id)][:2])


@pytest.mark.parametrize("verb", ["status", "resume", "requeue"])
def test_it_is_said_that_questions_of_a_run_are_missing_because_its_enqueueing_was_cut_short(
    producer: Producer, run_id: str, ledger: MemoryLedger, verb: str
) -> None:
    cut_off(run_id, ledger)

    told = "3 of 5 questions not in the ledger: unless the `enqueue`, `suite` or `load` that made it is still writing"
    assert told in producer(verb, "cut").output
    assert "not in the ledger" not in producer(verb, run_id).output


@pytest.mark.parametrize("words", [["requeue"], ["requeue", "--failed"]])
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_halted_run_is_not_requeued(
    producer: Producer, run_id: str, ledger: MemoryLedger, words: list[str], verb: str
) -> None:
    settle(ledger, run_id, "q1", outcome=Outcome.FAILED)
    producer(verb, run_id)
    with unchanged(ledger, run_id):
        refused = producer(*words, run_id, exit_code=1).stderr
    assert f"{run_id} is {'paused' if verb == 'pause' else 'cancelled'}." in refused
    assert f"python -m producer resume {run_id}" in refused


def test_a_priority_is_shown_and_is_that_of_what_is_sent_now(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    """With --priority, a run whose messages waited was said to be re-sent, and nothing told that they kept theirs."""
    usual, low = (producer.json("enqueue", five, "--run", each, "--priority", each) for each in ("normal", "low"))
    queued = "what is queued keeps its priority, and `pause` of other runs lets it go first\n"
    kept = f"every unsettled question is already in a message, nothing was sent; {queued}"

    assert [usual["priority"], low["priority"]] == ["normal", "low"]
    assert "\npriority " not in producer("status", usual["run_id"]).stdout
    assert "priority  low: behind all runs of higher priority" in producer("status", low["run_id"]).stdout
    for verb in ("resume", "requeue"):
        assert producer(verb, low["run_id"], "--priority", "high").stdout.endswith(kept)
    again = producer("enqueue", five, "--run", "low", "--priority", "high").stdout
    assert f"priority   still low, as first enqueued; {queued}" in again
    settle(ledger, low["run_id"], *(f"q{n}" for n in range(5)))
    again = producer("enqueue", five, "--run", "low", "--priority", "high").stdout
    assert "priority   still low, as first enqueued\n" in again, "nothing of it is queued"


def test_enqueuing_a_settled_run_says_how_its_failed_questions_are_asked_again(
    producer: Producer, five: Path, ledger: MemoryLedger
) -> None:
    run_id = producer.json("enqueue", five, "--run", "one")["run_id"]
    settle(ledger, run_id, *(f"q{n}" for n in range(4)))
    settle(ledger, run_id, "q4", outcome=Outcome.FAILED)

    again = producer("enqueue", five, "--run", "one").stdout

    assert f"failed     1 question; to ask again: python -m producer requeue {run_id} --failed" in again


def test_what_text_says_of_a_run_json_says_too(producer: Producer, run_id: str, ledger: MemoryLedger) -> None:
    """That its answers were made up was in no JSON of `watch` and `status`."""
    made_up = [Verdict(question_id=f"q{n}", outcome=Outcome.CORRECT, choice="A", simulated=True) for n in range(5)]
    ledger.commit(run_id, made_up)

    watched, exported = producer.json("watch"), producer.json("export")

    assert watched["rates"]["simulated"] == 1.0
    unlike = {each: exported[each] for each in ("files", "exported_at")}
    assert {**watched, **unlike} == exported
    assert producer.json("runs")[0]["chance"] == exported["chance"]
    assert producer.json("status")["simulated"] is False, "no worker is there"


def test_json_says_as_text_does_that_questions_failed_are_missing_or_cannot_be_written(
    producer: Producer, run_id: str, five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    interrupted = interrupted_run(ledger, make_questions(4), 1).run_id
    missing = 3
    assert f"unwritten  {missing:,} of" in producer("status", interrupted).stdout
    broker.refused = WritesRefused("Redis refuses writes.")
    told = producer.json("status", interrupted)
    assert (told["unwritten"], told["refused"]) == (missing, "Redis refuses writes.")
    assert "Redis refuses writes." in producer("status", interrupted).stdout

    settle(ledger, run_id, *(f"q{n}" for n in range(5)), outcome=Outcome.FAILED)
    assert producer.json("status", run_id)["refused"] is None, "nothing of it is to be written"
    assert "failed     5 questions; to ask again:" in producer("enqueue", five).stdout
    assert producer.json("enqueue", five)["failed"] == 5
