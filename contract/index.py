"""The index format: a folder with passages, a search structure, and a manifest that describes them.

    indexes/x/
      manifest.json     this module's `Manifest`
      passages.arrow    the passages in order: columns of `StoredPassage`
      bm25/             bm25s's own files: kinds bm25 and hybrid
      dense.faiss       vectors: kinds dense and hybrid
      rejected.jsonl    what was left out of the corpus, for the user; not part of the index

The producer reads the corpus and writes the passages and a `plan.json`; the worker side builds the search structure
and turns the plan into the manifest. It is written last, so a folder with a manifest is complete.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)

from contract.errors import IndexUnreadable, IndexUnusable
from contract.explain import first_mistake
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
    "DenseOptions",
    "Encoder",
    "IndexPlan",
    "IndexSize",
    "Manifest",
    "Precision",
    "StopWords",
    "StoredPassage",
    "Structure",
    "Words",
    "can_answer",
    "highest_score",
    "read_manifest",
    "replaced_beside",
]

#: Incremented whenever the file format, or the search results from the same files, change.
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PASSAGES = "passages.arrow"
PLAN = "plan.json"
REJECTED = "rejected.jsonl"
#: Installed as a package with the requirements, so that it needs no network.
DEFAULT_ENCODER = "all-minilm-l6-v2"
#: The k of reciprocal rank fusion: a rank counts 1 / (k + rank). The larger, the less the first ranks dominate.
FUSION_K = 60

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class StoredPassage(NamedTuple):
    """A retrievable passage: a document or a chunk of one. The fields are the columns of `PASSAGES`."""

    id: str
    #: Id of the document it comes from; its own id if the document is not split.
    document: str
    #: Path of the document according to the corpus; may be empty.
    path: str
    #: Hash of the question it was written for according to the corpus; usually empty.
    question_hash: str
    text: str


def highest_score(kind: IndexKind) -> float | None:
    """Return the highest possible score of a passage with this kind of search; None: unbounded."""
    return {IndexKind.DENSE: 1.0, IndexKind.HYBRID: 2 / (FUSION_K + 1)}.get(kind)


def can_answer(index: IndexKind, asked: IndexKind) -> bool:
    """Whether an index of kind `index` supports a search of kind `asked`; a hybrid one supports all three."""
    return index in {asked, IndexKind.HYBRID}


class Chunking(BaseModel):
    """How documents were split into passages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Maximum words and punctuation marks in a passage; None: documents are not split.
    tokens: int | None = Field(default=None, ge=1)
    #: Tokens that a passage shares with the previous one.
    overlap: int = Field(default=0, ge=0)
    #: Split at Markdown headings first.
    by_heading: bool = False

    @model_validator(mode="after")
    def _every_passage_goes_on(self) -> Self:
        if self.overlap >= (self.tokens or 1):
            raise ValueError(f"overlap {self.overlap} must be smaller than tokens ({self.tokens or 'not given'})")
        return self


class IndexSize(BaseModel):
    """Size of an index."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int = Field(ge=1)
    passages: int = Field(ge=1)


#: Languages for which bm25s has stop words.
StopWords = Literal["none", "en", "da", "de", "es", "fr", "it", "ko", "nl", "no", "pt", "ru", "sv", "tr", "zh"]


class Words(StrEnum):
    """How BM25 tells words apart."""

    #: Two or more letters, digits or underscores between anything else.
    SPACED = "spaced"
    #: Also in scripts without spaces between words, or with marks that are characters of their own.
    ANY = "any"


class Bm25Options(BaseModel):
    """Tokenization options of BM25."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Language of the stop words to remove.
    stop_words: StopWords = "en"
    words: Words = Words.SPACED
    #: How soon more occurrences of a word in a passage stop to matter.
    k1: float = Field(default=1.5, ge=0, allow_inf_nan=False)
    #: How much long passages are put at a disadvantage.
    b: float = Field(default=0.75, ge=0, le=1)

    @model_serializer(mode="wrap")
    def _as_before_there_was_a_choice(self, default: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what older indexes lack and have by default, so that they keep the digest that runs name."""
        fields = type(self).model_fields
        found: dict[str, Any] = default(self)
        return {
            name: value
            for name, value in found.items()
            if name == "stop_words" or getattr(self, name) != fields[name].default
        }


class Structure(StrEnum):
    """The FAISS index type."""

    EXACT = "exact"
    #: Approximate, graph-based: faster from a few hundred thousand passages on.
    HNSW = "hnsw"


class Precision(StrEnum):
    """Precision of each vector dimension."""

    FLOAT32 = "float32"
    #: Sign bits only: 32 times smaller; hits are rescored with the query's full vector.
    BINARY = "binary"


class DenseOptions(BaseModel):
    """How vectors are stored and searched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    structure: Structure = Structure.EXACT
    precision: Precision = Precision.FLOAT32


class Encoder(BaseModel):
    """The encoder of the passages; queries must be encoded with the same one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: A packaged encoder's name, a Hugging Face id, or a folder.
    id: Annotated[str, StringConstraints(min_length=1)]
    #: SHA-256 of each file that affects its vectors, by its path in the encoder's folder.
    files: dict[str, Sha256] = Field(default_factory=dict)
    #: Prefix of each text; None: the encoder's own default.
    query_prompt: str | None = None
    passage_prompt: str | None = None
    #: Instead of `files` in older indexes, which hashed the weights only; None: unknown.
    weights_sha256: Sha256 | None = None
    dimensions: int = Field(ge=1)
    #: Maximum number of tokens read of a text; None: unknown (older indexes), or unlimited.
    max_tokens: int | None = None

    @property
    def identity(self) -> Any:
        """The parts that can change a search: its files if known, wherever they are stored."""
        if not self.files:
            return self.weights_sha256 or self.id
        return {"files": self.files, "query_prompt": self.query_prompt, "passage_prompt": self.passage_prompt}


class IndexPlan(BaseModel):
    """The plan for the index to be built over the passages in the same folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(min_length=1)]
    kind: IndexKind
    #: SHA-256 over the passages, in order.
    corpus_digest: Sha256
    chunking: Chunking
    counts: IndexSize
    #: Whether any passage has a question hash.
    question_hashes: bool = False
    #: Kinds bm25 and hybrid.
    bm25: Bm25Options | None = None
    #: Kinds dense and hybrid.
    dense: DenseOptions | None = None
    encoder_id: str | None = None
    #: Prefixes of queries and passages for the encoder; None: the encoder's own defaults.
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
    """Description of a complete index and its origin; stored as `manifest.json` in its folder. Frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    plan: IndexPlan
    encoder: Encoder | None = None
    #: SHA-256 of every file of the index except the manifest, by its path in the folder.
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

        It excludes name, location and time, and identifies an encoder by its files: the same corpus indexed the same
        way elsewhere has the same digest.
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
    """Read the manifest of the index in folder `path`, without checking the other files.

    Raises IndexUnusable, with path and remedy, if there is no complete index of this format, and IndexUnreadable, one
    of these, if that cannot be known now.
    """
    manifest = path / MANIFEST
    try:
        if not path.is_dir():
            what = "is a file, expected the folder of an index" if path.exists() else "no such index"
            raise IndexUnusable(what, path=path, hint=f"Correct the path, or build it: {_build(path)}")
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise IndexUnusable(
            f"has no {MANIFEST}, so it is not an index", path=path, hint=f"Build it: {_build(path)}"
        ) from None
    except OSError as trouble:
        raise IndexUnreadable(f"cannot be read: {trouble.strerror}", path=manifest, hint="Check permissions.") from None
    except (ValueError, RecursionError) as trouble:
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
        field, why = first_mistake(trouble)
        hint = "Another version of mcqueue built it, or it is damaged: use that version, or build the index again."
        raise IndexUnusable(f"field {field!r}: {why}", path=manifest, hint=hint) from None


def replaced_beside(path: Path) -> Path:
    """Return where the last build moved the previous index of folder `path`, for runs that were made for it."""
    place = path.resolve()
    return place.with_name(f"{place.name}.replaced")


def _build(path: Path) -> str:
    return f"python -m producer index CORPUS -o {shlex.quote(str(path))}"


_REBUILD = "Build the index again with python -m producer index."
