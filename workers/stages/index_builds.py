"""The open builds of one index: it may be rebuilt in place while runs still need the previous build."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from contract.errors import HubUnreachable, InputError, McqueueError
from contract.index import Manifest
from contract.spec import Retrieval
from workers.retries import reason_of
from workers.retrieval.base import Retriever
from workers.retrieval.rerank import Rerankers
from workers.stages.work import NotNow

__all__ = ["OpenBuilds", "Reopen"]

log = logging.getLogger(__name__)

#: Maximum open builds of an index: the newest, and the one of earlier runs. Each may hold an encoder.
MOST_OPEN = 2
#: Seconds before a build that could not be opened is tried again: each attempt hashes its files.
UNUSABLE_FOR_S = 10.0
#: Opens the index of a digest, if it is on this host.
Reopen = Callable[[str], Retriever | None]


class OpenBuilds:
    """The open builds of one index, by digest; a build replaced on disk stays usable. Thread-safe."""

    def __init__(self, retriever: Retriever, manifest: Manifest, reopen: Reopen) -> None:
        """`retriever` is the opened build of `manifest`; `reopen` opens others."""
        self._name = manifest.plan.name
        #: The newest last.
        self._opened = {manifest.digest: Rerankers(retriever)}
        self._reopen = reopen
        self._lock = threading.Lock()
        #: By digest: when (monotonic clock) a build that could not be opened may be tried again, and why it failed.
        self._unusable: dict[str, tuple[float, str]] = {}

    def of(self, wanted: Retrieval) -> Retriever:
        """Return a retriever for `wanted`.

        Raises NotNow if another worker may have it, or this one later; InputError if no worker can.
        """
        with self._lock:
            opened = self._opened.get(wanted.index_digest)
            if opened is not None and opened.retriever.changed():
                log.error("index %s was overwritten while open, and is closed", self._name)
                del self._opened[wanted.index_digest]
                opened = None
            if opened is None:
                opened = self._opened[wanted.index_digest] = Rerankers(self._anew(wanted))
                log.info("index %s: opened as %s", self._name, wanted.index_digest[:8])
            while len(self._opened) > MOST_OPEN:
                del self._opened[next(iter(self._opened))]
        try:
            return opened.of(wanted)
        except HubUnreachable as trouble:
            raise NotNow(str(trouble)) from None
        except InputError:
            raise
        except Exception as trouble:
            log.warning("reranker %s cannot be loaded", wanted.reranker, exc_info=True)
            raise NotNow(f"reranker {wanted.reranker} cannot be loaded: {reason_of(trouble)}") from None

    def _anew(self, wanted: Retrieval) -> Retriever:
        """Open the build that the run was made for."""
        until, why = self._unusable.get(wanted.index_digest, (0.0, ""))
        if time.monotonic() < until:
            raise NotNow(why)
        try:
            found = self._reopen(wanted.index_digest)
        except Exception as trouble:  # whatever the folder contains, only this run must wait
            log.warning("index %s cannot be opened", self._name, exc_info=not isinstance(trouble, McqueueError))
            why = self._lacks(wanted, f"its folder cannot be opened: {trouble}")
            self._unusable[wanted.index_digest] = time.monotonic() + UNUSABLE_FOR_S, why
            raise NotNow(why) from None
        if found is None:
            raise NotNow(self._lacks(wanted, "restore that build, or cancel the run and enqueue it for the new one"))
        return found

    def _lacks(self, wanted: Retrieval, what: str) -> str:
        here = " and ".join(digest[:8] for digest in self._opened) or "no other build"
        return (
            f"the run was made for index {wanted.index} {wanted.index_digest[:8]} (its corpus, encoder and structure), "
            f"here is {here}: {what}"
        )
