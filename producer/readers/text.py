"""Decoding text: UTF-8, UTF-16 and UTF-32, detected from byte order marks or zero bytes, or the user's encoding.

Nothing else is guessed: an invalid byte is reported with its offset.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from contract.errors import QuestionFileError
from producer.readers.record import FieldTrouble
from producer.readers.stream import HEAD_BYTES, open_bytes

__all__ = ["LONGEST_LINE_BYTES", "Text", "encoding_among", "encoding_of", "text_of"]

#: Longer lines are refused, as each line is held in memory.
LONGEST_LINE_BYTES = 64 * 1024 * 1024
#: With fewer bytes, UTF-16 is not guessed from zero bytes.
_LEAST_BYTES = 16
_CHUNK_BYTES = 256 * 1024
#: The order matters: the mark of UTF-32 starts with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def encoding_of(head: bytes) -> str:
    """Return the encoding that the first bytes of a file indicate; UTF-8 by default."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    # Questions in any script contain spaces, quotes and commas, which have a zero byte in UTF-16.
    sample = head[:4096]
    if len(sample) < _LEAST_BYTES:
        return "utf-8"
    if sample[1::2].count(0) > len(sample) // 16 and not sample[0::2].count(0):
        return "utf-16-le"
    if sample[0::2].count(0) > len(sample) // 16 and not sample[1::2].count(0):
        return "utf-16-be"
    return "utf-8"


def encoding_among(named: str, head: bytes, shown: str) -> str:
    """Return the encoding `named` by the user, or else the detected one, with the byte order if there may be two.

    Raises QuestionFileError if the file is UTF-8 instead: as UTF-16, nearly any bytes are some Chinese characters.
    """
    found = encoding_of(head)
    if not named.startswith(("utf-16", "utf-32")):
        return named or found
    if head and _is_utf_8(head) and found == "utf-8":
        message = f"the file is not {named.upper()}: it is UTF-8 up to byte {len(head):,}, without a zero byte."
        raise QuestionFileError(message, path=shown, line=1, hint="Leave --encoding out.")
    if named not in {"utf-16", "utf-32"}:
        return named
    return found if found.startswith(named) else f"{named}-le"


def _is_utf_8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be incomplete
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file, which is read again by every call."""

    open: Callable[[], BinaryIO]
    encoding: str
    #: Its name in messages.
    shown: str

    def lines(self) -> Iterator[str]:
        """Yield the lines with their line ends. Raises QuestionFileError at a byte that is invalid in the encoding."""
        for number, line in enumerate(self.lines_and_troubles(), start=1):
            if isinstance(line, FieldTrouble):
                raise line.at(self.shown, number)
            yield line

    def lines_and_troubles(self) -> Iterator[str | FieldTrouble]:
        """Yield the lines, with the error in place of a line with an invalid byte, and continue after it.

        In UTF-16 and UTF-32 it is not possible to continue, so QuestionFileError is raised.
        """
        with self.open() as file:
            yield from self._byte_lines(file) if self._one_byte_line_ends else self._decoded_lines(file)

    def whole(self) -> str:
        """Return the whole text. Raises the same errors as `lines`."""
        with self.open() as file:
            raw = file.read()
        try:
            return raw.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as trouble:
            raise self._wrong(raw, trouble.start, 0, 1 + raw.count(b"\n", 0, trouble.start)) from None

    def head(self) -> str:
        """Return up to HEAD_BYTES bytes as text, for detecting the format; invalid bytes are replaced."""
        with self.open() as file:
            return file.read(HEAD_BYTES).decode(self.encoding, errors="replace").removeprefix("\ufeff")

    @property
    def _one_byte_line_ends(self) -> bool:
        return not self.encoding.startswith(("utf-16", "utf-32"))

    def _byte_lines(self, file: BinaryIO) -> Iterator[str | FieldTrouble]:
        offset = 0
        for number, raw in enumerate(iter(partial(file.readline, LONGEST_LINE_BYTES), b""), start=1):
            if not raw.endswith(b"\n"):
                self._refuse_too_long(len(raw), number)
            start = len(codecs.BOM_UTF8) if number == 1 and raw.startswith(codecs.BOM_UTF8) else 0
            try:
                yield (raw[start:] if start else raw).decode(self.encoding)
            except UnicodeDecodeError as trouble:
                yield self._trouble(raw, start + trouble.start, offset)
            offset += len(raw)

    def _decoded_lines(self, file: BinaryIO) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self.encoding)()
        offset, line = 0, 1
        begun: list[str] = []  # joined once: a line may be as long as the file
        while True:
            chunk = file.read(_CHUNK_BYTES)
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as trouble:
                raise self._wrong(trouble.object, trouble.start, offset - pending, line) from None
            if not offset:
                text = text.removeprefix("\ufeff")
            offset += len(chunk)
            ends, *further = text.split("\n")
            begun.append(ends)
            self._refuse_too_long(sum(map(len, begun)), line)
            if further:
                *whole, rest = ["".join(begun), *further]
                begun = [rest]
                line += len(whole)
                yield from (f"{each}\n" for each in whole)
            if not chunk:
                break
        if rest := "".join(begun):
            yield rest

    def _refuse_too_long(self, length: int, line: int) -> None:
        """Raise QuestionFileError if a line has this length or more, in bytes or characters, and has not ended."""
        if length >= LONGEST_LINE_BYTES:
            message = f"the line is longer than {LONGEST_LINE_BYTES // 2**20} MiB."
            raise QuestionFileError(message, path=self.shown, line=line, hint="A JSON list must start with [.")

    def _wrong(self, raw: bytes, at: int, offset: int, line: int) -> QuestionFileError:
        return self._trouble(raw, at, offset).at(self.shown, line)

    def _trouble(self, raw: bytes, at: int, offset: int) -> FieldTrouble:
        message = f"byte 0x{raw[at]:02x} at offset {offset + at} is not {self.encoding.upper()}."
        hint = "Save the file as UTF-8, or give its encoding with --encoding."
        if self.encoding == "utf-8":
            around = raw[max(0, at - 12) : at + 12].decode("cp1252", errors="replace").strip()
            hint = f"If it should read {around!r}, add --encoding cp1252; otherwise save the file as UTF-8."
        return FieldTrouble("", message, hint, kind=f"bytes that are not {self.encoding.upper()}")


def text_of(path: Path, shown: str, encoding: str) -> Text:
    """Return the text of a file, compressed or not, in the given encoding or, if that is empty, the detected one."""
    open_again = partial(open_bytes, path, shown)
    with open_again() as file:
        return Text(open_again, encoding_among(encoding, file.read(HEAD_BYTES), shown), shown)
