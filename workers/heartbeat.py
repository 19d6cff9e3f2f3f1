"""The heartbeat: a thread that renews the worker's lease, and reads commands to it.

It is not the janitor's, because a long audit must not make the worker look dead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from contract.errors import NameTaken
from contract.fleet import Fleet, Wish, WorkerRecord, WorkerState
from contract.settings import Settings
from workers.rounds import Rounds

__all__ = ["Heartbeat"]

log = logging.getLogger(__name__)


class Heartbeat(Rounds):
    """Renews the worker's lease, and reads commands to it.

    `on_name_lost` is called if another worker took the name, `on_wish` once per wish, `on_beat` at each heartbeat.
    """

    def __init__(
        self,
        settings: Settings,
        record: Callable[[], WorkerRecord],
        on_name_lost: Callable[[], None],
        on_wish: Callable[[Wish], None],
        on_beat: Callable[[], None],
    ) -> None:
        super().__init__("heart")
        self._fleet = Fleet.connect(settings)
        self._record = record
        self._on_name_lost = on_name_lost
        self._on_wish = on_wish
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
            self._on_name_lost()
            return
        self._on_beat()
        wish = self._fleet.wish(record.name)
        too_early = wish is Wish.RESTART and record.state is WorkerState.BOOTING
        if wish is not None and wish is not self._granted and not too_early:
            self._granted = wish
            self._on_wish(wish)
