"""From a path to documents: JSON Lines, CSV, Parquet, or a folder of .txt and .md files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from contract.errors import QuestionFileError, nearest
from producer.corpus.document import Document, to_document
from producer.readers.csv import Dialect, read_csv
from producer.readers.jsonl import read_jsonl
from producer.readers.parquet import read_parquet
from producer.readers.record import Record
from producer.readers.text import text_of

__all__ = ["read_documents"]


def _read_table(path: Path, shown: str) -> Iterator[Record]:
    """CSV, the columns named by its first row."""
    text = text_of(path, shown)
    try:
        names = next(filter(None, csv.reader(text.lines(), strict=True)), [])
    except csv.Error as trouble:
        hint = "Close every quote that is opened there."
        raise QuestionFileError(f"malformed CSV: header: {trouble}.", path=shown, line=1, hint=hint) from None
    yield from read_csv(text, Dialect(",", quoted=True, names=tuple(name.strip() for name in names), header=True))


_READERS: dict[str, Callable[[Path, str], Iterator[Record]]] = {
    ".csv": _read_table,
    ".jsonl": lambda path, shown: read_jsonl(text_of(path, shown)),
    ".parquet": read_parquet,
}
_TEXTS = (".txt", ".md")


def read_documents(corpus: Path) -> Iterator[Document]:
    """Documents of the corpus, in its order: a file's own, or a folder's files by their path, each a document.

    Raises QuestionFileError, with file, line, field and remedy, at the first that cannot be one: nothing wanted for
    a corpus is passed over in silence. Two documents of one id are told by whoever collects them.
    """
    try:
        yield from _files(corpus) if corpus.is_dir() else _records(corpus)
    except OSError as trouble:
        raise QuestionFileError(f"cannot be read: {trouble.strerror}.", path=trouble.filename or corpus) from None


def _records(corpus: Path) -> Iterator[Document]:
    if not corpus.exists():
        beside = [each.name for each in corpus.parent.glob("*")]
        raise QuestionFileError(
            "no such file or folder.", path=corpus, hint=nearest(corpus.name, beside) or "Check the path."
        )
    reader = _READERS.get(corpus.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise QuestionFileError(
            f"unknown suffix {corpus.suffix!r}, expected {known}, or a folder of {' and '.join(_TEXTS)} files.",
            path=corpus,
            hint="Rename or convert it.",
        )
    for record in reader(corpus, str(corpus)):
        yield to_document(record, str(corpus))


def _files(folder: Path) -> Iterator[Document]:
    """Every text below `folder`, called by its path there; files and folders whose name begins with a dot are not."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if path.suffix.lower() not in _TEXTS or hidden or not path.is_file():
            continue
        text = text_of(path, str(path)).whole().strip()
        if not text:
            raise QuestionFileError("the file is empty.", path=path, hint="Write its text, or take the file out.")
        name = inside.as_posix()
        yield Document(id=name, text=text, path=name, question_hash="", shown=str(path), line=None)
