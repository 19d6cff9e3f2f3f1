"""What is written for a terminal that may not take it."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TextIO

import pytest

from tests.support import wait_until
from workers.host import outlet
from workers.host.outlet import Outlet

MORE_THAN_A_PIPE_HOLDS = "x" * 2**20


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A pipe that nobody reads: the end to read at, and the stream to write to."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0), os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield reader, stream


def test_all_that_was_written_is_there_at_the_end_in_its_order(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w", encoding="ascii") as stream, closing(Outlet(stream)) as out:
        for number in range(100):
            out.write(f"line {number} – é\n")
    said = (tmp_path / "said").read_text()
    assert said == "".join(f"line {number} \\u2013 \\xe9\n" for number in range(100)), "as the encoding lacks both"


def test_writing_and_closing_wait_for_nobody_who_does_not_read(
    pipe: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "LAST_WORDS_S", 0.01)
    with closing(Outlet(pipe[1])) as out:
        out.write(MORE_THAN_A_PIPE_HOLDS)
        for _ in range(outlet.MOST_WAITING + 5):
            out.write("a line")
        assert out.behind
    assert any(each.name == "outlet" for each in threading.enumerate()), "it still waits"


def test_a_terminal_that_another_program_made_non_blocking_gets_all_the_same(pipe: tuple[int, TextIO]) -> None:
    """Whatever it did not take at once was lost: the ends of lines, and of tables."""
    reader, stream = pipe
    os.set_blocking(stream.fileno(), False)
    said, outlet_of_it = b"", Outlet(stream)
    with closing(outlet_of_it):
        outlet_of_it.write(MORE_THAN_A_PIPE_HOLDS + "\n")
        wait_until(lambda: not outlet_of_it.behind, "the thread to write")
        while len(said) < len(MORE_THAN_A_PIPE_HOLDS):
            wait_until(lambda: bool(select.select([reader], [], [], 0)[0]), "the rest")
            said += os.read(reader, 2**16)
    assert said.strip() == MORE_THAN_A_PIPE_HOLDS.encode()


def test_it_is_behind_until_the_reader_has_taken_what_came_before(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    with closing(Outlet(stream)) as out:
        out.write(MORE_THAN_A_PIPE_HOLDS)
        wait_until(lambda: not out.behind, "the thread to write")
        out.write("a line")
        assert out.behind
        while not os.read(reader, 2**16).endswith(b"a line"):
            pass
        assert not out.behind


def test_once_the_stream_leads_elsewhere_nothing_goes_there_that_was_meant_for_the_terminal(
    pipe: tuple[int, TextIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet, "LAST_WORDS_S", 0.01)
    file = tmp_path / "up.log"
    with closing(Outlet(pipe[1])) as out:
        out.write(MORE_THAN_A_PIPE_HOLDS)
        out.write("half a table")
        with file.open("w") as instead:
            os.dup2(instead.fileno(), pipe[1].fileno())
        out.write("the terminal was closed\n")
        out.flush()
        os.read(pipe[0], 2**21)
    assert file.read_text() == "the terminal was closed\n"
