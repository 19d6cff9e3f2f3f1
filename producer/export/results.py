"""From the ledger to results/<run>/: the results in each format that is wanted, and summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.fleet import WorkerRecord
from contract.ledger import Ledger
from producer.export.files import Drafts, explaining, replacing
from producer.export.formats import FORMATS
from producer.export.parts import pieces
from producer.export.summary import Summary

__all__ = ["Exported", "export", "write_rejected"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    files: tuple[Path, ...]
    counted: Summary
    #: summary.json's content.
    summary: dict[str, Any]
    #: What a reader of the files must know of them.
    remarks: tuple[str, ...] = ()


def export(
    ledger: Ledger,
    run_id: str,
    directory: Path,
    formats: Sequence[str] = ("csv",),
    live: Iterable[WorkerRecord] = (),
) -> Exported:
    """Write the run's results, as they stand, into `directory`, and the summary beside them.

    The questions come in the input's order, streamed. Every file is written beside its place, and all are renamed when
    all are complete: on InputError (no room, no permission) the old ones stand as they were. Should a rename fail after
    that, or the process be killed between two, there is no summary: where it stands, the files that it names are of its
    export.
    """
    run = ledger.run(run_id)
    summary = Summary(run, ledger.counts(run_id).state)
    seal = directory / "summary.json"
    with explaining(directory), Drafts(seal) as drafts:
        summary_file = drafts.text(seal)
        with ExitStack() as stack:
            sinks = [stack.enter_context(FORMATS[name](drafts, directory, run)) for name in formats]
            parts = stack.enter_context(closing(pieces(ledger, run, [sink.piece_of for sink in sinks], summary)))
            for part in parts:
                for sink, piece in zip(sinks, part, strict=True):
                    sink.write(piece)
        results = [path for sink in sinks for path in sink.files]
        names = [str(path.relative_to(directory)) for path in results]
        content = summary.to_json(live, ledger.engines(run_id)) | {"files": names}
        json.dump(content, summary_file, ensure_ascii=False, indent=2)
        summary_file.write("\n")
    files = (*results, seal)
    remarks = tuple(remark for sink in sinks for remark in sink.remarks)
    return Exported(files, summary, content, remarks)


def write_rejected(rows: Iterable[dict[str, Any]], directory: Path) -> Path:
    """Write the rows that were left out into `directory`/rejected.jsonl. Raises InputError if that cannot be."""
    path = directory / "rejected.jsonl"
    with explaining(directory), replacing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True) + "\n")
    return path
