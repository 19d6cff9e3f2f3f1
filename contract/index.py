"""An index as both sides know it: a folder of passages with a search structure, and a manifest that says what it is.

    indexes/x/
      manifest.json     this module's `Manifest`
      passages.arrow    the passages in order: columns of `StoredPassage`
      bm25/             bm25s's own files: kinds bm25 and hybrid
      dense.faiss       vectors: kinds dense and hybrid
      rejected.jsonl    what of the corpus was left out, for the person: no part of the index

The producer reads the corpus and writes the passages and a `plan.json`; the worker side builds the search structure
and turns the plan into the manifest, which is written last: a folder with a manifest is complete.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from contract.errors import IndexUnusable
from contract.spec import IndexKind

__all__ = [
    "DEFAULT_ENCODER",
    "FORMAT_VERSION",
    "FUSION_K",
    "MANIFEST",
    "PASSAGES",
    "PLAN",
    "REJECTED",
    "Bm25Options",
    "Chunking",
    "Counts",
    "DenseOptions",
    "Encoder",
    "IndexPlan",
    "Manifest",
    "Precision",
    "StopWords",
    "StoredPassage",
    "Structure",
    "can_answer",
    "highest_score",
    "read_manifest",
    "replaced_beside",
]

#: Raised whenever the files, or what a search makes of the same files, change.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PASSAGES = "passages.arrow"
PLAN = "plan.json"
REJECTED = "rejected.jsonl"
#: Travels as a package with the requirements, and needs no network.
DEFAULT_ENCODER = "all-minilm-l6-v2"
#: How little the first ranks outweigh the next where rankings are fused: a rank is worth 1 / (60 + itself).
FUSION_K = 60

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class StoredPassage(NamedTuple):
    """What can be retrieved: a document, or a chunk of one. The fields are the columns of `PASSAGES`."""

    id: str
    #: Id of the document that it comes from; its own where the document is not cut.
    document: str
    #: Where the document lies, as the corpus says; may be empty.
    path: str
    #: Hash of the question that it was written for, as the corpus says; mostly empty.
    question_hash: str
    text: str


def highest_score(kind: IndexKind) -> float | None:
    """What a passage can score at most where it is searched so; None: there is no bound."""
    return {IndexKind.DENSE: 1.0, IndexKind.HYBRID: 2 / (FUSION_K + 1)}.get(kind)


def can_answer(index: IndexKind, asked: IndexKind) -> bool:
    """Whether an index of kind `index` can be searched as `asked`: a hybrid one in all three ways."""
    return index in {asked, IndexKind.HYBRID}


class Chunking(BaseModel):
    """How documents were cut into passages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Words and punctuation marks in a passage at most; None: documents stay whole.
    tokens: int | None = Field(default=None, ge=1)
    #: Tokens that a passage repeats of the one before.
    overlap: int = Field(default=0, ge=0)
    #: Cut at Markdown headings first.
    by_heading: bool = False

    @model_validator(mode="after")
    def _every_passage_goes_on(self) -> Self:
        if self.overlap >= (self.tokens or 1):
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens ({self.tokens or 'not given'})")
        return self


class Counts(BaseModel):
    """How much the index holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int = Field(ge=1)
    passages: int = Field(ge=1)


#: Languages that bm25s has stop words for.
StopWords = Literal["none", "en", "da", "de", "es", "fr", "it", "ko", "nl", "no", "pt", "ru", "sv", "tr", "zh"]


class Bm25Options(BaseModel):
    """How BM25 reads words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Language of the words that are left out.
    stop_words: StopWords = "en"


class Structure(StrEnum):
    """How FAISS finds the nearest vectors."""

    EXACT = "exact"
    #: Approximate, by a graph: faster from some hundred thousand passages on.
    HNSW = "hnsw"


class Precision(StrEnum):
    """What is kept of each dimension of a vector."""

    FLOAT32 = "float32"
    #: Its sign: 32 times smaller; what is found is scored again with the query's full vector.
    BINARY = "binary"


class DenseOptions(BaseModel):
    """How vectors are kept and searched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    structure: Structure = Structure.EXACT
    precision: Precision = Precision.FLOAT32


class Encoder(BaseModel):
    """What made the vectors, and must make those of the queries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: A packaged encoder's name, a Hugging Face id, or a folder.
    id: Annotated[str, StringConstraints(min_length=1)]
    #: SHA-256 of each file that decides its vectors, by its path in the encoder's folder.
    files: dict[str, Sha256] = Field(default_factory=dict)
    #: Put before a text; None: what the encoder itself registers.
    query_prompt: str | None = None
    passage_prompt: str | None = None
    #: In place of `files`, in an index from before all of them were hashed; None: nobody knows.
    weights_sha256: Sha256 | None = None
    dimensions: int = Field(ge=1)

    @property
    def identity(self) -> Any:
        """What in it can change a search: its files where they are known, wherever they lie."""
        if not self.files:
            return self.weights_sha256 or self.id
        return {"files": self.files, "query_prompt": self.query_prompt, "passage_prompt": self.passage_prompt}


class IndexPlan(BaseModel):
    """What is to be built over the passages that lie beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1)]
    kind: IndexKind
    #: SHA-256 over the passages, in order.
    corpus_digest: Sha256
    chunking: Chunking
    counts: Counts
    #: Whether a passage has the hash of a question; None in an index from before this was noted.
    question_hashes: bool | None = None
    #: Kinds bm25 and hybrid.
    bm25: Bm25Options | None = None
    #: Kinds dense and hybrid.
    dense: DenseOptions | None = None
    encoder_id: str | None = None
    #: Put before queries and passages for the encoder; None: what it registers itself.
    query_prompt: str | None = None
    passage_prompt: str | None = None

    @model_validator(mode="after")
    def _parts_fit_the_kind(self) -> Self:
        for part, asked, given in (
            ("bm25", IndexKind.BM25, self.bm25),
            ("dense", IndexKind.DENSE, self.dense),
            ("encoder_id", IndexKind.DENSE, self.encoder_id),
        ):
            if can_answer(self.kind, asked) != (given is not None):
                raise ValueError(f"kind {self.kind} {'needs' if given is None else 'takes no'} {part}")
        return self


class Manifest(BaseModel):
    """What an index is, what it was made from, and how. Frozen; `manifest.json` in its folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    plan: IndexPlan
    encoder: Encoder | None = None
    #: SHA-256 of every file of the index but the manifest, by its path in the folder.
    files: dict[str, Sha256]
    created_at: datetime

    @model_validator(mode="after")
    def _vectors_have_an_encoder(self) -> Self:
        if (self.plan.encoder_id is None) != (self.encoder is None):
            raise ValueError(f"kind {self.plan.kind} {'needs' if self.encoder is None else 'takes no'} encoder")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over everything that can change a search result, as 64 hex digits.

        Neither name nor place nor time is in it, and an encoder is known by its files: the same corpus indexed the
        same way elsewhere has the same digest.
        """
        plan, encoder = self.plan, self.encoder
        parts: dict[str, Any] = {
            "format_version": self.format_version,
            "corpus": plan.corpus_digest,
            "kind": plan.kind,
            "bm25": plan.bm25.model_dump(mode="json") if plan.bm25 else None,
            "dense": plan.dense.model_dump(mode="json") if plan.dense else None,
            "encoder": encoder.identity if encoder else None,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of the index in folder `path`. What the other files hold is not looked at.

    Raises IndexUnusable, with path and remedy, where there is no complete index of this format.
    """
    manifest = path / MANIFEST
    if not path.is_dir():
        what = "is a file, expected the folder of an index" if path.exists() else "no such index"
        raise IndexUnusable(what, path=path, hint=f"{_BUILD.format(path)} or correct the path.")
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise IndexUnusable(f"holds no {MANIFEST}, so it is no index", path=path, hint=_BUILD.format(path)) from None
    except OSError as trouble:
        raise IndexUnusable(f"cannot be read: {trouble.strerror}", path=manifest, hint="Check its rights.") from None
    except ValueError as trouble:
        raise IndexUnusable(f"is damaged: {trouble}", path=manifest, hint=_REBUILD) from None
    found = content.get("format_version") if isinstance(content, dict) else None
    if found != FORMAT_VERSION:
        newer = isinstance(found, int) and found > FORMAT_VERSION
        hint = "Update mcqueue here, or build the index again with this version." if newer else _REBUILD
        message = f"has format {found!r}, this version of mcqueue reads {FORMAT_VERSION}"
        raise IndexUnusable(message, path=manifest, hint=hint)
    try:
        return Manifest.model_validate(content)
    except ValidationError as trouble:
        first = trouble.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise IndexUnusable(f"field {field!r}: {first['msg']}", path=manifest, hint=_REBUILD) from None


def replaced_beside(path: Path) -> Path:
    """Where the index is kept that was in folder `path` before the last build, for the runs that were made for it."""
    place = path.resolve()
    return place.with_name(f"{place.name}.replaced")


_BUILD = "Build it: python -m producer index CORPUS -o {}"
_REBUILD = "Build the index again with python -m producer index."
