"""The frame of both command lines."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner

from contract.commands import INTERRUPTED, Commands, note, tell
from contract.errors import InputError
from tests.support import ROOT


@click.group(cls=Commands)
@click.option("--deploy")
def main(deploy: str | None) -> None:
    pass


@main.command()
def refuse() -> None:
    raise InputError("There is no run \x1b[2J.", hint="Name another.")


@main.command()
def interrupt() -> None:
    raise KeyboardInterrupt


@main.command()
def fill() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@main.command()
@click.argument("number", type=int)
def fail(number: int) -> None:
    raise OSError(number, os.strerror(number), "questions.csv")


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def look(path: Path) -> None:
    tell(str(path.exists()))


@main.command()
def run_beside() -> None:
    threading.Thread(target=print).start()


@main.command()
def err() -> None:
    raise RuntimeError("a bug")


@main.command()
def say() -> None:
    tell("\x1b[2J")
    note("\x07")


@main.command()
@click.argument("name")
def greet(name: str) -> None:
    tell(name)
    note(f"{name}…")


@pytest.mark.parametrize(
    ("command", "exit_code", "out", "err"),
    [
        ("refuse", 1, "", r"error: There is no run \x1b[2J. Name another." + "\n"),
        ("fill", 1, "", "error: No space left on device. Free some space and repeat the command.\n"),
        ("interrupt", INTERRUPTED, "", ""),
        ("say", 0, r"\x1b[2J" + "\n", r"\x07" + "\n"),
    ],
)
def test_errors_are_one_line_and_nothing_that_is_said_steers_a_terminal(
    command: str, exit_code: int, out: str, err: str
) -> None:
    done = CliRunner().invoke(main, [command])
    assert (done.exit_code, done.stdout, done.stderr) == (exit_code, out, err)


@pytest.mark.parametrize("words", ["--help", "--version", "runs --help"])
def test_help_that_a_full_disk_does_not_take_is_an_error_of_one_line(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "producer", *words.split()]
        done = subprocess.run(command, check=False, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device. Free some space and repeat the command.\n"


@pytest.mark.parametrize(("no_color", "shown"), [("", "\x1b[31merror: \x1b[0m"), ("1", "error: ")])
def test_an_error_is_red_unless_colours_are_unwanted(no_color: str, shown: str) -> None:
    done = CliRunner().invoke(main, ["refuse"], color=True, env={"NO_COLOR": no_color})
    assert done.stderr.startswith(f"{shown}There is no run")


def test_a_path_that_cannot_be_looked_at_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    done = CliRunner().invoke(main, ["look", str(path)])
    said = f"error: {path}: File name too long. Check the path and its permissions.\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_broken_disk_and_a_share_that_is_gone_are_an_error_of_one_line(number: int) -> None:
    done = CliRunner().invoke(main, ["fail", str(number)])
    said = f"error: questions.csv: {os.strerror(number)}. Check the disk, or the server, that has it.\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


def test_what_is_said_is_utf_8_in_a_locale_that_lacks_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="latin-1"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding="latin-1", errors="backslashreplace"))
    assert main(["greet", "Жук"], standalone_mode=False) is None
    assert (out.getvalue(), err.getvalue()) == ("Жук\n".encode(), "Жук…\n".encode())


@pytest.mark.parametrize(("number", "limit"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "sysctl fs.file-max")])
def test_a_limit_of_open_files_that_is_reached_is_an_error_of_one_line(number: int, limit: str) -> None:
    done = CliRunner().invoke(main, ["fail", str(number)])
    said = f"error: questions.csv: {os.strerror(number)}. Raise that limit ({limit}), or end other programs.\n"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", said)


def test_a_container_that_lets_a_command_have_no_other_thread_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with `docker run --pids-limit`, or where other programs of the user have used up its `ulimit -u`."""

    def refuse(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = CliRunner().invoke(main, ["run-beside"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: can't start new thread. Raise the limit of the user (ulimit -u)")


def test_a_bug_is_told_with_its_traceback() -> None:
    assert isinstance(CliRunner().invoke(main, ["err"]).exception, RuntimeError)


def test_a_name_that_is_not_utf_8_is_refused_in_one_line_before_anything_is_done() -> None:
    done = CliRunner().invoke(main, ["greet", os.fsdecode(b"Pr\xfcfung.csv")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: 'Pr\\udcfcfung.csv' is not UTF-8. Rename what it names.\n")


def test_a_name_in_utf_8_that_python_was_told_to_read_as_ascii_is_not_to_be_renamed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "producer", "inspect", "Prüfung.csv"],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("Error: 'Prüfung.csv' was read as ascii. Unset PYTHONUTF8, or set it to 1.\n")


def test_an_option_that_stands_after_the_command_is_told_its_place() -> None:
    done = CliRunner().invoke(main, ["say", "--deploy", "x"])
    assert done.exit_code == 2
    assert "--deploy must come before the command: main --deploy … say …" in done.stderr


@click.command()
def farewell() -> None:
    """Say goodbye."""
    tell("goodbye")


@pytest.fixture
def later() -> Commands:
    """A group with a command that is imported when it is used."""
    return Commands("later", later={"farewell": f"{__name__}:farewell"})


def test_a_command_that_is_imported_late_runs_and_is_listed_like_any_other(later: Commands) -> None:
    assert "farewell  Say goodbye." in CliRunner().invoke(later, ["--help"]).stdout
    assert CliRunner().invoke(later, ["farewell"]).stdout == "goodbye\n"


def test_a_misspelt_command_is_told_the_name_of_one_that_is_not_imported_yet(later: Commands) -> None:
    assert "Did you mean 'farewell'?" in CliRunner().invoke(later, ["farewel"]).stderr
