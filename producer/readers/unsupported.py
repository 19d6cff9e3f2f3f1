"""Files that hold no questions as they are: each is named, with what makes one that can be read of it."""

from __future__ import annotations

from collections.abc import Collection

from contract.errors import QuestionFileError

__all__ = ["refuse_foreign", "refuse_sheet"]

_CSV = "Save it as CSV (UTF-8), or as Parquet."
_UNPACK = "Unpack it; gzip, zstandard and zip are read packed."
#: First bytes → what such a file is, and the remedy.
_STARTS = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel file", _CSV),
    (b"BZh", "is packed as bzip2", _UNPACK),
    (b"\xfd7zXZ\x00", "is packed as xz", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "is packed as 7z", _UNPACK),
    (b"version https://git-lfs.", "is a pointer of Git LFS, not the file itself", "Fetch it: git lfs pull."),
)
_PAGES = (b"<!doctype html", b"<html")
_TAR = slice(257, 262)
#: A file of an archive that only a table has → what wrote it.
_SHEETS = {"xl/workbook.xml": "an Excel file", "META-INF/manifest.xml": "an OpenDocument file"}


def refuse_foreign(head: bytes, shown: str) -> None:
    """Raise QuestionFileError where a file's first bytes are those of something else."""
    found = [(what, hint) for start, what, hint in _STARTS if head.startswith(start)]
    if head[_TAR] == b"ustar":
        found = [("is a tar archive", "Unpack it and name its folder.")]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:20].lower().startswith(_PAGES):
        found = [("is a web page", "Fetch the file itself, not the page about it; it may need a login.")]
    for what, hint in found:
        raise QuestionFileError(f"{what}.", path=shown, hint=hint)


def refuse_sheet(names: Collection[str], shown: str) -> None:
    """Raise QuestionFileError where the files of a zip are those of a spreadsheet."""
    for name, what in _SHEETS.items():
        if name in names:
            raise QuestionFileError(f"is {what}.", path=shown, hint=_CSV)
