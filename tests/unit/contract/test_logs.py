"""Log lines for people and for machines."""

from __future__ import annotations

import json
import logging
import re
import sys
from types import SimpleNamespace

import pytest
from openai import DefaultHttpxClient

from contract.errors import SettingsError
from contract.logs import JsonFormatter, PersonFormatter, formatted, set_up


def test_what_others_wrote_does_not_act_on_the_terminal_that_shows_the_log() -> None:
    hostile = record(msg="run %s is unknown", args=("\x1b]0;mine\x07\x1b[2J",))
    assert PersonFormatter("gpu0").format(hostile).endswith(r"run \x1b]0;mine\x07\x1b[2J is unknown")


def record(level: int = logging.INFO, **more: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "workers.stages.base", "levelno": level, "levelname": logging.getLevelName(level)}
    )
    made.msg, made.args = "batch %d: %d questions", (42, 16)
    made.__dict__.update(more)
    return made


def package_of(of_a_library: type) -> str:
    """The package that its base class comes from, which may change with the library."""
    return of_a_library.__bases__[0].__module__.partition(".")[0]


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
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d " + re.escape(expected), line)


def test_on_a_terminal_a_line_begins_with_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert re.fullmatch(r"\d\d:\d\d:\d\d batch 42: 16 questions", PersonFormatter().format(record(logging.INFO)))


def test_a_process_whose_stderr_is_closed_goes_on_without_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    set_up("gpu0")
    logging.getLogger("workers").warning("nobody reads this")


def test_a_line_that_goes_past_the_log_looks_like_those_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up("up")
    assert formatted("gpu0: booting").endswith(" up gpu0: booting")
    monkeypatch.setenv("MCQUEUE_LOG_FORMAT", "json")
    set_up("up")
    line = json.loads(formatted("gpu0: booting"))
    assert (line["level"], line["worker"], line["message"]) == ("info", "up", "gpu0: booting")


def test_a_machine_reads_one_json_object_with_everything_given_as_extra() -> None:
    line = JsonFormatter("gpu0").format(record(logging.WARNING, created=12.5, run_id="r", questions=16, odd={1}))
    assert json.loads(line) == {
        "time": 12.5,
        "level": "warning",
        "logger": "workers.stages.base",
        "worker": "gpu0",
        "message": "batch 42: 16 questions",
        "run_id": "r",
        "questions": 16,
        "odd": "{1}",
    }


def test_a_line_break_in_a_message_does_not_break_the_json_line() -> None:
    broken = record()
    broken.msg, broken.args = "one\ntwo", ()
    line = JsonFormatter().format(broken)
    assert "\n" not in line
    assert json.loads(line)["message"] == "one\ntwo"


def test_an_exception_brings_its_traceback_in_both_formats() -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError as raised:
        trouble, told = record(exc_info=sys.exc_info()), f"ZeroDivisionError: {raised}"
    assert PersonFormatter().format(trouble).endswith(told)
    assert json.loads(JsonFormatter().format(trouble))["traceback"].endswith(told)


def test_records_go_to_stderr_and_never_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("gpu0")
    logging.getLogger("workers").info("ready")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(" gpu0 ready\n")


def test_the_environment_chooses_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_LOG_FORMAT", "json")
    set_up("gpu0")
    logging.getLogger("workers").info("ready", extra={"action": "ready"})
    found = json.loads(capsys.readouterr().err)
    assert (found["worker"], found["message"], found["action"]) == ("gpu0", "ready", "ready")


@pytest.mark.parametrize("variable", ["MCQUEUE_LOG_FORMAT", "MCQUEUE_LOG_LEVEL"])
def test_what_the_environment_chooses_must_be_known(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "yaml")
    with pytest.raises(SettingsError, match=f"{variable} 'yaml': expected one of"):
        set_up()


def test_setting_up_again_replaces_and_does_not_double(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("first")
    set_up("second")
    logging.getLogger("workers").info("once")
    assert capsys.readouterr().err.endswith(" second once\n")
    assert len(logging.getLogger().handlers) == 1


def test_libraries_speak_up_only_to_warn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_LOG_LEVEL", "Debug")
    set_up()
    for name in ("celery.worker", "kombu", package_of(DefaultHttpxClient), "workers"):
        logging.getLogger(name).info("told by %s", name)
        logging.getLogger(name).warning("warned by %s", name)
    lines = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert [each for each in lines if "told" in each] == ["told by workers"]
    assert len([each for each in lines if "warned" in each]) == 4
