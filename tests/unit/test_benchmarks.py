"""What the benchmarks make of command lines, questions and failures, without running any."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentTypeError, Namespace
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from benchmarks import beside, command, load, makespan, overhead, prefix_cache, retrieval_overlap
from benchmarks import settings as settings_compared
from benchmarks.asking import Asking, asking_of, engine_of
from benchmarks.batch_size import optimal_size, row
from benchmarks.chaos import part_of
from benchmarks.command import (
    Parser,
    above_zero,
    existing_file,
    existing_folder,
    from_zero,
    one_of,
    positive,
    run,
    writable_folder,
)
from benchmarks.concurrency import falls, repeated
from benchmarks.jsonl import read_rows, write_rows
from benchmarks.overhead import enough
from benchmarks.peers import cases_of
from benchmarks.question_files import Set, compare
from benchmarks.raw import Raw
from benchmarks.sides import Bench
from benchmarks.stand import measured
from contract.errors import EngineError, InputError, RunConfigError, SettingsError
from contract.prompts import render
from contract.settings import Settings, load_settings
from contract.spec import IndexKind, Retrieval
from contract.verdict import Outcome, Verdict
from producer.readers import Source
from tests.support import PATIENCE_S, ROOT, make_questions, wait_until
from workers.tuning.trials import Shape, Trial


def test_a_thread_that_computes_is_told_from_one_that_waits() -> None:
    over = threading.Event()
    waiting = threading.Thread(target=over.wait)
    waiting.start()
    two = {(os.getpid(), threading.get_native_id()), (os.getpid(), waiting.native_id)}  # the tests may have more

    def used() -> beside.Threads:
        return {thread: spent_s for thread, spent_s in beside.threads([psutil.Process()]).items() if thread in two}

    before, began_s = used(), time.thread_time()
    while time.thread_time() - began_s < 0.2:
        pass
    after = used()
    over.set()
    waiting.join()
    assert before.keys() == after.keys() == two
    model, others = beside.apart(before, after, 0.2)
    assert model > 0.19
    assert others < model


def test_where_no_thread_can_be_the_models_nothing_is_said_to_be_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that others kept busy, all CPU time was that of the queue."""
    found = {"seconds": 2.0, "model": 0.0, "beside": 2.0, "worker": 2.0}
    monkeypatch.setattr(beside, "measured", lambda *_: found)
    asked: Any = SimpleNamespace(count=lambda _: 16)
    with pytest.raises(EngineError, match=r"letter: in a round, no thread was busy.* End what else runs"):
        beside.row(SimpleNamespace(settings=None), asked, "letter", {"worker": []}, 2)  # type: ignore[arg-type]
    found["model"] = 6.0
    shown = beside.row(SimpleNamespace(settings=None), asked, "letter", {"worker": []}, 2)  # type: ignore[arg-type]
    assert shown["beside it, share of all"] == 0.25


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (positive, "0"),
        (positive, "-1"),
        (positive, "1.5"),
        (from_zero, "-1"),
        (above_zero, "0"),
        (above_zero, "nan"),
        (above_zero, "inf"),
        (one_of(["letter"]), "lettr"),
        (existing_file, "benchmarks"),
        (existing_folder, "pyproject.toml"),
        (existing_folder, ""),
        (writable_folder, ""),
        (part_of, "1"),
        (part_of, "3/2"),
        (enough, "9999"),
        (cases_of, "qasc"),
        (cases_of, "qasc:=pyproject.toml"),
        (cases_of, "qasc:lettr=pyproject.toml"),
        (cases_of, "qasc=no.jsonl"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_boots(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ArgumentTypeError):
        read(text)


def test_an_expected_error_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> int:
        raise EngineError("No GPU has room.", hint="Free one.")

    with pytest.raises(SystemExit) as left:
        run(main)
    assert left.value.code == 1
    assert capsys.readouterr().err == "error: No GPU has room. Free one.\n"


#: Every module here that is a program.
PROGRAMS = sorted(
    path.stem for path in Path(command.__file__).parent.glob("*.py") if "    run(main)" in path.read_text().splitlines()
)


def ended(program: str, *typed: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of the program, given those words."""
    monkeypatch.setattr(sys, "argv", [f"{program}.py", *typed])
    with pytest.raises(SystemExit) as exit_:
        run(import_module(f"benchmarks.{program}").main)
    return exit_.value.code


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_shows_its_docstring_and_refuses_in_one_line(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(program, "--help", monkeypatch=monkeypatch) == 0
    assert str(import_module(f"benchmarks.{program}").__doc__).splitlines()[0] in capsys.readouterr().out
    assert ended(program, "--out", "pyproject.toml", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert said == "error: argument --out: not a writable folder: pyproject.toml\n"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("batch_size=8",), "There is nothing to compare."),
        (("batch_size=8", "batch_size=8"), "There is nothing to compare."),
        (("batch_size=8", "batch_size=4 batchsize=4"), "Did you mean 'batch_size'?"),
        (("model=one", "model=other"), "model: each side is served under a name of its own."),
        (("batch_size=8", "batch_size=4", "--config", "configs/deploy/hybrid.yaml"), "Sides are workers of one model."),
    ],
)
def test_sides_that_cannot_be_compared_are_refused_before_anything_boots(
    typed: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("settings", *typed, monkeypatch=monkeypatch) == 1
    assert says in capsys.readouterr().err


def test_a_value_given_twice_is_refused_as_its_second_run_would_be_answered_already(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second row of `scaling --workers 4 4` had the verdicts of the first, and no CPU time."""
    assert ended("scaling", "--workers", "4", "2", "4", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "error: argument --workers: given twice: 4\n"


def test_an_option_says_its_default_and_takes_several_values_where_that_is_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = Parser("What it measures.")
    parser.option("--sizes", positive, (1, 2), "batch sizes, 2 % apart")
    parser.option("--limit", positive, None, "questions")
    parser.option("--calls", positive, (1, 2), "one per worker", repeats=True)
    asked = parser.parse_args(["--sizes", "3", "4", "--calls", "5", "5"])
    assert (asked.sizes, asked.calls) == ([3, 4], [5, 5])
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    said = capsys.readouterr().out
    assert "batch sizes, 2 % apart (1 2)\n" in said
    assert " questions\n" in said


@pytest.mark.parametrize("line", ["not JSON", "7", "[]"])
def test_a_file_of_rows_that_are_none_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"id": "a"}])
    assert read_rows(path) == [{"id": "a"}]
    with path.open("a") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"rows\.jsonl:2: not a JSON object"):
        read_rows(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_rows(tmp_path / "none.jsonl")


def test_a_run_with_retrieval_is_refused_as_no_prompt_would_have_a_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimal batch size of much shorter prompts was shown under its title."""
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
    planned = SimpleNamespace(spec=SimpleNamespace(rag=rag))
    monkeypatch.setattr(Asking, "planned", lambda *_: planned)
    options = Namespace(questions=Path("q.jsonl"), overrides=["rag.enabled=true"], limit=8)
    with pytest.raises(RunConfigError, match=r"start no worker that searches.* rag\.use_context_field=true"):
        asking_of(options, Settings())
    planned.spec.rag = None
    assert asking_of(options, Settings()).limit == 8


def test_settings_that_start_no_worker_here_are_told_before_anything_boots() -> None:
    with (
        pytest.raises(SettingsError, match="gpu_groups: these settings start no worker for sim"),
        engine_of(load_settings(None, ["engine=simulated", "model=sim", "gpu_groups=[]"])),
    ):
        pass


def test_what_is_asked_is_shown_with_the_last_value_of_each_name() -> None:
    asking = Asking(Source(Path("q.jsonl"), "q.jsonl"), ("mode=letter", "mode=generate", "seed=3"), 4)
    assert asking.shown == "mode=generate, seed=3"


def test_the_optimal_batch_size_is_the_smallest_that_is_as_fast_as_the_fastest_but_for_noise() -> None:
    rates = {8: [30.0, 31.0, 20.0], 16: [36.5, 36.0, 37.0], 32: [36.9, 12.0, 37.1]}
    rows = [row(size, [Trial(Shape(size, 1), {}, each) for each in several]) for size, several in rates.items()]
    assert [each["questions_per_s"] for each in rows] == [30.0, 36.5, 36.9]
    assert optimal_size(rows) == 16


def test_questions_that_failed_in_a_sweep_over_batch_sizes_are_told_beside_its_rates() -> None:
    trials = [Trial(Shape(8, 1), {}, 30.0, failed=failed) for failed in (0, 3)]
    assert row(8, trials)["failed"] == 3


def test_a_run_lasts_from_its_first_message_on_also_while_the_engine_answers_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published_at, waits_s, call_s = 1000.0, (0.5, 0.9), 0.4
    found = [
        Verdict(
            question_id=f"q{wait_s}",
            outcome=Outcome.CORRECT,
            queued_ms=1000 * wait_s,
            latency_ms=1000 * call_s,
            settled_at=published_at + wait_s + call_s,
        )
        for wait_s in waits_s
    ]
    monkeypatch.setattr(retrieval_overlap, "settle", lambda *_: SimpleNamespace(said={"run_id": "r"}))
    monkeypatch.setattr(retrieval_overlap, "verdicts", lambda *_: found)

    at: Any = None
    assert retrieval_overlap.timed(at, Path("q"), Path("i"), 0, rag=False) == pytest.approx(0.9 + call_s)


def test_a_question_that_the_benchmark_sends_late_has_waited_since_it_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """At more questions a second than can be sent, they seemed to wait no longer than at few."""
    sent_at = []

    def send_slowly(*_: object) -> None:
        time.sleep(0.05)
        sent_at.append(time.time())

    def answered(*_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(settled_at=each) for each in sent_at]

    replaced: dict[str, Any] = {
        "opened": lambda *_: (SimpleNamespace(run_id="r"), make_questions(4)),
        "RedisBroker": lambda *_: SimpleNamespace(publish=lambda *_: None, close=lambda: None),
        "send": send_slowly,
        "wait_until_settled": lambda *_: None,
        "verdicts": answered,
    }
    for name, part in replaced.items():
        monkeypatch.setattr(load, name, part)
    at, asking = SimpleNamespace(settings=None, ledger=None), None
    first, *_, last = load.latencies(at, asking, [0.0] * 4, "")  # type: ignore[arg-type]
    assert last > first + 0.15 - 0.001


def test_no_mode_finds_the_prompts_of_another_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """By letter and for texts, a question has the same prompt: texts were timed with theirs cached from the letters."""
    at: Any = SimpleNamespace(settings=Settings(engine="simulated"))
    questions = Source(ROOT / "demo" / "questions.jsonl", "demo")
    prompts: dict[str, set[str]] = {"letter": set(), "generate": set()}

    def asked(bench: Bench, mode: str, served: Settings, mark: str, count: int) -> float:
        items = bench.asking(mode, count).items(served, mark)
        prompts[mode] |= {render(item.spec.prompt, item.question, None) for item in items}
        return 1.0

    monkeypatch.setattr(Bench, "whole_path", asked)
    monkeypatch.setattr(settings_compared, "answered", lambda *_: [])
    for part, mode in enumerate(prompts):
        settings_compared.compared(Bench(at, questions, 4, 1), part, mode, {"side 1": at.settings})
    assert all(prompts.values())
    assert not prompts["letter"] & prompts["generate"]


def test_no_side_finds_the_prompts_of_another_in_the_cache_of_the_engine_that_both_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every other round, `raw` was asked after `raw, choices in full`, whose prompts it shared."""
    marks: list[str] = []
    raw = Raw.__new__(Raw)
    raw._bench = Bench(None, None, 8, 1, alone=2)  # type: ignore[arg-type]

    def prompts(mark: str, _: int) -> list[object]:
        marks.append(mark)
        return []

    monkeypatch.setattr(raw, "_seconds", lambda _: 1.0)
    monkeypatch.setattr(raw, "_prompts", lambda _, mark, count: prompts(mark, count))
    monkeypatch.setattr(raw, "_whole_choices", prompts)
    raw.all_at_once("likelihood", "0.1", 8)
    raw.whole_choices("0.1", 8)
    raw.one_at_a_time("likelihood", "0.1", 8)
    assert len(set(marks)) == 3


def test_a_set_without_a_file_is_no_set_without_a_difference(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/\*\.jsonl: no such file"):
        compare(tmp_path, tmp_path, Set("a set", "none/*.jsonl"))


def test_of_a_question_that_is_read_more_often_only_the_surplus_is_explained(tmp_path: Path) -> None:
    """All of its rows were, so that equal and only read were more than read."""
    row = {"question": "Which is a colour?", "choices": ["red", "seven"], "answer": 0}
    for name, rows in (("raw.jsonl", [row] * 3), ("norm.jsonl", [row])):
        write_rows(tmp_path / name, [{"id": str(number), **each} for number, each in enumerate(rows)])
    found = compare(tmp_path, tmp_path, Set("a set", "raw.jsonl", "norm"))
    assert (found["read"], found["equal"], found["unexplained"]) == (3, 1, 2)


def test_time_per_request_falls_with_the_clients_in_whatever_order_they_were_asked_for() -> None:
    rows = [{"clients": 50, "s_per_request": 0.1}, {"clients": 1, "s_per_request": 0.3}]
    assert falls(rows)
    assert falls([*rows, {"clients": 200, "s_per_request": 0.101}])
    assert not falls([*rows, {"clients": 200, "s_per_request": 0.11}])


def test_the_idle_time_of_every_worker_is_told_in_their_order_also_of_one_that_got_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verdict = Verdict(question_id="q", outcome=Outcome.CORRECT, worker="m-10@bench", latency_ms=1000, settled_at=2.0)
    monkeypatch.setattr(makespan, "worker", lambda *_, **__: nullcontext())
    monkeypatch.setattr(makespan, "settle", lambda *_, **__: SimpleNamespace(said={"run_id": "r"}))
    monkeypatch.setattr(makespan, "verdicts", lambda *_: [verdict])
    at: Any = SimpleNamespace(settings=Settings(engine="simulated"), folder=tmp_path)
    found = makespan.measure(at, [100.0] * 11, 0.1, "m")
    assert found["idle_at_the_end_s"].split() == ["1.00"] * 10 + ["0.00"]


def test_of_a_warmed_prefix_all_tokens_count_also_those_of_the_question_that_warmed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def scored(batch: list[int], _: object) -> list[Verdict]:
        asked.append(batch)
        return [
            Verdict(question_id=f"{each}", outcome=Outcome.CORRECT, prefill_tokens=10, cached_tokens=8 if each else 0)
            for each in batch
        ]

    monkeypatch.setattr(prefix_cache, "score_batch", scored)
    questions: Any = [0, 1, 2, 3]
    _, cached = prefix_cache.score(None, questions, alone=1)  # type: ignore[arg-type]
    assert (asked, cached) == ([[0], [1, 2, 3]], 24 / 40)


def test_no_more_questions_about_texts_are_asked_than_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("prefix_cache", "--contexts", "41", "--each", "4", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "error: --contexts, --each: the demo has 160 questions\n"


def test_a_question_that_is_asked_again_has_other_words_in_front_so_that_no_cache_has_it() -> None:
    file = make_questions(2)
    found = repeated(file, 5)
    assert [each.id for each in found] == ["0", "1", "2", "3", "4"]
    assert len({each.question for each in found}) == 5
    assert found[1].question == file[1].question
    assert found[4].question.endswith(file[0].question)


WAITING = """
import sys, time
from pathlib import Path
from benchmarks.command import run
from benchmarks.peer.lm_eval import run_peer
from benchmarks.stand import measured, started

def main():
    pid, log = Path({folder!r}) / "pid", Path({folder!r}) / "log"
    command = ["sh", "-c", "echo $$ > " + str(pid) + "; exec sleep 600"]
    try:
        if {by!r} == "started":
            with started(command, {{}}, log, pid.exists):
                time.sleep(600)
        elif {by!r} == "measured":
            measured(command, {{}})
        else:
            run_peer(command, {{}}, log)
    finally:
        print("ended", flush=True)

run(main)
"""


@pytest.mark.parametrize("by", ["started", "measured", "run_peer"])
@pytest.mark.parametrize(("number", "code", "words"), [(signal.SIGTERM, 143, "ended"), (signal.SIGKILL, -9, "")])
def test_what_a_benchmark_has_started_ends_with_it_however_it_ends(
    tmp_path: Path, number: signal.Signals, code: int, words: str, by: str
) -> None:
    script, pid = WAITING.format(folder=str(tmp_path), by=by), tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        assert program.stdout is not None
        wait_until(lambda: pid.exists() and bool(pid.read_text()), "it to start something")
        child = psutil.Process(int(pid.read_text()))
        program.send_signal(number)
        assert program.stdout.read().strip() == words
    assert program.returncode == code
    child.wait(PATIENCE_S)


def test_processes_that_are_busy_beside_a_benchmark_end_with_it_however_it_ends() -> None:
    script = "import psutil, time; from benchmarks.settings import busy\n"
    script += "with busy(1): print(psutil.Process().children()[0].pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        assert program.stdout is not None
        child = psutil.Process(int(program.stdout.readline()))
        program.kill()
    child.wait(PATIENCE_S)


def test_a_command_is_told_what_it_used_itself_and_how_it_ended() -> None:
    """Its peak was at least that of the benchmark: the kernel begins with the memory of who starts a process."""
    ours = b"x" * (256 << 20)
    found, code = measured(["sh", "-c", "echo said; kill -9 $$"], os.environ)
    assert (found.stdout, code) == ("said\n", -signal.SIGKILL)
    assert found.peak_rss_bytes < len(ours) / 4


def test_a_fault_of_the_simulated_engine_is_not_recorded_as_one_of_vllm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("chaos", "--engine", "vllm", "--only", "engine out of memory", monkeypatch=monkeypatch) == 1
    assert capsys.readouterr().err == "error: These faults need the simulated engine: engine out of memory.\n"


def test_more_batches_in_flight_than_there_may_be_are_refused_and_not_silently_fewer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("batch_size", "--in-flight", "100", monkeypatch=monkeypatch) == 1
    assert "batches_in_flight 100 is more than max_batches_in_flight, 64" in capsys.readouterr().err


def test_overlapped_workers_overlap_also_where_the_deploy_file_says_one_batch_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They did not boot."""
    started: list[dict[str, Any]] = []

    def started_with(_: object, **settings: Any) -> AbstractContextManager[None]:
        started.append(settings)
        return nullcontext()

    monkeypatch.setattr(load, "worker", started_with)
    monkeypatch.setattr(load, "warm_up", lambda *_: None)
    monkeypatch.setattr(load, "latencies", lambda _at, _asking, times, _mark: [0.1] * len(times))
    at: Any = SimpleNamespace(settings=Settings(engine="simulated", batches_in_flight=1, max_batches_in_flight=1))
    asked = Namespace(rate=8.0, seconds=1.0, timeouts=[0.3])
    assert len(list(load.measure(at, Asking(Source(Path("q"), "q"), (), 1), asked))) == 4
    assert [each["max_batches_in_flight"] for each in started] == [1, 2]
    assert all(Settings(engine="simulated", **each).batch_timeout == 0.3 for each in started)


def test_questions_that_are_scored_too_fast_to_be_timed_are_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine all may be scored before the first look: that was a division by zero."""
    monkeypatch.setattr(overhead, "wait_until_settled", lambda *_: None)
    monkeypatch.setattr(overhead, "settled", lambda *_: 10_000)
    scoring: Any = SimpleNamespace(process=psutil.Process())
    with pytest.raises(EngineError, match=r"before it could be timed.*--questions"):
        overhead.score(None, "r", 10_000, scoring)  # type: ignore[arg-type]
