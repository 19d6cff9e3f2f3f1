"""`--config` and `--set` of the workers' commands."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.stand import set_words
from workers.commands.options import settings_options


@click.command
@settings_options
def command(config: Path | None, overrides: tuple[str, ...]) -> None:
    """Do nothing."""


def told(*given: str) -> str:
    result = CliRunner().invoke(command, set_words(given))
    assert result.exit_code == 0, result.output
    return result.stderr


def test_a_set_that_a_variable_overrides_is_told_since_elsewhere_it_would_outweigh_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCQUEUE_BATCH_SIZE", "7")
    monkeypatch.setenv("MCQUEUE_VLLM_ARGS__SEED", "1")
    assert told("batch_size=9", "vllm_args.seed=1", "batch_timeout=1") == (
        "note: MCQUEUE_BATCH_SIZE in the environment overrides --set batch_size\n"
    )
    assert told("vllm_args.seed=2").startswith("note: MCQUEUE_VLLM_ARGS__SEED in the environment overrides ")
    assert told("batch_size=7") == told() == ""
