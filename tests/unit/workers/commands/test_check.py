"""`workers check`: how it tells what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from workers.cli import main
from workers.host.finding import Finding


def test_a_finding_is_told_before_the_next_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To import vLLM takes half a minute on a busy machine, and nothing was said until then."""
    told: list[str] = []

    def slowly(*_: Any) -> Iterator[Finding]:
        yield Finding("ok", "GPUs", "none")
        told.append(capsys.readouterr().out)
        yield Finding("error", "engine", "missing", "Install it.")

    monkeypatch.setattr("workers.commands.check.check_deployment", slowly)
    with pytest.raises(SystemExit) as ended:
        main(["check"])
    assert ended.value.code == 1
    assert told == ["ok      GPUs      none\n"]
    assert capsys.readouterr().out.startswith("error   engine    missing\n")
    listed = CliRunner().invoke(main, ["check", "--json"]).stdout
    assert listed.startswith('[\n  {\n    "level": "ok"')
