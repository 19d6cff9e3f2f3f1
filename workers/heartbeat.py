"""The heartbeat: a thread that renews the worker's lease, and reads commands to it.

It is not the janitor's, because a long audit must not make the worker look dead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from contract.errors import EXIT_RETRY, NameTaken
from contract.fleet import Fleet, Wish, WorkerRecord, WorkerState
from contract.settings import Settings
from workers.rounds import Rounds
from workers.shutdown import grant, stop

__all__ = ["Heartbeat"]

log = logging.getLogger(__name__)


class Heartbeat(Rounds):
    """Renews the worker's lease, and reads commands to it.

    It stops the worker if another one took the name, grants each wish once, and calls `on_beat` at each heartbeat.
    """

    def __init__(self, settings: Settings, record: Callable[[], WorkerRecord], on_beat: Callable[[], None]) -> None:
        super().__init__("heart")
        self._fleet = Fleet.connect(settings)
        self._record = record
        self._on_beat = on_beat
        self._granted: Wish | None = None

    def round(self) -> None:
        """Send a heartbeat and check for a wish."""
        record = self._record()
        try:
            self._fleet.beat(record)
        except NameTaken as trouble:
            log.critical("%s This worker stops.", trouble)
            self._stopped.set()
            stop(EXIT_RETRY)
            return
        self._on_beat()
        wish = self._fleet.wish(record.name)
        too_early = wish is Wish.RESTART and record.state is WorkerState.BOOTING
        if wish is not None and wish is not self._granted and not too_early:
            self._granted = wish
            grant(wish)
