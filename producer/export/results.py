"""Exports a run from the ledger to results/<run>/: the results in the requested formats, and summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.fleet import WorkerRecord
from contract.ledger import Ledger
from producer.bar import with_bar
from producer.export.files import Drafts, explaining
from producer.export.formats import FORMATS, WRITTEN
from producer.export.parts import count_of, pieces
from producer.export.summary import Summary
from producer.export.summary_json import summary_json

__all__ = ["Exported", "export"]


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export."""

    files: tuple[Path, ...]
    summary: Summary
    #: summary.json's content.
    content: dict[str, Any]
    #: Notes that a reader of the files should know.
    remarks: tuple[str, ...]


def export(
    ledger: Ledger,
    run_id: str,
    directory: Path,
    formats: Sequence[str] = ("csv",),
    live: Iterable[WorkerRecord] = (),
    weight: int = 1,
) -> Exported:
    """Write the run's current results and its summary to `directory`; `weight` is the run's, for a later `load`.

    The questions are streamed in input order. All files are written under temporary names and renamed once all are
    complete: on InputError (no space, no permission) the old ones are unchanged. If a rename fails after that, or the
    process is killed between two renames, there is no summary: wherever it exists, the files it names are of the same
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
            shown = stack.enter_context(closing(with_bar(parts, "export", count_of(run))))
            for part in shown:
                for sink, piece in zip(sinks, part, strict=True):
                    sink.write(piece)
        results = [path for sink in sinks for path in sink.files]
        names = [str(path.relative_to(directory)) for path in results]
        content = summary_json(summary, live, ledger.engines(run_id), weight) | {"files": names}
        json.dump(content, summary_file, ensure_ascii=False, indent=2)
        summary_file.write("\n")
    files = (*results, seal)
    remarks = [remark for sink in sinks for remark in sink.remarks]
    if older := [str(path) for pattern in WRITTEN for path in sorted(directory.glob(pattern)) if path not in results]:
        remarks.append(f"left as they were by an earlier export: {', '.join(older)}")
    return Exported(files, summary, content, tuple(remarks))
