"""Completions are read in this process and in others alike."""

from __future__ import annotations

import contextlib
import errno
import logging
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future

import psutil
import pytest

from contract import Mode, Outcome, Prompt
from contract.spec import FewShot, Judge, Sampling
from tests.support import PATIENCE_S, ROOT, make_questions, make_spec, wait_until
from tests.unit.workers.writer import Writer
from workers.engines.base import Completion, Text
from workers.pipeline import score_in_parts
from workers.reading import FEWEST, Found, Reader, ReadingProcesses, Unread, read_here
from workers.scoring import FollowUp, Item, Reading

QUESTIONS = make_questions(60)


@pytest.fixture
def processes() -> Iterator[ReadingProcesses]:
    found = ReadingProcesses(2)
    found.start()
    yield found
    found.close()
    wait_until(lambda: not children(), "the processes to end")


def unread(mode: Mode = Mode.GENERATE, texts: int = 1, few_shot: FewShot | None = None) -> list[Unread]:
    """Return texts of all questions, which name a choice, name none, or do not end."""
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}")) if mode is Mode.JUDGE else None
    sampling = Sampling(max_tokens=16, samples=texts, temperature=1.0 if texts > 1 else 0.0)
    spec = make_spec(QUESTIONS, mode=mode, sampling=sampling, judge=judge, few_shot=few_shot)
    said = [f"Answer: {'ABCD'[k % 4]}" if k % 5 else "I would rather not say." for k in range(len(QUESTIONS))]
    answers = [Completion(texts=tuple(Text(each, 4, truncated=k % 2 == 0) for k in range(texts))) for each in said]
    return [Unread(question, [answer], spec) for question, answer in zip(QUESTIONS, answers, strict=True)]


def children() -> list[psutil.Process]:
    """Return those that read."""
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(each.cmdline()):
                found.append(each)
    return found


@pytest.mark.parametrize(("mode", "texts"), [(Mode.GENERATE, 1), (Mode.VOTE, 3)])
def test_other_processes_read_what_this_one_reads(processes: ReadingProcesses, mode: Mode, texts: int) -> None:
    given = unread(mode, texts)
    found = processes(given)
    assert found == read_here(given)


def test_what_is_read_apart_does_not_carry_the_pool_of_examples(
    processes: ReadingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Answer: A\n\nWhat is 3 plus 4?\nA. 6\nB. 7\nAnswer: B"
    given = unread(few_shot=FewShot(k=2, pool=tuple(make_questions(2000))))
    given = [each._replace(completions=[Completion(texts=(Text(said, 9),))]) for each in given]
    pool, sent = processes._pool, []
    assert pool is not None
    submit = pool.submit

    def submitted(read: Reader, part: list[Unread]) -> Future[list[Found]]:
        sent.append(len(pickle.dumps(part)))
        return submit(read, part)

    monkeypatch.setattr(pool, "submit", submitted)
    found = processes(given)
    assert found == read_here(given)
    assert {each.choice for each in found if isinstance(each, Reading)} == {"A"}, "rules for prompts with examples"
    assert max(sent) < len(pickle.dumps(given[0].spec)) / 10


def test_what_cannot_be_sent_is_read_here_and_all_stays_in_order(processes: ReadingProcesses) -> None:
    graded = unread(Mode.JUDGE)
    mixed = [each for pair in zip(unread(), graded, strict=True) for each in pair]
    found = processes(mixed)
    assert found[::2] == read_here(mixed[::2])
    assert {type(each) for each in found[1::2]} == {FollowUp}


def test_an_unreadable_answer_fails_its_own_question_only(processes: ReadingProcesses) -> None:
    given = unread()
    given[7] = given[7]._replace(completions=[Completion()])  # no text
    found = processes(given)
    assert isinstance(found[7], ValueError)
    assert [*found[:7], *found[8:]] == read_here([*given[:7], *given[8:]])


def test_verdicts_do_not_depend_on_who_reads(processes: ReadingProcesses) -> None:
    spec = make_spec(QUESTIONS, mode=Mode.GENERATE, sampling=Sampling(max_tokens=16))
    items = [Item(each, spec) for each in QUESTIONS]
    engine = Writer(lambda request: [f"Answer: {'ABCD'[len(request.prompt) % 4]}"])
    here, apart = (
        [verdict for part in score_in_parts(items, engine, reader=reader) for _, verdict in part]
        for reader in (read_here, processes)
    )
    told = {"outcome", "choice", "rule", "raw_text"}
    assert [each.model_dump(include=told) for each in apart] == [each.model_dump(include=told) for each in here]
    assert Outcome.FAILED not in {each.outcome for each in apart}


def test_without_processes_and_for_few_texts_nothing_is_sent(processes: ReadingProcesses) -> None:
    given = unread()
    none = ReadingProcesses(0)
    none.start()
    assert none(given) == read_here(given)
    for each in children():
        each.kill()
    few = given[: FEWEST - 1]
    assert processes(few) == read_here(few)


@pytest.mark.parametrize("call", ["_multiprocessing.SemLock", "multiprocessing.util.spawnv_passfds"])
def test_where_the_system_has_no_room_for_processes_everything_is_read_here(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker did not boot, as where another program had filled /dev/shm, and was given up."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, refused)
    given, none = unread(), ReadingProcesses(2)
    with caplog.at_level(logging.WARNING):
        none.start()
    assert none(given) == read_here(given)
    none.close()
    assert [each.message for each in caplog.records] == [
        "no process reads texts beside the worker, which reads them itself: [Errno 28] No space left on device"
    ]


def test_after_a_process_was_killed_everything_is_read_here(
    processes: ReadingProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    given = unread()
    processes(given)
    children()[0].kill()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert processes(given) == read_here(given)
    assert [each.message for each in caplog.records] == [
        "a process that reads texts has ended: the worker reads them itself from now on"
    ]


def test_after_they_were_closed_everything_is_read_here(processes: ReadingProcesses) -> None:
    processes.close()
    processes.close()
    given = unread()
    assert processes(given) == read_here(given)


def test_ctrl_c_is_for_the_worker_to_understand(processes: ReadingProcesses) -> None:
    given = unread()
    started = children()
    for _ in range(2):  # while they start, and when they are up
        for each in started:
            each.send_signal(signal.SIGINT)
        assert processes(given) == read_here(given)
    assert children() == started
    assert len(started) == 2


def test_they_end_with_the_process_that_started_them_however_it_ends() -> None:
    code = """
from workers.reading import ReadingProcesses
import time
if __name__ == "__main__":
    processes = ReadingProcesses(2)
    processes.start()
    processes._pool.submit(int).result()  # they are up
    print("started", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        started = psutil.Process(parent.pid).children(recursive=True)
        assert len(started) >= 2
        parent.kill()
        parent.wait(timeout=PATIENCE_S)
    wait_until(lambda: not any(each.is_running() for each in started), "them to end")
