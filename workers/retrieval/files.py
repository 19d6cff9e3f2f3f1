"""The files of an index, and verification of their hashes against the manifest."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path

from contract.errors import IndexUnusable, InputError, first_line
from contract.index import MANIFEST, PLAN, REJECTED
from workers.packaged_weights import sha256_of

__all__ = ["BM25_FOLDER", "DENSE_FILE", "HeldFiles", "digests", "writing"]

BM25_FOLDER = "bm25"
DENSE_FILE = "dense.faiss"
_REMEDY = "Copy the whole index folder again, or build it again with python -m producer index."


def digests(folder: Path) -> dict[str, str]:
    """Return path → SHA-256 of every file in `folder` that is part of the index."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    names = [each.relative_to(folder).as_posix() for each in files]
    return {name: sha256_of(folder / name) for name in names if name not in {MANIFEST, PLAN, REJECTED}}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write `path`, as on a full disk, into an InputError with a remedy."""
    try:
        yield
    except OSError as trouble:
        reason = trouble.strerror or first_line(trouble)
    except RuntimeError as trouble:  # FAISS's, which ends with the system's reason, in brackets or behind a colon
        line = first_line(trouble).rstrip(".")
        reason = line.rpartition("(")[2].rstrip(")") if line.endswith(")") else line.rpartition(": ")[2]
    else:
        return
    raise InputError(f"{path}: cannot be written: {reason}.", hint="Check the disk space and permissions there.")


class HeldFiles:
    """The files of an open index, verified once and kept open in order to notice when one is overwritten.

    Open files may be renamed or deleted: their content stays, also where it is memory-mapped. But data copied into the
    same file replaces the content, and whoever has it mapped searches the new data from then on.
    """

    def __init__(self, folder: Path, expected: dict[str, str]) -> None:
        """Open the files. Raises IndexUnusable if one in `expected` is missing or differs; extra files are ignored."""
        self._folder = folder
        with ExitStack() as stack:
            self._files = {name: stack.enter_context(_opened(folder / name)) for name in expected}
            self._states = [_state(os.fstat(each.fileno())) for each in self._files.values()]
            for name, digest in expected.items():
                with _reading(folder / name):
                    found = hashlib.file_digest(self._files[name], "sha256").hexdigest()
                if found != digest:
                    what = f"is damaged or belongs to another index (SHA-256 {found[:12]}…, expected {digest[:12]}…)"
                    raise IndexUnusable(what, path=folder / name, hint=_REMEDY)
            weakref.finalize(self, stack.pop_all().close)

    def changed(self) -> bool:
        """Whether a file was overwritten since it was opened."""
        return [_state(os.fstat(each.fileno())) for each in self._files.values()] != self._states

    def require_in_place(self) -> None:
        """Raise IndexUnusable unless the folder still has exactly these files, unchanged, so that files mapped in the
        meantime are those that were verified."""
        try:
            there = [(self._folder / name).stat() for name in self._files]
            held = [os.fstat(each.fileno()) for each in self._files.values()]
            same = all(map(os.path.samestat, there, held)) and not self.changed()
        except OSError:
            same = False
        if not same:
            raise IndexUnusable("was changed while being opened", path=self._folder, hint=_REMEDY)


def _opened(path: Path) -> BufferedReader:
    with _reading(path):
        return path.open("rb")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise IndexUnusable("is missing", path=path, hint=_REMEDY) from None
    except OSError as trouble:
        hint = "Check its permissions and its disk."
        raise IndexUnusable(f"cannot be read: {trouble.strerror}", path=path, hint=hint) from None


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
