"""Purges the HTTP server's runs that no client waits for any more, and those that killed servers left behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from contract.errors import LedgerError, UnknownRun
from contract.ledger import Ledger
from contract.names import is_request

__all__ = ["ABANDONED_AFTER_S", "Purging"]

log = logging.getLogger(__name__)

#: Nobody waits longer for an answer, unless a request may have a later deadline.
ABANDONED_AFTER_S = 24 * 3600.0
#: Interval between searches for runs left behind by killed servers, in seconds.
SWEEP_EVERY_S = 3600.0
#: Pause before purging is tried again while Redis is unavailable, in seconds.
AGAIN_S = 0.5


class Purging:
    """Purges runs that were abandoned, which workers would otherwise score before others. Use it on one event loop."""

    def __init__(self, ledger: Ledger, max_deadline_s: float) -> None:
        self._ledger = ledger
        self._abandoned_after_s = max(ABANDONED_AFTER_S, max_deadline_s)
        #: Runs that no client waits for any more and that are still in the ledger.
        self._to_purge: set[str] = set()
        self._any_to_purge = asyncio.Event()

    def abandon(self, run_ids: Iterable[str]) -> None:
        """Have these runs purged, as no client waits for them any more."""
        self._to_purge.update(run_ids)
        self._any_to_purge.set()

    async def keep_purging(self) -> None:
        """Purge each run as soon as it is abandoned; retry while Redis is unavailable."""
        while True:
            await self._any_to_purge.wait()
            self._any_to_purge.clear()
            await self.purge()
            if self._to_purge:
                self._any_to_purge.set()
                await asyncio.sleep(AGAIN_S)

    async def purge(self) -> None:
        """Purge all abandoned runs, as far as Redis is available."""
        gone = await asyncio.to_thread(self._purge_each, tuple(self._to_purge))
        self._to_purge -= gone

    def _purge_each(self, run_ids: Iterable[str]) -> set[str]:
        """Purge the runs; return those that are no longer in the ledger."""
        gone: set[str] = set()
        for run_id in run_ids:
            try:
                self._ledger.purge(run_id)
            except UnknownRun:
                pass
            except LedgerError as trouble:
                log.warning("run %s is not purged yet: %s", run_id, trouble)
                break
            gone.add(run_id)
        return gone

    async def keep_sweeping(self) -> None:
        """Periodically have the runs of killed servers purged."""
        while True:
            try:
                self.abandon(await asyncio.to_thread(self._left_by_killed_servers))
            except LedgerError as trouble:
                log.warning("cannot look for runs left behind by killed servers: %s", trouble)
            await asyncio.sleep(SWEEP_EVERY_S)

    def _left_by_killed_servers(self) -> list[str]:
        oldest = time.time() - self._abandoned_after_s
        requests = [each for each in self._ledger.run_ids() if is_request(each)]
        return [run.run_id for run in self._ledger.runs(requests) if run.created_at < oldest]
