"""Whether a named process has ended, as far as can be seen from here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from contract.process import died_here, process_place, process_start, this_process


def ended_pid() -> int:
    """The id of a process that was, and is no more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_this_process_lives() -> None:
    assert not died_here(this_process())


def test_a_process_that_has_ended_died() -> None:
    assert died_here(f"{process_place()}/{ended_pid()}/1")


def test_another_process_under_the_same_id_is_not_the_one_that_is_meant() -> None:
    assert died_here(f"{process_place()}/{os.getpid()}/{(process_start(os.getpid()) or 0) + 1}")


def test_the_id_may_have_come_to_a_process_whose_name_was_cut_off_within_a_letter() -> None:
    rename = "open('/proc/self/comm', 'wb').write('процессы'.encode()[:15]); print(flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        assert died_here(f"{process_place()}/{other.pid}/1")
        other.kill()


@pytest.mark.parametrize("name", ["elsewhere/boot/pid:[1]/1/1", "", "nonsense"])
def test_of_a_process_elsewhere_nothing_is_known(name: str) -> None:
    assert not died_here(name)


def test_of_another_users_process_that_proc_hides_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(pid, signal)

    monkeypatch.setattr(os, "kill", refuse)
    assert not died_here(f"{process_place()}/{ended_pid()}/1")
