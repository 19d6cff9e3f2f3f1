"""Opening files as bytes: plain, gzip, zstandard or zip, detected from the first bytes, whatever their name."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO, cast

from contract.errors import QuestionFileError

__all__ = ["HEAD_BYTES", "compression_of", "explaining", "files_in_zip", "open_bytes"]

#: Number of bytes from which a file's format is detected.
HEAD_BYTES = 256 * 1024
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstandard",
    b"\x50\x2a\x4d\x18": "zstandard",  # as pzstd writes it: with the size of each frame in front of it
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}


def compression_of(path: Path) -> str:
    """Return `gzip`, `zstandard`, `zip`, or an empty string."""
    with path.open("rb") as file:
        return _compression_by(file.read(4))


def _compression_by(start: bytes) -> str:
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "")


def open_bytes(path: Path, shown: str, member: str = "") -> BinaryIO:
    """Open a file for reading decompressed bytes. `member` selects a file of a zip; without it, its only file is read.

    A file of a zip may itself be compressed with gzip or zstandard. Raises QuestionFileError for an empty zip; damaged
    data is reported while it is read (see `explaining`).
    """
    compression = compression_of(path)
    if compression == "zip":
        return _open_member(path, shown, member)
    return _decompressed(path, compression)


def _decompressed(file: Path | IO[bytes], compression: str) -> BinaryIO:
    """Return the decompressed bytes of a file. Closing them may leave `file` open if it was passed as an open file."""
    if compression == "gzip":
        return cast(BinaryIO, gzip.open(file, "rb"))
    if compression == "zstandard":
        # Arrow's decompressor detects a truncated stream, which would otherwise lose rows silently.
        import pyarrow

        packed = pyarrow.OSFile(os.fsencode(file)) if isinstance(file, Path) else pyarrow.PythonFile(file, "r")
        return cast(BinaryIO, io.BufferedReader(pyarrow.CompressedInputStream(packed, "zstd"), HEAD_BYTES))
    return cast(BinaryIO, file.open("rb") if isinstance(file, Path) else file)


def files_in_zip(path: Path) -> list[str]:
    """Return the names of the files in an archive, without the metadata files that macOS adds."""
    names = _archive(path).namelist()
    return [each for each in names if not each.endswith("/") and not each.startswith("__MACOSX/")]


def _archive(path: Path) -> zipfile.ZipFile:
    """Return the archive, which stays open, and is opened anew if it has changed.

    Opening it reads its whole table of contents: done for each of 5,000 files, that would take minutes.
    """
    now = path.stat()
    return _opened(path, now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=1)
def _opened(path: Path, *_version: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def _open_member(path: Path, shown: str, member: str) -> BinaryIO:
    name = member or next(iter(files_in_zip(path)), "")
    if not name:
        raise QuestionFileError("the zip is empty.", path=shown, hint="Pack the question file into it.")
    packed = _archive(path).open(name)
    start = cast(zipfile.ZipExtFile, packed).peek(4)
    return cast(BinaryIO, _Member(packed, _decompressed(packed, _compression_by(start))))


class _Member(io.BufferedReader):
    """A file in an archive.

    `packed` is the file as the archive has it, `file` the same or what it decompresses to.
    """

    def __init__(self, packed: IO[bytes], file: IO[bytes]) -> None:
        super().__init__(cast("io.RawIOBase", file), HEAD_BYTES)
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


@contextmanager
def explaining(shown: str) -> Iterator[None]:
    """Convert the errors that reading a file can raise into QuestionFileError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as trouble:
        raise _damaged(shown, trouble) from None
    except RecursionError:
        hint = "Flatten them, or remove them."
        raise QuestionFileError("contains values that are nested too deeply.", path=shown, hint=hint) from None
    except (NotImplementedError, RuntimeError) as trouble:
        # Raised by zipfile for encrypted files and unknown compression methods.
        raise QuestionFileError(f"cannot be unpacked: {trouble}.", path=shown, hint="Unpack it by hand.") from None
    except OSError as trouble:
        if trouble.errno is None:
            # Not from the operating system: Arrow raises it for data that it cannot decompress.
            raise _damaged(shown, trouble) from None
        hint = "Check the path and its permissions."
        raise QuestionFileError(f"cannot be read: {trouble.strerror}.", path=shown, hint=hint) from None


def _damaged(shown: str, trouble: Exception) -> QuestionFileError:
    message = f"the compressed data is damaged or truncated: {trouble}."
    return QuestionFileError(message, path=shown, hint="Download or compress the file again.")
