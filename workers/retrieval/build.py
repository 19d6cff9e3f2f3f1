"""Building what an index is searched by, over passages that the producer has written beside their plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from contract.index import MANIFEST, PASSAGES, PLAN, Encoder, IndexPlan, Manifest
from workers.retrieval.bm25 import build_bm25
from workers.retrieval.files import BM25_FOLDER, digests
from workers.retrieval.passages import Passages

__all__ = ["Report", "build_index"]


class Report(Protocol):
    """Where a build says how it gets on: `step`, `done` and `total` passages; or a `note` for the person."""

    def __call__(self, **event: object) -> None: ...


#: Passages between two reports.
REPORT_EVERY = 1000


def build_index(folder: Path, report: Report) -> Manifest:
    """Turn the plan in `folder` into a complete index there, its manifest written last.

    Raises InputError where the passages cannot be indexed so, ModelNotFound where there is no such encoder.
    """
    plan = IndexPlan.model_validate_json((folder / PLAN).read_bytes())
    passages = Passages(folder / PASSAGES)
    encoder: Encoder | None = None
    if plan.bm25:
        build_bm25(_told("words", passages, report), plan.bm25, folder / BM25_FOLDER)
    manifest = Manifest(plan=plan, encoder=encoder, files=digests(folder), created_at=datetime.now(UTC))
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / PLAN).unlink()
    return manifest


def _told(step: str, passages: Passages, report: Report) -> Iterator[str]:
    total = len(passages)
    for done, text in enumerate(passages.texts()):
        if done % REPORT_EVERY == 0:
            report(step=step, done=done, total=total)
        yield text
    report(step=step, done=total, total=total)
