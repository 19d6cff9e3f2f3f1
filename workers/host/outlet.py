"""Output that never blocks: a terminal that nobody reads (Ctrl-S, a connection that died) blocks whoever writes."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from queue import Full, Queue
from typing import TextIO

__all__ = ["Outlet"]

#: How many texts may wait until the terminal takes them; further ones are dropped.
MOST_WAITING = 1000
#: How long `close` waits until the last ones are taken.
LAST_WORDS_S = 1.0


class Outlet:
    """The part of a text stream that rich needs. A thread passes what is written on to `stream`'s terminal or file.

    The thread has its own descriptor of that. If the launcher makes the stream lead to a file, as the terminal is gone,
    texts that wait for the terminal are lost, and later ones are written to the file directly.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = os.dup(stream.fileno())
        self._texts: Queue[str | None] = Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._pass_on, name="outlet", daemon=True)
        self._thread.start()

    @property
    def encoding(self) -> str:
        """The stream's encoding."""
        return self._stream.encoding

    @property
    def behind(self) -> bool:
        """Whether texts wait until earlier ones are taken."""
        return not self._texts.empty()

    def isatty(self) -> bool:
        """Whether the stream leads to a terminal now."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Have `text` written as soon as those before it are."""
        if not os.path.sameopenfile(self._descriptor, self._stream.fileno()):
            return self._stream.write(text)
        with suppress(Full):
            self._texts.put_nowait(text)
        return len(text)

    def flush(self) -> None:
        """Write what goes to the stream directly; nobody waits for the rest."""
        self._stream.flush()

    def close(self) -> None:
        """Give what was written a moment to be taken."""
        with suppress(Full):
            self._texts.put(None, timeout=LAST_WORDS_S)
            self._thread.join(LAST_WORDS_S)

    def _pass_on(self) -> None:
        while (text := self._texts.get()) is not None:
            rest = text.encode(self.encoding, errors="backslashreplace")
            with suppress(OSError):  # a full disk, a terminal that is gone: the workers matter more than the words
                while rest:
                    select.select([], [self._descriptor], [])  # another program may have made the terminal non-blocking
                    rest = rest[os.write(self._descriptor, rest) :]
        os.close(self._descriptor)
