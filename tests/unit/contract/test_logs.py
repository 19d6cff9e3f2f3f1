"""Log lines, as a person reads them."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator

import pytest

from contract.logs import PersonFormatter, set_up


def record(level: int = logging.INFO, **more: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "workers.tasks", "levelno": level, "levelname": logging.getLevelName(level)})
    made.msg, made.args = "batch %d: %d questions", (42, 16)
    made.__dict__.update(more)
    return made


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    """`set_up` belongs to a process; here it must not outlive its test."""
    root = logging.getLogger()
    before = {each: each.level for each in (root, *map(logging.getLogger, ("celery", "kombu", "httpx")))}
    handlers = list(root.handlers)
    yield
    root.handlers[:] = handlers
    for logger, level in before.items():
        logger.setLevel(level)


@pytest.mark.parametrize(
    ("who", "level", "expected"),
    [
        ("gpu0", logging.INFO, "gpu0 batch 42: 16 questions"),
        ("", logging.INFO, "batch 42: 16 questions"),
        ("gpu0", logging.WARNING, "gpu0 WARNING: batch 42: 16 questions"),
        ("100%s", logging.ERROR, "100%s ERROR: batch 42: 16 questions"),
    ],
)
def test_a_person_reads_time_worker_and_message_and_the_level_only_from_a_warning_on(
    who: str, level: int, expected: str
) -> None:
    line = PersonFormatter(who).format(record(level))
    assert re.fullmatch(r"\d\d:\d\d:\d\d " + re.escape(expected), line)


def test_an_exception_brings_its_traceback() -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        trouble = record(exc_info=sys.exc_info())
    assert PersonFormatter().format(trouble).endswith("ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.usefixtures("_logging_as_before")
def test_records_go_to_stderr_and_never_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("gpu0")
    logging.getLogger("workers").info("ready")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(" gpu0 ready\n")


@pytest.mark.usefixtures("_logging_as_before")
def test_setting_up_again_replaces_and_does_not_double(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("first")
    set_up("second")
    logging.getLogger("workers").info("once")
    assert capsys.readouterr().err.endswith(" second once\n")
    assert len(logging.getLogger().handlers) == 1


@pytest.mark.usefixtures("_logging_as_before")
def test_libraries_speak_up_only_to_warn(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(level=logging.DEBUG)
    for name in ("celery.worker", "kombu", "httpx", "workers"):
        logging.getLogger(name).info("told by %s", name)
        logging.getLogger(name).warning("warned by %s", name)
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert [each for each in lines if "told" in each] == ["told by workers"]
    assert len([each for each in lines if "warned" in each]) == 4
