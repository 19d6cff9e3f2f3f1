"""Refusing file types that cannot be read, naming the type and how to convert it."""

from __future__ import annotations

from collections.abc import Collection

from contract.errors import QuestionFileError

__all__ = ["refuse_foreign", "refuse_sheet"]

_CSV = "Save it as CSV (UTF-8), or as Parquet."
_UNPACK = "Unpack it; only gzip, zstandard and zip are read directly."
#: First bytes, what such a file is, and the remedy.
_STARTS = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is an old Excel file", _CSV),
    (b"BZh", "is compressed as bzip2", _UNPACK),
    (b"\xfd7zXZ\x00", "is compressed as xz", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "is compressed as 7z", _UNPACK),
    (b"version https://git-lfs.", "is a Git LFS pointer, not the file itself", "Download the file with git lfs pull."),
)
_PAGES = (b"<!doctype html", b"<html")
_TAR = slice(257, 262)
#: A file that only a spreadsheet's zip contains → the type of the spreadsheet.
_SHEETS = {"xl/workbook.xml": "an Excel file", "META-INF/manifest.xml": "an OpenDocument file"}


def refuse_foreign(head: bytes, shown: str) -> None:
    """Raise QuestionFileError if the first bytes are those of an unsupported file type."""
    found = [(what, hint) for start, what, hint in _STARTS if head.startswith(start)]
    if head[_TAR] == b"ustar":
        found = [("is a tar archive", "Unpack it and pass the folder.")]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:20].lower().startswith(_PAGES):
        found = [("is a web page", "Download the file itself, not the page about it; this may require a login.")]
    for what, hint in found:
        raise QuestionFileError(f"{what}.", path=shown, hint=hint)


def refuse_sheet(names: Collection[str], shown: str) -> None:
    """Raise QuestionFileError if the file names in a zip are those of a spreadsheet."""
    for name, what in _SHEETS.items():
        if name in names:
            raise QuestionFileError(f"is {what}.", path=shown, hint=_CSV)
