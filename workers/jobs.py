"""What a worker process is for: scoring with a model, or searching an index. Its queue says which."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from contract import keys
from contract.errors import EXIT_RETRY, IndexUnusable, SettingsError
from contract.index import read_manifest, replaced_beside
from workers.engines import JudgeEngines, make_engine
from workers.engines.guarded import GuardedEngine
from workers.hard_exit import end_at_once
from workers.host.indexes import index_folders
from workers.messages.batch import Batch
from workers.monitoring.events import BatchEvents
from workers.retrieval.base import Retriever
from workers.stages.retrieval import BatchRetriever
from workers.stages.scoring import BatchScorer
from workers.stages.work import StageContext

__all__ = ["Job", "make_job"]


log = logging.getLogger(__name__)

#: Seconds that a worker whose engine hangs takes to say so in the ledger.
LAST_WORDS_S = 1.0


class Job(Protocol):
    """What the rest of the worker knows of its purpose."""

    #: The model or index, by name.
    name: str

    @property
    def done(self) -> int:
        """Questions that this worker settled or sent on so far."""

    @property
    def puts_off(self) -> dict[str, str]:
        """Run → why its questions go back to the queue from here at the moment."""

    def start(self) -> None:
        """Get ready, in the main thread. Raises McqueueError."""

    def describe(self) -> dict[str, Any]:
        """What decides the numbers. JSON values."""

    def run(self, batch: Batch, events: BatchEvents) -> None:
        """Do it for `batch`, from any thread; settle each of its messages."""

    def close(self) -> None:
        """Free everything. May be called twice."""


class Scoring:
    """Scoring questions with the engine that the settings name."""

    def __init__(
        self, workplace: StageContext, room_came: Callable[[], object], engine_gone: Callable[[str], object]
    ) -> None:
        self._settings = settings = workplace.settings
        self.name = settings.served_model
        engine = make_engine(settings)
        self._engine = GuardedEngine(engine, on_hang=self._end_hung)
        self._judges = JudgeEngines(settings)
        self._scorer = BatchScorer(workplace, self._engine, self._judges.engine_of)
        # The room beside a suspect is not for others, who would be kept from other workers meanwhile.
        engine.room_came = lambda: None if self._scorer.asks_alone else room_came()
        engine.gone = engine_gone

    def _end_hung(self) -> NoReturn:
        """The engine hangs: tell the ledger, if that does not hang as well, and end."""
        reason = f"the engine had not answered after {self._settings.batch_deadline_s:g} s (batch_deadline_s)"
        telling = threading.Thread(target=self._scorer.note_under_way, args=(reason,), daemon=True)
        telling.start()
        telling.join(LAST_WORDS_S)
        end_at_once(EXIT_RETRY)

    @property
    def done(self) -> int:
        """Questions settled so far."""
        return self._scorer.done

    @property
    def puts_off(self) -> dict[str, str]:
        """Always empty: of a run that cannot be scored here, the questions fail."""
        return self._scorer.puts_off

    def start(self) -> None:
        """Boot the engine."""
        log.info("booting %s with %s", self._settings.engine, self._settings.hf_model_id)
        self._engine.start()

    def describe(self) -> dict[str, Any]:
        """What the engine says of itself."""
        return self._engine.describe()

    def run(self, batch: Batch, events: BatchEvents) -> None:
        """Score `batch`."""
        self._scorer.run(batch, events)

    def close(self) -> None:
        """Free the model, and let go of judges elsewhere."""
        self._engine.close()
        self._judges.close()


class Searching:
    """Searching one of the indexes that the settings name."""

    def __init__(self, workplace: StageContext, queue: str) -> None:
        here = {keys.retrieve_queue(name): path for name, path in index_folders([workplace.settings]).items()}
        if queue not in here:
            known = ", ".join(here) or "none"
            raise SettingsError(
                f"-Q {queue}: the settings name no such index (they name {known}).",
                hint="Add its folder to `indexes` in the deploy file.",
            )
        self._path = here[queue]
        self._manifest = read_manifest(self._path)
        self.name = self._manifest.plan.name
        self._workplace = workplace
        self._retriever: BatchRetriever | None = None

    @property
    def done(self) -> int:
        """Questions looked up and sent on so far, and those of which that failed."""
        return self._retriever.done if self._retriever else 0

    @property
    def puts_off(self) -> dict[str, str]:
        """Runs for another build of the index, or with a reranker that is not to be had now."""
        return self._retriever.puts_off if self._retriever else {}

    def start(self) -> None:
        """Open the index, and check that it is what its manifest says."""
        from workers.retrieval.load import load_index

        log.info("opening index %s at %s", self.name, self._path)
        opened = load_index(self._path)
        self._manifest = opened.manifest
        self._retriever = BatchRetriever(self._workplace, opened, self._manifest, self._reopened)

    def _reopened(self, digest: str) -> Retriever | None:
        """The index of that digest, if it lies in the folder now or did before the last build. Raises McqueueError."""
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
        """The index's manifest, in short."""
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

    def run(self, batch: Batch, events: BatchEvents) -> None:
        """Look up the questions of `batch`."""
        if self._retriever is None:
            raise RuntimeError("the index was not opened")
        self._retriever.run(batch, events)

    def close(self) -> None:
        """Nothing is held that does not go with the process."""


def make_job(
    workplace: StageContext, queue: str, room_came: Callable[[], object], engine_gone: Callable[[str], object]
) -> Job:
    """The job behind `queue`. From any thread it calls `room_came` when it could take another batch, and `engine_gone`,
    with the reason, when it can do nothing any more.

    Raises SettingsError for a queue that the settings do not serve.
    """
    if keys.index_of(queue):
        return Searching(workplace, queue)
    model = workplace.settings.served_model
    own = keys.score_queue(model)
    if queue != own:
        raise SettingsError(f"-Q {queue}: these settings serve {model}, whose queue is {own}.")
    return Scoring(workplace, room_came, engine_gone)
