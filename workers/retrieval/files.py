"""The files of an index and their hashes: what a manifest vouches for."""

from __future__ import annotations

from pathlib import Path

from contract.errors import IndexUnusable
from contract.index import MANIFEST, PLAN, REJECTED
from workers.packages import sha256_of

__all__ = ["BM25_FOLDER", "DENSE_FILE", "check_files", "digests"]

BM25_FOLDER = "bm25"
DENSE_FILE = "dense.faiss"
_REMEDY = "Copy the whole index folder again, or build it again with python -m producer index."


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in `folder` by its path there, what is no part of the index left out."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    names = [each.relative_to(folder).as_posix() for each in files]
    return {name: sha256_of(folder / name) for name in names if name not in {MANIFEST, PLAN, REJECTED}}


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """Raise IndexUnusable where a file of `expected` is missing or another one; more files do no harm."""
    for name, digest in expected.items():
        path = folder / name
        try:
            found = sha256_of(path)
        except FileNotFoundError:
            raise IndexUnusable("is missing", path=path, hint=_REMEDY) from None
        except OSError as trouble:
            raise IndexUnusable(f"cannot be read: {trouble.strerror}", path=path, hint="Check its rights.") from None
        if found != digest:
            message = f"is damaged, or belongs to another index (SHA-256 {found[:12]}…, expected {digest[:12]}…)"
            raise IndexUnusable(message, path=path, hint=_REMEDY)
