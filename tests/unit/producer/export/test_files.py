"""The files of an export take their places together or not at all, and errors say what to do."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from contract.errors import InputError, RedisUnreachable
from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import Verdict
from producer.export.files import Drafts, explaining, refuse_unwritable
from producer.export.formats import FORMATS
from producer.export.results import export
from tests.support import settle
from tests.unit.producer.conftest import room_per_file
from tests.unit.producer.settled import QUESTIONS


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_fails_leaves_the_old_files(filled: MemoryLedger, tmp_path: Path, name: str) -> None:
    export(filled, "run-1", tmp_path, (name,))
    before = contents(tmp_path)

    def broken(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        yield QUESTIONS[0], None
        raise RedisUnreachable("gone")

    filled.results = broken  # type: ignore[method-assign]
    with pytest.raises(RedisUnreachable):
        export(filled, "run-1", tmp_path, (name,))

    assert contents(tmp_path) == before


@pytest.mark.parametrize("formats", [(name,) for name in FORMATS] + [tuple(FORMATS)], ids="+".join)
def test_a_disk_that_fills_up_is_one_clear_error_and_leaves_the_old_files(
    filled: MemoryLedger, tmp_path: Path, formats: tuple[str, ...]
) -> None:
    export(filled, "run-1", tmp_path, formats)
    before = contents(tmp_path)
    filled.open_run(filled.run("run-1").model_copy(update={"run_id": "run-2", "questions": 3000}))
    filled.add_questions("run-2", [QUESTIONS[4].model_copy(update={"id": f"e{n}"}) for n in range(3000)])

    with room_per_file(min(map(len, before.values()))), pytest.raises(InputError) as trouble:
        export(filled, "run-2", tmp_path, formats)

    assert str(trouble.value) == (
        f"{tmp_path}: the results cannot be written: File too large; existing files there are unchanged. "
        "Free some space or choose another folder with --out."
    )
    assert contents(tmp_path) == before


def test_a_file_where_the_runs_folder_should_be_is_named_as_what_is_in_the_way(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    (tmp_path / "run-1").write_text("mine")
    with pytest.raises(InputError, match=r"File exists; .* Move .*/run-1 out of the way or choose another folder"):
        export(filled, "run-1", tmp_path / "run-1")


def test_of_a_path_below_a_file_that_file_is_what_is_in_the_way(filled: MemoryLedger, tmp_path: Path) -> None:
    """The whole path was, which does not exist."""
    (tmp_path / "file").write_text("mine")
    for below in ("file/run-1", "file/deeper/run-1"):
        with pytest.raises(InputError, match=rf"Not a directory; .* Move {tmp_path / 'file'} out of the way or choose"):
            export(filled, "run-1", tmp_path / below)


def test_a_folder_where_a_file_should_be_is_named_before_any_file_is_replaced(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    formats = ("jsonl", "csv")
    export(filled, "run-1", tmp_path, formats)
    (tmp_path / "results.csv").unlink()
    (tmp_path / "results.csv").mkdir()
    before = contents(tmp_path)

    with pytest.raises(InputError, match=r"Is a directory; .* Move .*/results\.csv out of the way or choose another"):
        export(filled, "run-1", tmp_path, formats)
    assert contents(tmp_path) == before


def test_a_folder_that_comes_where_a_file_should_be_while_it_is_written_leaves_the_other_files_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("old")

    def written() -> None:
        with Drafts() as drafts:
            for name in "ab":
                drafts.text(tmp_path / name).write("new")
            (tmp_path / "b").mkdir()

    with pytest.raises(IsADirectoryError):
        written()
    assert {path.name: path.is_dir() or path.read_text() for path in tmp_path.iterdir()} == {"a": "old", "b": True}


@contextmanager
def without_roots_rights() -> Iterator[int]:
    """Nobody may do everything in the block; yields the user that is left."""
    user = os.geteuid()
    if user != 0:
        yield user
        return
    os.seteuid(65534)
    try:
        yield 65534
    finally:
        os.seteuid(0)


def test_a_folder_of_another_user_is_one_clear_error_that_names_who_may_not_write(tmp_path: Path) -> None:
    # In a container the user is 1000, and ./results of the host may be somebody else's.
    tmp_path.chmod(0o555)
    with without_roots_rights() as user, pytest.raises(InputError) as trouble, explaining(tmp_path):
        (tmp_path / "results.csv").write_text("")
    assert str(trouble.value) == (
        f"{tmp_path}: the results cannot be written: Permission denied; existing files there are unchanged. "
        f"Give user {user} write permission there (containers: HOST_UID, in compose.yaml) "
        "or choose another folder with --out."
    )


def test_a_folder_that_cannot_be_written_into_is_told_before_there_is_anything_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name in ("file", "gone"):
        told = rf"{name}/run-1: the results cannot be written: Not a dir.* Move {tmp_path / name} out of the way"
        with pytest.raises(InputError, match=told):
            refuse_unwritable(tmp_path / name / "run-1")
    with room_per_file(0), pytest.raises(InputError, match="Free some space or choose another folder"):
        refuse_unwritable(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o555)
    for path in (mine, mine / "run-1"):
        with (
            without_roots_rights(),
            pytest.raises(InputError, match=r"Permission denied.*Give user \d+ write permission there"),
        ):
            refuse_unwritable(path)


def test_trying_whether_a_folder_can_be_written_into_leaves_nothing_behind(tmp_path: Path) -> None:
    refuse_unwritable(tmp_path)
    refuse_unwritable(tmp_path / "results" / "run-1")
    assert list(tmp_path.iterdir()) == []


def test_files_take_their_places_together_or_not_at_all(
    filled: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def full_at_the_second(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_at_the_second)
    with pytest.raises(InputError, match=r"No space left on device; existing files there are unchanged.*--out"):
        export(filled, "run-1", tmp_path)

    assert list(tmp_path.iterdir()) == [], "the first file was complete, and alone"


def settle_the_rest(ledger: MemoryLedger) -> None:
    """What an export made before this and one made after it differ in, each file of them."""
    left = [question.id for question, verdict in ledger.results("run-1") if verdict is None]
    assert left
    settle(ledger, "run-1", *left, choice="A")


def ages(directory: Path) -> dict[str, str]:
    """Of which export each file is."""
    is_old: dict[str, Callable[[str], bool]] = {
        "results.csv": lambda text: ",unsettled," in text,
        "results.jsonl": lambda text: '"verdict":null' in text,
        "summary.json": lambda text: json.loads(text)["unsettled"] > 0,
    }
    there = {name: directory / name for name in is_old if (directory / name).exists()}
    return {name: "old" if is_old[name](path.read_text()) else "new" for name, path in there.items()}


def hidden(directory: Path) -> list[str]:
    """Drafts that were left."""
    return sorted(path.name for path in directory.rglob(".*"))


#: What an export of the two formats renames: the old summary away, both results, the new summary.
RENAMES = 4
BOTH = ("csv", "jsonl")


@pytest.mark.parametrize("at", range(RENAMES + 1))
def test_killed_between_two_renames_it_leaves_no_summary_beside_files_of_two_exports(
    filled: MemoryLedger, tmp_path: Path, at: int
) -> None:
    export(filled, "run-1", tmp_path, BOTH)
    settle_the_rest(filled)

    def killed() -> None:
        done: list[str] = []

        def watching(event: str, _: object) -> None:
            if event == "os.rename":
                if len(done) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                done.append(event)

        sys.addaudithook(watching)
        export(filled, "run-1", tmp_path, BOTH)

    process = multiprocessing.get_context("fork").Process(target=killed)
    process.start()
    process.join()

    assert process.exitcode == (-signal.SIGKILL if at < RENAMES else 0)
    found = ages(tmp_path)
    expected = {
        0: {"results.csv": "old", "results.jsonl": "old", "summary.json": "old"},
        1: {"results.csv": "old", "results.jsonl": "old"},
        2: {"results.csv": "new", "results.jsonl": "old"},
        3: {"results.csv": "new", "results.jsonl": "new"},
        4: {"results.csv": "new", "results.jsonl": "new", "summary.json": "new"},
    }
    assert found == expected[at]
    assert bool(hidden(tmp_path)) == (at < RENAMES), "a killed process clears up nothing"

    export(filled, "run-1", tmp_path, BOTH)

    assert ages(tmp_path) == expected[RENAMES], "the same command again mends it"
    assert hidden(tmp_path) == [], "and sweeps what the killed one left"


#: Seen from the test's own folder: whoever has no rights of root's may not look into those above it.
RUN = Path("run")


@contextmanager
def losing_the_right_to(ledger: MemoryLedger, pattern: str) -> Iterator[None]:
    """Nobody may write into that folder of the run from the moment on that results are read, drafts being open."""
    results, lost = ledger.results, list[Path]()

    def losing(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        for each in RUN.glob(pattern) if pattern else [RUN]:
            each.chmod(0o555)
            lost.append(each)
        yield from results(run_id, start, stop)

    ledger.results = losing  # type: ignore[method-assign]
    try:
        yield
    finally:
        ledger.results = results  # type: ignore[method-assign]
        assert lost
        for each in lost:
            each.chmod(0o777)


def test_a_rename_that_fails_after_another_is_told_and_the_same_command_again_mends_it(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    with without_roots_rights():
        export(filled, "run-1", RUN, ("csv", "lm-eval"))
        settle_the_rest(filled)
        with losing_the_right_to(filled, "lm-eval/*"), pytest.raises(InputError) as trouble:
            export(filled, "run-1", RUN, ("csv", "lm-eval"))

        assert str(trouble.value) == (
            "run: not all older results could be replaced (replaced: results.csv): Permission "
            "denied. There is no summary.json until all files belong to the same export. "
            "Fix that and repeat the command, or choose another folder with --out."
        )
        assert ages(RUN) == {"results.csv": "new"}

        export(filled, "run-1", RUN, ("csv", "lm-eval"))

        assert ages(RUN) == {"results.csv": "new", "summary.json": "new"}
        assert hidden(RUN) == []


def test_where_already_the_first_rename_fails_all_older_files_stand_as_they_were(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    with without_roots_rights():
        export(filled, "run-1", RUN, ("lm-eval", "csv"))
        before = contents(RUN)
        settle_the_rest(filled)
        with losing_the_right_to(filled, "lm-eval/*"), pytest.raises(InputError) as trouble:
            export(filled, "run-1", RUN, ("lm-eval", "csv"))

        assert "Permission denied; existing files there are unchanged." in str(trouble.value)
        assert {path: content for path, content in contents(RUN).items() if path.name[0] != "."} == before


def test_where_the_folder_itself_is_lost_nothing_is_replaced_and_what_is_left_is_swept_later(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    with without_roots_rights():
        export(filled, "run-1", RUN)
        before = contents(RUN)
        settle_the_rest(filled)
        with losing_the_right_to(filled, ""), pytest.raises(InputError, match="existing files there are un"):
            export(filled, "run-1", RUN)
        assert {path: content for path, content in contents(RUN).items() if path.name[0] != "."} == before
        assert len(hidden(RUN)) == 2, "nobody may remove them there"

        export(filled, "run-1", RUN)

        assert ages(RUN) == {"results.csv": "new", "summary.json": "new"}
        assert hidden(RUN) == []


def test_two_exports_at_a_time_have_drafts_of_their_own_whatever_their_processes_are_called(tmp_path: Path) -> None:
    """In containers, each process has the id 1: two wrote into one draft, and results.csv was full of NUL."""
    path = tmp_path / "results.csv"
    with Drafts() as slow, Drafts() as fast:
        begun = slow.text(path)
        begun.write("slow" * 10_000)
        begun.flush()
        fast.text(path).write("fast")
    assert path.read_text() == "slow" * 10_000
    assert hidden(tmp_path) == []


def test_drafts_of_an_export_that_still_goes_on_are_left_alone_and_so_are_strangers_files(
    filled: MemoryLedger, tmp_path: Path
) -> None:
    (tmp_path / ".results.csv.swp").write_text("an editor's")
    here, there = multiprocessing.Pipe()

    def slow() -> None:
        with Drafts() as drafts:
            drafts.text(tmp_path / "results.csv").write("slow")
            there.send("open")
            there.recv()

    process = multiprocessing.get_context("fork").Process(target=slow)
    process.start()
    try:
        assert here.recv() == "open"
        export(filled, "run-1", tmp_path)
        draft, strangers = hidden(tmp_path)
        assert re.fullmatch(r"\.results\.csv\.[0-9a-f]{8}", draft)
        assert strangers == ".results.csv.swp"
    finally:
        here.send("go on")
        process.join()
    assert process.exitcode == 0
    assert (tmp_path / "results.csv").read_text() == "slow"


def test_an_export_that_starts_while_another_replaces_files_leaves_it_the_summary_that_it_may_restore(
    filled: MemoryLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(filled, "run-1", tmp_path)
    before, replace = contents(tmp_path), Path.replace

    def starting() -> None:
        with suppress(RedisUnreachable), Drafts(tmp_path / "summary.json") as drafts:
            drafts.text(tmp_path / "summary.json")
            raise RedisUnreachable("gone")

    def failing(path: Path, target: Path) -> Path:
        if target.name != "results.csv":
            return replace(path, target)
        process = multiprocessing.get_context("fork").Process(target=starting)
        process.start()
        process.join()
        assert process.exitcode == 0
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(InputError, match="Input/output error; existing files there are unchanged"):
        export(filled, "run-1", tmp_path)

    assert contents(tmp_path) == before


def test_room_is_only_asked_for_where_there_is_none(tmp_path: Path) -> None:
    for number, remedy in (
        (errno.EDQUOT, "Free some space or"),
        (errno.EBUSY, "Fix that or"),
        (errno.EROFS, "Fix that or"),
    ):
        with pytest.raises(InputError, match=remedy), explaining(tmp_path):
            raise OSError(number, os.strerror(number))
