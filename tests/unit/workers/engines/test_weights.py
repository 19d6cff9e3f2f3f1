"""A model's folder in a few hex digits: what else is loaded has others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.engines.weights import BLOCK_BYTES, model_folder, weights_digest

SIZE = 40 * BLOCK_BYTES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-1.safetensors").write_bytes(b"a" * SIZE)
    (tmp_path / "model-2.safetensors").write_bytes(b"b" * 100)
    return tmp_path


def test_files_of_any_name_count_and_folders_do_not(folder: Path) -> None:
    before = weights_digest(folder)
    (folder / "global_step.pt").mkdir()
    assert weights_digest(folder) == before
    (folder / os.fsdecode(b"mod\xe8le.bin")).write_bytes(b"c")
    assert weights_digest(folder) not in {before, ""}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b'{"rope_theta": 1}'),
        ("model-1.safetensors", b"a" * (SIZE - 1)),
        ("model-1.safetensors", b"A" + b"a" * (SIZE - 1)),
        ("model-1.safetensors", b"a" * (SIZE - 1) + b"A"),
        ("model-1.safetensors", bytes(range(256)) * (SIZE // 256)),
        ("model-2.safetensors", b"B" * 100),
        ("model-3.safetensors", b""),
    ],
)
def test_other_weights_have_another_digest(folder: Path, name: str, content: bytes) -> None:
    before = weights_digest(folder)
    (folder / name).write_bytes(content)
    assert len(before) == 16
    assert weights_digest(folder) != before


def test_what_is_no_weight_and_where_they_lie_changes_nothing(folder: Path, tmp_path: Path) -> None:
    before = weights_digest(folder)
    (folder / "README.md").write_text("New.")
    moved = folder.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert weights_digest(moved) == before


def test_where_no_weights_are_nothing_is_told(tmp_path: Path) -> None:
    assert weights_digest(tmp_path) == ""
    assert weights_digest(tmp_path / "gone") == ""
    for name in ("nobody/has-this", "nobody/has-this:Q4_K_M", "a/b/c"):
        assert model_folder(name, None, str(tmp_path)) is None
    assert model_folder(str(tmp_path), None, None) == tmp_path
