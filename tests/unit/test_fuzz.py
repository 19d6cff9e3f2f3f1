"""Rubbish in configuration files, options and the environment: a short run of benchmarks/fuzz.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from benchmarks.fuzz import BOMB, CORNERS, fuzz
from contract.errors import RunConfigError, SettingsError
from contract.settings import load_settings
from producer.runs.runconfig import load_run_config


@pytest.mark.parametrize("corner", CORNERS)
def test_rubbish_is_accepted_or_refused_and_nothing_else(corner: str) -> None:
    result = fuzz(corner, inputs=120, seed=20)
    assert result.broken == []
    assert result.accepted + result.refused == 120
    assert result.refused > 20


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("batch_size: " + "[" * 5000, "nested too deeply"),
        ("batch_size: 2026-13-45", "month must be in 1..12"),
        ("batch_size: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        (BOMB + "batch_size: *i", "its aliases (*name) stand for more than 2,000,000 characters"),
        ("vllm_args: {x: " + "x" * 100_000 + "}", "vllm_args: more than 100,000 bytes"),
        ('vllm_args: {x: "\\ud800"}', "vllm_args: "),
        ("x" * 2_000_000, "larger than 1,000,000 bytes"),
        ("a" * 1_000 + ": 1", "unknown setting 'aaaa"),
    ],
)
def test_a_file_that_means_harm_is_refused_in_few_words(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 3000


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(SettingsError, match="larger than"):
        load_settings(Path("/dev/zero"))


@pytest.mark.parametrize("name", ["a" * 5000, "nul\0"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        load_settings(Path(name))
    assert len(str(caught.value)) < 400
    with pytest.raises(RunConfigError, match="not a valid file name"):
        load_run_config(None, [f'few_shot.file="{name}.jsonl"'.replace("\0", "\\0")])


@pytest.mark.parametrize("text", ["[" * 100_000, "not json", "[1]", "7"])
def test_overrides_that_no_launcher_wrote_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MCQUEUE_OVERRIDES", text)
    with pytest.raises(SettingsError, match="MCQUEUE_OVERRIDES: expected a JSON object"):
        load_settings()


def test_the_bomb_is_one() -> None:
    assert len(BOMB) < 500
    found = yaml.safe_load(BOMB)["i"]
    levels = 0
    while isinstance(found, list):
        found, levels = found[0], levels + 1
    assert 9**levels > 10**8
