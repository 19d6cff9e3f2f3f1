"""The files of an index and their hashes: what a manifest vouches for."""

from __future__ import annotations

import hashlib
import os
import weakref
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

from contract.errors import IndexUnusable
from contract.index import MANIFEST, PLAN, REJECTED
from workers.packaged_weights import sha256_of

__all__ = ["BM25_FOLDER", "DENSE_FILE", "HeldFiles", "digests"]

BM25_FOLDER = "bm25"
DENSE_FILE = "dense.faiss"
_REMEDY = "Copy the whole index folder again, or build it again with python -m producer index."


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in `folder` by its path there, what is no part of the index left out."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    names = [each.relative_to(folder).as_posix() for each in files]
    return {name: sha256_of(folder / name) for name in names if name not in {MANIFEST, PLAN, REJECTED}}


class HeldFiles:
    """The files of an index that is open, checked once and held, so that it is noticed when one is written over.

    What is held may be renamed or deleted: its content stays as it was, also in memory. What is copied into the very
    same file does not, and is searched from then on by whoever has it mapped.
    """

    def __init__(self, folder: Path, expected: dict[str, str]) -> None:
        """Raise IndexUnusable where a file of `expected` is missing or another one; more files do no harm."""
        self._folder = folder
        with ExitStack() as stack:
            self._files = {name: stack.enter_context(_opened(folder / name)) for name in expected}
            self._states = [_state(os.fstat(each.fileno())) for each in self._files.values()]
            for name, digest in expected.items():
                found = hashlib.file_digest(self._files[name], "sha256").hexdigest()
                if found != digest:
                    what = f"is damaged, or belongs to another index (SHA-256 {found[:12]}…, expected {digest[:12]}…)"
                    raise IndexUnusable(what, path=folder / name, hint=_REMEDY)
            weakref.finalize(self, stack.pop_all().close)

    def changed(self) -> bool:
        """Whether one was written over since it was opened."""
        return [_state(os.fstat(each.fileno())) for each in self._files.values()] != self._states

    def require_in_place(self) -> None:
        """Raise IndexUnusable unless the folder still holds these very files, unchanged: whoever has mapped them has
        what was checked."""
        try:
            there = [(self._folder / name).stat() for name in self._files]
            held = [os.fstat(each.fileno()) for each in self._files.values()]
            same = all(map(os.path.samestat, there, held)) and not self.changed()
        except OSError:
            same = False
        if not same:
            raise IndexUnusable("was changed while it was opened", path=self._folder, hint=_REMEDY)


def _opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise IndexUnusable("is missing", path=path, hint=_REMEDY) from None
    except OSError as trouble:
        raise IndexUnusable(f"cannot be read: {trouble.strerror}", path=path, hint="Check its rights.") from None


def _state(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
