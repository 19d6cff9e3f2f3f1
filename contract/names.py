"""Names that are safe in queues, files and URLs, and the ids of runs, which are such names."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from contract.spec import RunSpec

__all__ = [
    "LAST",
    "RunId",
    "distinct_slug",
    "has_fingerprint",
    "is_called",
    "is_request",
    "request_id",
    "run_id_for",
    "run_name",
    "slug",
    "without_fingerprint",
]

#: What commands take for a run's name: the newest run that is not an HTTP request. No run may be called so.
LAST = "last"
#: A run's folder is named after it, and file systems limit names to 255 bytes.
LONGEST_RUN_NAME = 150
#: A run's id as it is read from Redis. It names the folder of the run's results: whoever may write to Redis must not
#: choose another place for them.
RunId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*$")]


def slug(text: str) -> str:
    """Return `text` reduced to characters that are safe in a queue name, a file name and a URL.

    >>> slug("HuggingFaceTB/SmolLM2-135M Instruct")
    'huggingfacetb-smollm2-135m-instruct'
    """
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.") or "unnamed"


def distinct_slug(text: str) -> str:
    """Return `text` as a slug that other letters and digits would not give.

    `slug` keeps only a to z and 0 to 9; if there are others, 8 hex digits of a SHA-256 stand for them. Upper and lower
    case are the same.

    >>> distinct_slug("Qwen2 7B"), distinct_slug("模型 7B")
    ('qwen2-7b', '7b-745617de')
    """
    if not any(each.isalnum() and not each.isascii() for each in text):
        return slug(text)
    digest = hashlib.sha256(text.lower().encode(errors="surrogatepass")).hexdigest()
    return f"{slug(text)}-{digest[:8]}"


def run_name(text: str) -> str:
    """Return `text` as the name of a run: a slug, of which only the first `LONGEST_RUN_NAME` characters count."""
    return slug(slug(text)[:LONGEST_RUN_NAME])  # where it is cut may be a hyphen, which ends no slug


def run_id_for(name: str, spec: RunSpec, repeat: int = 1) -> str:
    """Return a readable name plus the fingerprint's first 8 hex digits, and the number of a deliberate repeat.

    Asking the same thing twice gives the same id, so it resumes instead of starting over.
    """
    base = f"{slug(name)}-{spec.fingerprint()[:8]}"
    return base if repeat == 1 else f"{base}-{repeat}"


def is_called(run_id: str, name: str) -> bool:
    """Whether this is the id of a run that was given this name.

    A name with letters that ids do not have is never recognized: that of another run may differ in just these.

    >>> is_called("my-test-0a1b2c3d", "My Test"), is_called("my-test-2-0a1b2c3d", "My Test")
    (True, False)
    """
    letters = [each for each in name if each.isalnum()]
    if not letters or not all(map(str.isascii, letters)):
        return False
    return re.fullmatch(re.escape(run_name(name)) + r"-[0-9a-f]{8}(-\d+)?", run_id) is not None


def has_fingerprint(run_id: str, fingerprint: str) -> bool:
    """Whether `run_id_for` may have made this id from a spec with this fingerprint, of which it shows 8 digits.

    >>> has_fingerprint("my-test-0a1b2c3d-2", "0a1b2c3d4e5f"), has_fingerprint("my-test-0a1b2c3d", "ffffffff4e5f")
    (True, False)
    """
    return re.search(rf"-{fingerprint[:8]}(-\d+)?$", run_id) is not None


def without_fingerprint(run_id: str) -> str:
    """Return the name in an id that `run_id_for` made.

    >>> without_fingerprint("my-test-0a1b2c3d-2")
    'my-test'
    """
    return re.sub(r"-[0-9a-f]{8}(-\d+)?$", "", run_id)


def request_id() -> str:
    """Return a new id for the run that answers an HTTP request; `run_id_for` makes none of this form from any name."""
    return f"http-{uuid.uuid4().hex}"


def is_request(run_id: str) -> bool:
    """Whether `request_id` made this id.

    >>> is_request("http-0a1b2c3d4e5f60718293a4b5c6d7e8f9"), is_request("http-0a1b2c3d")
    (True, False)
    """
    return re.fullmatch(r"http-[0-9a-f]{32}", run_id) is not None
