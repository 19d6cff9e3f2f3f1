"""`python -m producer load`: puts exported runs back into the ledger, such as those of another machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import BaseModel, Field, ValidationError

from contract.chunks import TOGETHER, chunks
from contract.engine_info import EngineUsed
from contract.errors import InputError, RunConfigError
from contract.explain import explain
from contract.fair_share import MOST_WEIGHT
from contract.ledger import Counts, Ledger, Run, RunState, Taken
from contract.names import RunId
from contract.priority import Priority
from contract.question import Question
from contract.spec import RunSpec
from contract.verdict import Verdict
from contract.wording import number
from producer.bar import with_bar
from producer.intake.survey import Digest
from producer.options import GivenPath, as_json
from producer.output import echo_json, echo_lines
from producer.session import Session

__all__ = ["load"]

SUMMARY, RESULTS = "summary.json", "results.jsonl"
EXPORT_IT = "Where the run is, write both: python -m producer export RUN --format jsonl"


@click.command()
@click.argument("folders", metavar="FOLDER…", nargs=-1, required=True, type=GivenPath(path_type=Path))
@as_json
@click.pass_obj
def load(session: Session, folders: tuple[Path, ...], as_json: bool) -> None:
    """Put the run of each FOLDER, written by `export --format jsonl`, back into the ledger.

    So runs of another machine can be compared with those of this one, and runs that were purged. Verdicts that are
    there already stay. A run with unsettled questions is paused until it is resumed.
    """
    session.reach()
    archives = [_read(folder) for folder in folders]  # all of them, before anything is written
    done = [_put(session, archive) for archive in archives]
    if as_json:
        echo_json([each.to_json() for each in done])
        return
    for each in done:
        echo_lines([("run", each.run.run_id), ("state", each.describe())])


class _Answered(BaseModel):
    """An engine that answered, as summary.json describes it."""

    worker: str
    since: datetime
    engine: dict[str, Any] = Field(default_factory=dict)


class _Environment(BaseModel):
    answered_by: tuple[_Answered, ...] = ()


class _Summary(BaseModel):
    """What is needed of summary.json."""

    run_id: RunId
    source: str
    selection: Taken | None = None
    spec: RunSpec
    fingerprint: str
    total: int
    environment: _Environment = Field(default_factory=_Environment)
    exported_at: datetime
    #: Older versions did not write it.
    created_at: datetime | None = None
    #: The same.
    priority: Literal["high", "normal", "low"] = "normal"
    weight: int = Field(1, ge=1, le=MOST_WEIGHT)
    files: tuple[str, ...] = ()


class _Line(BaseModel):
    """A line of results.jsonl."""

    run_id: str
    question: Question
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class _Archive:
    """An exported run that was found to be complete."""

    run: Run
    weight: int
    engines: tuple[EngineUsed, ...]
    results: Path


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What became of a run."""

    run: Run
    #: Number of verdicts that were not there before.
    verdicts: int
    counts: Counts

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {
            "run_id": self.run.run_id,
            "state": self.counts.standing,
            "questions": self.run.questions,
            "loaded": self.verdicts,
            "unsettled": self.counts.todo,
        }

    def describe(self) -> str:
        """Describe what was loaded and what is still to be asked."""
        before = self.counts.settled - self.verdicts
        said = f"{self.counts.standing}: {number(self.verdicts, 'verdict')} loaded"
        if before:
            said += f", {before:,} there before"
        if self.counts.todo:
            said += f"; {number(self.counts.todo, 'question')} unsettled"
        return f"{said}; to ask them: python -m producer resume {self.run.run_id}" if self.counts.halted else said


def _read(folder: Path) -> _Archive:
    """Read the whole export in `folder`. Raises InputError if it is incomplete or was changed."""
    said, results = _summary(folder / SUMMARY), folder / RESULTS
    if RESULTS not in said.files:
        raise InputError(f"{folder / SUMMARY}: it was exported without {RESULTS}.", hint=EXPORT_IT)
    digest = Digest()
    with closing(with_bar(_lines(results, said.run_id), f"check {said.run_id}", said.total)) as lines:
        for some in chunks(lines, TOGETHER):
            digest.add([line.question for line in some])
    if said.spec.fingerprint() != said.fingerprint:
        raise InputError(f"{folder / SUMMARY}: its spec was changed, as its fingerprint tells.", hint=EXPORT_IT)
    if digest.hexdigest() != said.spec.questions_digest:
        has = f"has {number(digest.count, 'question')}, which are not the {said.total:,} of {said.run_id}"
        raise InputError(f"{results} {has}: it was changed, or cut short.", hint=EXPORT_IT)
    run = Run(
        run_id=said.run_id,
        spec=said.spec,
        source=said.source,
        questions=said.total,
        chance=digest.keys.guessing.chance(said.spec),
        without_key=digest.keys.without_key,
        created_at=(said.created_at or said.exported_at).timestamp(),
        priority=Priority[said.priority.upper()],
        taken=said.selection,
    )
    engines = (
        EngineUsed(worker=each.worker, since=each.since.timestamp(), engine=each.engine)
        for each in said.environment.answered_by
    )
    return _Archive(run, said.weight, tuple(engines), results)


def _summary(path: Path) -> _Summary:
    try:
        return _Summary.model_validate_json(path.read_bytes())
    except OSError as trouble:
        raise InputError(f"{path}: {trouble.strerror}.", hint=EXPORT_IT) from None
    except ValidationError as trouble:
        raise RunConfigError(
            explain(trouble, _Summary, str(path)), hint="It may be of a newer version of mcqueue: load it there."
        ) from None


def _lines(path: Path, run_id: str) -> Iterator[_Line]:
    """Yield the questions of the run in order, each with its verdict. Raises InputError."""
    try:
        with path.open("rb") as file:
            for at, line in enumerate(file, 1):
                try:
                    read = _Line.model_validate_json(line)
                except ValidationError as trouble:
                    raise InputError(explain(trouble, _Line, f"{path}:{at}"), hint=EXPORT_IT) from None
                if read.run_id != run_id:  # which may have asked the same questions otherwise
                    raise InputError(f"{path}:{at}: it is of {read.run_id}, not of {run_id}.", hint=EXPORT_IT)
                if read.verdict and read.verdict.question_id != read.question.id:
                    of = f"{read.verdict.question_id}, not of {read.question.id}"
                    raise InputError(f"{path}:{at}: its verdict is of {of}.", hint=EXPORT_IT)
                yield read
    except OSError as trouble:
        raise InputError(f"{path}: {trouble.strerror}.", hint=EXPORT_IT) from None


def _put(session: Session, archive: _Archive) -> _Loaded:
    ledger, run = session.ledger, archive.run
    with session.broker.sole_sender(run.run_id):
        ledger.open_run(run)
        before = ledger.counts(run.run_id)
        if not before.settled and not before.todo:  # new, or workers would ask what is not loaded yet
            session.broker.weigh(run.run_id, archive.weight)
            ledger.halt(run.run_id, RunState.PAUSED)
        _fill(ledger, archive)
        counts = ledger.counts(run.run_id)
        if counts.finished:
            ledger.resume(run.run_id)
    return _Loaded(run, counts.settled - before.settled, counts)


def _fill(ledger: Ledger, archive: _Archive) -> None:
    """Write what is missing of the run."""
    run_id = archive.run.run_id
    for used in archive.engines:  # first: if this is killed, no verdict is without its engine
        ledger.note_engine(run_id, used)
    with closing(with_bar(_lines(archive.results, run_id), f"load {run_id}", archive.run.questions)) as lines:
        for some in chunks(lines, TOGETHER):
            ledger.add_questions(run_id, [line.question for line in some])
            ledger.commit(run_id, [line.verdict for line in some if line.verdict])
