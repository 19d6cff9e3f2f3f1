"""The builds of one index that are open: it may be built anew in its place while runs still want the old one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from contract.errors import HubUnreachable
from contract.index import Manifest
from contract.spec import Retrieval
from workers.retrieval.base import Retriever
from workers.retrieval.rerank import Rerankers
from workers.stages.work import NotNow

__all__ = ["OpenBuilds", "Reopen"]

log = logging.getLogger(__name__)

#: Builds of an index that are open at once: the newest, and the one whose runs go on. Each may hold an encoder.
MOST_OPEN = 2
#: Seconds for which a build that cannot be opened is not tried again: each time its files are hashed.
UNUSABLE_FOR_S = 10.0
#: Given a digest: the index of that digest, if it lies here.
Reopen = Callable[[str], Retriever | None]


class OpenBuilds:
    """The open builds of one index, by digest; one that was replaced on the disk is searched on. Thread-safe."""

    def __init__(self, retriever: Retriever, manifest: Manifest, reopen: Reopen) -> None:
        """`retriever` has opened the build of `manifest`; `reopen` opens others."""
        self._name = manifest.plan.name
        #: The newest last.
        self._opened = {manifest.digest: Rerankers(retriever)}
        self._reopen = reopen
        self._lock = threading.Lock()
        #: By digest: until when, by the monotonic clock, one that could not be opened is not tried again, and why.
        self._unusable: dict[str, tuple[float, str]] = {}

    def of(self, wanted: Retrieval) -> Retriever:
        """What searches as `wanted` says.

        Raises NotNow where another worker may have it, or this one later, InputError where nobody will.
        """
        with self._lock:
            opened = self._opened.get(wanted.index_digest)
            if opened is not None and opened.retriever.changed():
                self._drop(wanted)
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

    def close(self, wanted: Retrieval) -> None:
        """Let go of the build that `wanted` names: its files are no longer what they were."""
        with self._lock:
            self._drop(wanted)

    def _anew(self, wanted: Retrieval) -> Retriever:
        """The build that the run was made for, opened now."""
        until, why = self._unusable.get(wanted.index_digest, (0.0, ""))
        if time.monotonic() < until:
            raise NotNow(why)
        try:
            found = self._reopen(wanted.index_digest)
        except Exception as trouble:  # noqa: BLE001 - whatever lies there now, only this run waits
            why = self._lacks(wanted, f"its folder cannot be opened: {trouble}")
            self._unusable[wanted.index_digest] = time.monotonic() + UNUSABLE_FOR_S, why
            raise NotNow(why) from None
        if found is None:
            raise NotNow(self._lacks(wanted, "bring that build back, or cancel the run and ask the new one"))
        return found

    def _drop(self, wanted: Retrieval) -> None:
        self._opened.pop(wanted.index_digest, None)
        log.error("index %s was written over while it was open: closed", self._name)

    def _lacks(self, wanted: Retrieval, what: str) -> str:
        here = " and ".join(digest[:8] for digest in self._opened) or "nothing else open"
        return (
            f"the run was made for index {wanted.index} {wanted.index_digest[:8]} (its corpus, encoder and structure), "
            f"here is {here}: {what}"
        )
