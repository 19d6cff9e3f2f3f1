"""A suite's file: what it says of entries and models, and mistakes in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.errors import RunConfigError
from contract.settings import Settings
from producer.suite.config import load_suite
from producer.suite.plan import planned
from tests.support import ROOT, build_test_index
from tests.unit.producer.conftest import Producer
from tests.unit.producer.suite.conftest import write_suite

SHIPPED = sorted((ROOT / "configs" / "suites").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_suite_can_be_asked(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)  # the paths in them count from there
    index = build_test_index(tmp_path / "demo", ["A fact."])
    suite = load_suite(path)
    moved = [
        each.model_copy(update={"set": {**each.set, "rag.index": str(index)}}) if "rag.index" in each.set else each
        for each in suite.entries
    ]

    with planned(suite.model_copy(update={"entries": moved}), path, Settings()) as runs:
        assert len({each.plan.run_id for each in runs}) == len(runs) >= len(suite.entries)


def test_there_is_a_suite_of_the_demo() -> None:
    assert "demo" in {path.stem for path in SHIPPED}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"entires": []}, "suite.yaml: unknown setting 'entires'. Did you mean 'entries'?"),
        ({"name": "?"}, "suite.yaml: name: a name needs a letter a to z or a digit"),
        ({"entries": [{"name": "a\n", "file": "x"}]}, "name: a name is one line, as it labels a row of the table"),
        ({"entries": []}, "suite.yaml: entries: "),
        ({"entries": None}, "suite.yaml: entries: expected a list, found None."),
        ({"models": ["m", "m"]}, "suite.yaml: configuration: models: 'm' is listed twice"),
        ({"entries": [{"name": "a", "fle": "x"}]}, "entry 'a': unknown setting 'fle'. Did you mean 'file'?"),
        ({"entries": [{"file": "x"}]}, "suite.yaml: entry 1: name: Field required"),
        ({"entries": ["x"]}, "suite.yaml: entry 1: configuration: "),
        ({"entries": [{"name": "a", "file": "-"}]}, "entry 'a': file: standard input cannot be read again"),
        ({"entries": [{"name": "a", "file": "x", "limit": 0}]}, "entry 'a': limit: "),
        ({"entries": [{"name": "a", "file": "x", "map": {"answer": True}}]}, "map.answer: Input should be a valid str"),
        ({"entries": [{"name": "a", "file": "x", "map": {"answer": None}}]}, "map.answer: Input should be a valid str"),
        ({"entries": [{"name": "a", "file": "x", "mode": "letter"}]}, "put it under set, as in set: {mode: …}"),
        (
            {"entries": [{"name": "a b", "file": "x"}, {"name": "A-B", "file": "y"}]},
            "entries have the same name: 'a b', 'A-B'",
        ),
        (
            {"entries": [{"name": "数学 1", "file": "x"}, {"name": "物理 1", "file": "y"}]},
            "'数学 1', '物理 1'; only a to z, of either case, digits, dots and underscores count",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(change: dict[str, Any], wanted: str) -> None:
    content = {"name": "mine", "entries": [{"name": "a", "file": "x"}], **change}
    Path("suite.yaml").write_text(yaml.safe_dump(content))

    with pytest.raises(RunConfigError) as caught:
        load_suite(Path("suite.yaml"))

    assert wanted in str(caught.value)


def test_mistakes_of_several_entries_are_told_together() -> None:
    path = write_suite([{"name": "a", "fle": "x"}, {"name": "b", "file": "x", "smaple": 3}])

    with pytest.raises(RunConfigError, match=r"(?s)entry 'a': .*'fle'.*\n.*entry 'b': .*Did you mean 'sample'"):
        load_suite(path)


def test_an_entrys_values_lie_over_the_suites_over_the_file() -> None:
    Path("run.yaml").write_text("mode: generate\nseed: 1\nsampling: {max_tokens: 9, temperature: 0.0}\n")
    entry: dict[str, Any] = {"name": "a", "file": "x", "set": {"sampling": {"temperature": 0.5}, "seed": 3}}
    suite = load_suite(write_suite([entry], config="run.yaml", set={"seed": 2, "sampling.max_tokens": 8}))

    config = suite.run_config(suite.entries[0])

    assert (config.seed, config.sampling.max_tokens, config.sampling.temperature) == (3, 8, 0.5)


def test_what_is_wrong_with_several_entries_is_told_at_once(producer: Producer, sets: tuple[Path, Path]) -> None:
    red = sets[0].name
    path = write_suite(
        [
            {"name": "gone", "file": "nowhere.jsonl"},
            {"name": "misspelt", "file": red, "set": {"mod": "letter"}},
            {"name": "both", "file": red, "limit": 1, "sample": 1},
            {"name": "elsewhere", "file": red, "config": "nowhere.yaml"},
            {"name": "keyless", "file": red, "answers": "nowhere.txt"},
            {"name": "good", "file": red},
        ]
    )

    said = producer(path, exit_code=1).stderr

    assert "entry 'gone': nowhere.jsonl: no such file." in said
    assert "entry 'misspelt': set: unknown setting 'mod'. Did you mean 'mode'?" in said
    assert "entry 'both': --limit and --sample are mutually exclusive." in said
    assert "entry 'elsewhere': nowhere.yaml: no such configuration file." in said
    assert "entry 'keyless': answers: nowhere.txt: no such file. The path is relative to the current folder." in said
    assert "good" not in said


def test_that_a_suite_does_not_say_which_of_several_models_it_asks_names_the_field_that_does(
    producer: Producer, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It named `--set`, which the command does not have."""
    Path("two.yaml").write_text("models: [{hf_model_id: large}, {hf_model_id: small}]")
    monkeypatch.setenv("MCQUEUE_CONFIG", "two.yaml")

    said = producer(write_suite([{"name": "a", "file": sets[0].name}]), exit_code=1).stderr

    assert "several models: large, small. Name one: --set model=large" in said
    assert "`models` in a suite's file" in said


def test_a_model_that_is_listed_under_two_of_its_names_is_refused(
    producer: Producer, sets: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got one column, and nobody was told where the other had gone."""
    monkeypatch.setenv("MCQUEUE_MODEL", "small")
    monkeypatch.setenv("MCQUEUE_HF_MODEL_ID", "owner/small-7b")
    path = write_suite([{"name": "red", "file": sets[0].name}], models=["small", "large", "owner/Small-7B"])

    said = producer(path, "--dry-run", exit_code=1).stderr

    told = "models: 'small' and 'owner/Small-7B' are one model, which is served as 'small'. Leave one of them out."
    assert f"entry 'red': {told}" in said


def test_a_model_that_is_set_beside_models_is_refused(producer: Producer, sets: tuple[Path, Path]) -> None:
    path = write_suite([{"name": "a", "file": sets[0].name, "set": {"model": "x"}}], models=["y"])

    assert "set.model and models are mutually exclusive" in producer(path, exit_code=1).stderr
