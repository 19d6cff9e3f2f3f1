"""The job of a worker process: scoring with a model or searching an index, depending on its queue."""

from __future__ import annotations

import abc
import logging
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypedDict

from contract import keys
from contract.errors import EXIT_RETRY, IndexUnusable, SettingsError
from contract.index import read_manifest, replaced_beside
from workers.engines import JudgeEngines, make_engine
from workers.engines.guarded import GuardedEngine
from workers.hard_exit import end_at_once
from workers.host.indexes import index_folders
from workers.messages.batch import Batch
from workers.monitoring.events import BatchEvents
from workers.reading import ReadingProcesses
from workers.retrieval.base import Retriever
from workers.shutdown import stop_without_engine
from workers.stages.base import BatchWork
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

__all__ = ["Job", "make_job"]


log = logging.getLogger(__name__)

#: Seconds that a worker with a hung engine spends on recording that in the ledger.
LAST_WORDS_S = 1.0


class Standing(TypedDict, total=False):
    """What a worker's record says of its job; the fields are those of `WorkerRecord`."""

    done: int
    puts_off: dict[str, str]
    refused: str
    waits_for: str


class Job(abc.ABC):
    """A job, as the rest of the worker sees it: a stage, and what it needs to be started, described and closed."""

    #: Name of the model or index.
    name: str
    #: How many batches may run at a time.
    most_batches: int
    #: None until it is known.
    _stage: BatchWork | None = None

    def standing(self) -> Standing:
        """Return how its work stands."""
        stage = self._stage
        return {"done": stage.done, "puts_off": stage.puts_off, "refused": stage.refused} if stage else {}

    @abc.abstractmethod
    def start(self) -> None:
        """Start up, in the main thread. Raises McqueueError."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what determines the results, as JSON values."""

    def run(self, batch: Batch, events: BatchEvents) -> None:
        """Process `batch` and settle each of its messages; from any thread, after `start`."""
        if self._stage is None:
            raise RuntimeError("the job was not started")
        self._stage.run(batch, events)

    def break_off(self) -> None:
        """Take back the attempts at the questions of running batches: this process ends without waiting for them."""
        if self._stage is not None:
            self._stage.uncount_under_way()

    def close(self) -> None:  # noqa: B027 - some have nothing to free
        """Free all resources that outlive the process. May be called twice."""


class Scoring(Job):
    """Job of scoring questions with the engine in the settings."""

    _stage: BatchScorer

    def __init__(self, context: StageContext, room_came: Callable[[], object]) -> None:
        self._settings = settings = context.settings
        self.name = settings.served_model
        self.most_batches = settings.max_batches_in_flight
        engine = make_engine(settings)
        self._engine = GuardedEngine(engine, on_hang=self._end_hung)
        self._judges = JudgeEngines(settings, context.stopping)
        self._readers = ReadingProcesses(settings.reading_processes)
        self._stage = BatchScorer(context, self._engine, self._judges.engine_of, self._judges.waits_for, self._readers)
        # While a suspect is asked alone, no more messages are taken: they would be kept from other workers.
        engine.room_came = lambda: None if self._stage.asks_alone else room_came()
        engine.gone = stop_without_engine
        engine.stopping = context.stopping

    def _end_hung(self) -> NoReturn:
        """Record in the ledger that the engine hangs, unless that hangs as well, and exit."""
        reason = f"the engine had not answered after {self._settings.batch_deadline_s:g} s (batch_deadline_s)"
        telling = threading.Thread(target=self._stage.note_under_way, args=(reason,), daemon=True)
        telling.start()
        telling.join(LAST_WORDS_S)
        end_at_once(EXIT_RETRY)

    def standing(self) -> Standing:
        """Return how its work stands, and which server the engine waits for."""
        return {**super().standing(), "waits_for": self._engine.waits_for}

    def start(self) -> None:
        """Boot the engine."""
        log.info("booting %s with %s", self._settings.engine, self._settings.answers_with)
        self._readers.start()
        self._engine.start()

    def describe(self) -> dict[str, Any]:
        """Return the engine's description."""
        return self._engine.describe()

    def close(self) -> None:
        """Free the model, and close connections to judge servers."""
        self._engine.close()
        self._judges.close()
        self._readers.close()


class Searching(Job):
    """Job of searching one of the indexes in the settings."""

    #: One batch is searched for, while another is read from the ledger or written to it. The settings are for engines.
    most_batches = 2

    def __init__(self, context: StageContext, queue: str) -> None:
        here = {keys.retrieve_queue(name): path for name, path in index_folders([context.settings]).items()}
        if queue not in here:
            known = ", ".join(here) or "none"
            raise SettingsError(
                f"-Q {queue}: the settings have no such index (they have {known}).",
                hint="Add its folder to `indexes` in the deploy file.",
            )
        self._path = here[queue]
        self._manifest = read_manifest(self._path)
        self.name = self._manifest.plan.name
        self._context = context

    def start(self) -> None:
        """Open the index and verify it against its manifest."""
        from workers.retrieval.load import load_index
        from workers.stages.retrieval import BatchRetriever

        log.info("opening index %s at %s", self.name, self._path)
        opened = load_index(self._path)
        self._manifest = opened.manifest
        self._stage = BatchRetriever(self._context, opened, self._manifest, self._reopened)

    def _reopened(self, digest: str) -> Retriever | None:
        """Open the index of that digest if it is the current or previous build of the folder. Raises McqueueError."""
        from workers.retrieval.load import load_index

        replaced = replaced_beside(self._path)
        for folder in (replaced, self._path) if replaced.is_dir() else (self._path,):
            try:
                if read_manifest(folder).digest == digest:
                    found = load_index(folder)
                    return found if found.manifest.digest == digest else None
            except IndexUnusable:
                if folder == self._path:
                    raise
        return None

    def describe(self) -> dict[str, Any]:
        """Return a summary of the index's manifest."""
        plan = self._manifest.plan
        encoder = self._manifest.encoder.id if self._manifest.encoder else None
        return {
            "engine": "index",
            "index": plan.name,
            "index_digest": self._manifest.digest,
            "kind": plan.kind.value,
            "encoder": encoder,
            "passages": plan.counts.passages,
        }


def make_job(context: StageContext, queue: str, room_came: Callable[[], object]) -> Job:
    """Create the job for `queue`, which calls `room_came`, from any thread, when it has capacity for another batch.

    Raises SettingsError for a queue that the settings do not serve.
    """
    if keys.index_of(queue):
        return Searching(context, queue)
    model = context.settings.served_model
    own = keys.score_queue(model)
    if queue != own:
        raise SettingsError(f"-Q {queue}: these settings serve {model}, whose queue is {own}.")
    return Scoring(context, room_came)
