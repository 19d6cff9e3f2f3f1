"""What an index says of itself, and what a person reads where it says nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from contract.errors import IndexUnusable
from contract.index import (
    FORMAT_VERSION,
    MANIFEST,
    Bm25Options,
    Chunking,
    DenseOptions,
    Encoder,
    IndexPlan,
    IndexSize,
    Manifest,
    Precision,
    Words,
    read_manifest,
)
from contract.spec import IndexKind

PARTS: dict[str, Any] = {
    "bm25": {"bm25": Bm25Options()},
    "dense": {"dense": DenseOptions(), "encoder_id": "e5"},
    "hybrid": {"bm25": Bm25Options(), "dense": DenseOptions(), "encoder_id": "e5"},
}


def plan(kind: str = "hybrid", **changes: Any) -> IndexPlan:
    fields = {
        "name": "facts",
        "kind": IndexKind(kind),
        "corpus_digest": "a" * 64,
        "chunking": Chunking(),
        "counts": IndexSize(documents=2, passages=3),
        **PARTS[kind],
    }
    return IndexPlan(**{**fields, **changes})


def manifest(**changes: Any) -> Manifest:
    encoder = Encoder(id="e5", weights_sha256="b" * 64, dimensions=8)
    fields = {"plan": plan(), "encoder": encoder, "files": {}, "created_at": datetime(2026, 1, 2, tzinfo=UTC)}
    return Manifest(**{**fields, **changes})


def test_a_manifest_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    written = manifest(files={"passages.arrow": "c" * 64})
    (tmp_path / MANIFEST).write_text(written.model_dump_json())
    assert read_manifest(tmp_path) == written


@pytest.mark.parametrize(
    "other",
    [
        manifest(plan=plan(corpus_digest="f" * 64)),
        manifest(plan=plan("dense")),
        manifest(plan=plan("bm25"), encoder=None),
        manifest(plan=plan(dense=DenseOptions(precision=Precision.BINARY))),
        manifest(plan=plan(bm25=Bm25Options(stop_words="none"))),
        manifest(plan=plan(bm25=Bm25Options(words=Words.ANY))),
        manifest(plan=plan(bm25=Bm25Options(k1=0.9))),
        manifest(plan=plan(bm25=Bm25Options(b=0.4))),
        manifest(encoder=Encoder(id="e5", weights_sha256="d" * 64, dimensions=8)),
        manifest(encoder=Encoder(id="e5", dimensions=8)),
        manifest(encoder=Encoder(id="e5", files={"model.safetensors": "b" * 64}, dimensions=8)),
        manifest(encoder=Encoder(id="e5", files={"model.safetensors": "b" * 64}, query_prompt="q: ", dimensions=8)),
        manifest(encoder=Encoder(id="e5", files={"model.safetensors": "b" * 64}, passage_prompt="", dimensions=8)),
    ],
)
def test_the_digest_changes_with_everything_that_can_change_a_search(other: Manifest) -> None:
    assert len(other.digest) == 64
    assert other.digest != manifest().digest


@pytest.mark.parametrize(
    "other",
    [
        manifest(plan=plan(name="elsewhere")),
        manifest(created_at=datetime(2027, 1, 2, tzinfo=UTC)),
        manifest(encoder=Encoder(id="/other/place/e5", weights_sha256="b" * 64, dimensions=8)),
        manifest(encoder=Encoder(id="e5", weights_sha256="b" * 64, dimensions=8, max_tokens=256)),
    ],
)
def test_the_digest_stays_with_another_name_time_or_place(other: Manifest) -> None:
    assert other.digest == manifest().digest


def test_an_index_from_before_bm25_could_be_told_more_than_stop_words_keeps_its_digest() -> None:
    """Runs name it, and their retrieval waits for an index that has it."""
    older = manifest(plan=plan("bm25"), encoder=None)
    assert older.digest == "864c6304ebeab3763debcbd016bfaf0142c5b1d6332b8041e833d8590f771cb1"
    assert older.plan.model_dump()["bm25"] == {"stop_words": "en"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "bm25", "encoder_id": "e5"},
        {"kind": "dense", "encoder_id": None},
        {"kind": "hybrid", "bm25": None},
        {"kind": "dense", "bm25": Bm25Options()},
    ],
)
def test_a_plan_has_the_parts_of_its_kind_and_no_others(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="kind"):
        plan(**wrong)


@pytest.mark.parametrize("wrong", [{"tokens": 5, "overlap": 5}, {"overlap": 1}])
def test_an_overlap_is_smaller_than_the_chunk(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="overlap"):
        Chunking(**wrong)


def test_a_missing_index_is_told_with_its_path_and_how_to_build_it(tmp_path: Path) -> None:
    missing = tmp_path / "none here"
    with pytest.raises(IndexUnusable) as trouble:
        read_manifest(missing)
    remedy = f"Correct the path, or build it: python -m producer index CORPUS -o '{missing}'"
    assert str(trouble.value) == f"{missing}: no such index. {remedy}"


def test_an_index_that_cannot_be_looked_at_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable, match="cannot be read: File name too long"):
        read_manifest(tmp_path / ("x" * 300))


def test_a_file_is_no_index(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").touch()
    with pytest.raises(IndexUnusable, match="is a file, expected the folder of an index"):
        read_manifest(tmp_path / "corpus.jsonl")


def test_a_folder_without_a_manifest_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexUnusable, match=r"has no manifest\.json, so it is not an index\. Build it"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format_version": 1,', r"manifest\.json: is damaged: .*\. Build the index again"),
        ("\xff", r"is damaged"),
        ("[" * 100_000, r"is damaged: maximum recursion depth"),
        ("[]", "has format None"),
        (json.dumps({"format_version": FORMAT_VERSION + 1}), r"has format 2, this version .* reads 1\. Update mcqueue"),
        (json.dumps({"format_version": FORMAT_VERSION, "files": {}}), "field 'plan': Field required"),
        (
            json.dumps({**json.loads(manifest().model_dump_json()), "language": "en"}),
            "field 'language': .* Another version of mcqueue built it",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read_is_told_with_its_path_and_the_remedy(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / MANIFEST).write_bytes(content.encode("latin-1"))
    with pytest.raises(IndexUnusable, match=message) as trouble:
        read_manifest(tmp_path)
    assert str(tmp_path / MANIFEST) in str(trouble.value)
