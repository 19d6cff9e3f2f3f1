"""What is asked: everything that can change an answer, and nothing of where and how fast."""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

__all__ = ["Mode", "Normalization", "Prompt", "RunSpec", "run_id_for", "slug"]


class Mode(StrEnum):
    """How an answer is taken from the model; one module of `workers/scoring/` each."""

    LETTER = "letter"
    LIKELIHOOD = "likelihood"


class Normalization(StrEnum):
    """What a choice's log-likelihood is divided by before choices are compared (`likelihood` only)."""

    NONE = "none"
    CHARACTER = "character"
    BYTE = "byte"


class Prompt(BaseModel):
    """A Jinja template with its text, so that a worker needs no file and an old run stays reproducible."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    text: Annotated[str, StringConstraints(min_length=1)]

    @property
    def version(self) -> str:
        """First 8 hex digits of the text's SHA-256: a changed template is another version by itself."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]


class RunSpec(BaseModel):
    """Everything that can change an answer. Two runs with equal fingerprints ask the very same thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: SHA-256 over the questions' canonical forms, in order.
    questions_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    #: The name under which a worker serves the model; also names the queue.
    model: Annotated[str, StringConstraints(min_length=1)]
    mode: Mode
    normalization: Normalization = Normalization.NONE
    prompt: Prompt
    #: Put before a choice (or label) when it continues the prompt.
    delimiter: str = " "
    #: Whether `Question.context` is shown to the model.
    use_context_field: bool = False
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _normalization_needs_likelihood(self) -> Self:
        if self.mode is not Mode.LIKELIHOOD and self.normalization is not Normalization.NONE:
            raise ValueError(f"normalization {self.normalization} only means something with mode likelihood")
        return self

    def fingerprint(self) -> str:
        """SHA-256 over the canonical JSON of all fields, as 64 hex digits."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def slug(text: str) -> str:
    """`text` reduced to what is safe in a queue name, a file name and a URL.

    >>> slug("HuggingFaceTB/SmolLM2-135M Instruct")
    'huggingfacetb-smollm2-135m-instruct'
    """
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.") or "unnamed"


def run_id_for(name: str, spec: RunSpec, repeat: int = 1) -> str:
    """Readable name plus the fingerprint's first 8 hex digits; a deliberate repeat gets its number behind.

    Asking the same thing twice gives the same id, so it resumes instead of starting again.
    """
    base = f"{slug(name)}-{spec.fingerprint()[:8]}"
    return base if repeat == 1 else f"{base}-{repeat}"
