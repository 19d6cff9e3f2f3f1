"""From the ledger to results/<run>/: results.csv, results.jsonl and summary.json, each whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from contract.errors import InputError
from contract.fleet import WorkerRecord
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.verdict import Verdict
from producer.columns import COLUMNS, result_row
from producer.harmless import for_cell
from producer.stats import RetrievalTally, Tally
from producer.summary import Summary

__all__ = ["FORMATS", "Exported", "explaining", "export", "replacing", "write_rejected"]

Write = Callable[[Question, Verdict | None], object]


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    files: tuple[Path, ...]
    tally: Tally
    retrieval: RetrievalTally | None
    summary: dict[str, Any]


def export(
    ledger: Ledger,
    run_id: str,
    directory: Path,
    formats: Sequence[str] = ("csv",),
    live: Iterable[WorkerRecord] = (),
) -> Exported:
    """Write the run's results, as they stand, into `directory`, and the summary beside them.

    One row per question in the input's order, streamed. Every file is written beside its place and renamed when it is
    complete: on InputError (no room, no permission) the old ones stand as they were.
    """
    run = ledger.run(run_id)
    summary = Summary(run, ledger.counts(run_id).state)
    paths = [directory / f"results.{name}" for name in formats]
    with explaining(directory), ExitStack() as stack:
        writers: list[Write] = [
            FORMATS[name](stack.enter_context(replacing(path)), run) for name, path in zip(formats, paths, strict=True)
        ]
        summary_file = stack.enter_context(replacing(directory / "summary.json"))
        for question, verdict in summary.watching(ledger.results(run_id)):
            for write in writers:
                write(question, verdict)
        content = summary.to_json(live)
        json.dump(content, summary_file, ensure_ascii=False, indent=2)
        summary_file.write("\n")
    return Exported((*paths, directory / "summary.json"), summary.tally, summary.retrieval, content)


def write_rejected(rows: Iterable[dict[str, Any]], directory: Path) -> Path:
    """Write the rows that were left out into `directory`/rejected.jsonl. Raises InputError if that cannot be."""
    path = directory / "rejected.jsonl"
    with explaining(directory), replacing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True) + "\n")
    return path


def _csv(file: TextIO, run: Run) -> Write:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    return lambda question, verdict: writer.writerow(map(for_cell, result_row(run, question, verdict)))


def _jsonl(file: TextIO, run: Run) -> Write:
    start = f'{{"run_id":{json.dumps(run.run_id)},"question":'
    return lambda question, verdict: file.write(
        f'{start}{question.model_dump_json()},"verdict":{verdict.model_dump_json() if verdict else "null"}}}\n'
    )


#: Format → what makes a writer of rows out of an open file.
FORMATS: dict[str, Callable[[TextIO, Run], Write]] = {"csv": _csv, "jsonl": _jsonl}


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes the place of `path` if the block ends well, and vanishes if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def explaining(directory: Path) -> Iterator[None]:
    """Raise what the file system says while results are written as InputError."""
    try:
        yield
    except OSError as trouble:
        raise InputError(
            f"{directory}: the results cannot be written: {trouble.strerror}; older files there are unchanged.",
            hint="Make room or choose another folder with --out.",
        ) from None
