"""Models that come as Python packages, where their cache cannot be written."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from contract.errors import ModelNotFound
from contract.settings import load_settings
from tests.unit.producer.conftest import room_per_file
from workers import packaged_weights
from workers.check import check
from workers.engines.packaged import is_prepared, prepare
from workers.host.machine import Machine

NAME = "smollm2-135m-instruct"


class Weights:
    """A model that is small, and saved at once."""

    def save_pretrained(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")


class Words:
    """A tokenizer that is saved as those of transformers are: by a library that tells errors in a class of its own."""

    def save_pretrained(self, folder: Path) -> None:
        words = {f"word{number}": number for number in range(100)}
        Tokenizer(WordLevel(words, unk_token="word0")).save(str(folder / "tokenizer.json"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for prepared models, of which that of the package would be one with 100 words."""
    import transformers

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: Weights())
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: Words())
    return tmp_path / "mcqueue" / "models"


def test_a_disk_that_is_full_before_the_tokenizer_is_one_line_and_leaves_nothing(cache: Path) -> None:
    """It was a traceback, beside what had been written."""
    with room_per_file(200), pytest.raises(ModelNotFound, match=rf"cannot be prepared in {cache}: .*\(os error 27\)"):
        prepare(NAME)
    assert [each.name for each in cache.iterdir()] == [f"{NAME}.lock"]
    assert {each.name for each in prepare(NAME).iterdir()} == {"mcqueue.json", "model.safetensors", "tokenizer.json"}


@pytest.mark.parametrize("removed", ["mcqueue.json", "model.safetensors"])
def test_a_prepared_model_of_which_the_oldest_files_were_tidied_away_is_prepared_again(
    cache: Path, removed: str
) -> None:
    """Without the file that says it is complete, every attempt was refused; without the weights, none was made."""
    (prepare(NAME) / removed).unlink()
    assert {each.name for each in prepare(NAME).iterdir()} == {"mcqueue.json", "model.safetensors", "tokenizer.json"}


def test_weights_that_do_not_reach_the_disk_are_not_taken_for_whole(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server may tell only at the end that a quota is exceeded, and the library of the weights does not ask."""
    synced: list[str] = []

    def failing(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        if synced[-1] == "model.safetensors":
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(ModelNotFound, match=f"cannot be prepared in {cache}: .*Disk quota exceeded"):
        prepare(NAME)
    assert not is_prepared(NAME)
    assert [each.name for each in cache.iterdir()] == [f"{NAME}.lock"]


def test_a_cache_that_cannot_be_written_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcqueue").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ModelNotFound, match=f"cannot be prepared in {tmp_path}/mcqueue/models: .*Not a dir") as refused:
        prepare("smollm2-135m-instruct")
    assert "XDG_CACHE_HOME" in refused.value.hint


def test_packaged_weights_that_cannot_be_read_are_no_trouble_of_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder was to be named for the cache, which would have changed nothing."""

    def failing(_: Path) -> str:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(packaged_weights, "sha256_of", failing)
    with pytest.raises(ModelNotFound, match=r"\.gguf cannot be read: Input/output error\.") as refused:
        prepare(NAME)
    assert "XDG_CACHE_HOME" not in refused.value.hint
    assert [each.name for each in cache.iterdir()] == [f"{NAME}.lock"]


def test_a_cache_that_cannot_be_read_is_one_line_with_the_remedy_and_a_finding_of_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the HOME of another user in a container: workers ended in a traceback, and check found nothing more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 300)))
    with pytest.raises(ModelNotFound, match=r"cannot be prepared in .*: .*File name too long") as refused:
        prepare("smollm2-135m-instruct")
    assert "XDG_CACHE_HOME" in refused.value.hint
    fleet = [load_settings(None, ["hf_model_id=smollm2-135m-instruct", "redis_url=redis://127.0.0.1:1"])]
    found = {each.what: each.level for each in check(fleet, Machine([], [0]))}
    assert (found["model"], found["Redis"]) == ("error", "error")


def test_a_prepared_model_leaves_the_process_free_to_ask_the_hub_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that this process, or its children, asked the hub for afterwards was refused."""
    asked: list[bool] = []

    class Part:
        @classmethod
        def from_pretrained(cls, *_: Path, local_files_only: bool = False, **__: Any) -> Part:
            asked.append(local_files_only)
            return cls()

        def save_pretrained(self, folder: Path) -> None:
            folder.mkdir(parents=True, exist_ok=True)

    fakes = SimpleNamespace(AutoModelForCausalLM=Part, AutoTokenizer=Part, GgufConfig=lambda **_: None)
    monkeypatch.setitem(sys.modules, "transformers", fakes)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(bfloat16=None))
    monkeypatch.setitem(sys.modules, "safetensors", SimpleNamespace(SafetensorError=ValueError))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = dict(os.environ)
    prepare("smollm2-135m-instruct")
    assert asked == [True, True], "it needs nothing of the hub itself"
    assert dict(os.environ) == before
