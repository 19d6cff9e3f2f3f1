"""Reading the documents of a corpus: JSON Lines, JSON, CSV or TSV, also compressed, Parquet, or texts."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from contract.errors import QuestionFileError, nearest
from producer.corpus.document import TEXT_FIELDS, Document, parts_of, to_document
from producer.readers.csv import read_csv
from producer.readers.csv_dialect import Dialect, dialect_of, lines_of, reader_of
from producer.readers.json import read_entries
from producer.readers.jsonl import read_jsonl
from producer.readers.parquet import read_parquet
from producer.readers.record import Record
from producer.readers.stream import explaining
from producer.readers.text import Text, text_of

__all__ = ["Corpus", "Unfit", "is_of_texts"]

_RECORDS = (".csv", ".tsv", ".json", ".jsonl")
_TEXTS = (".txt", ".md")
#: Suffixes of compressed texts; the actual compression is detected from the first bytes.
_PACKED = (".gz", ".zst")


def is_of_texts(path: Path) -> bool:
    """Whether the corpus is a text or a folder of such, whose documents have no fields."""
    return path.is_dir() or path.suffix.lower() in _TEXTS


class Unfit(NamedTuple):
    """An entry of the corpus that is not a valid document, and its error."""

    raw: Any
    trouble: QuestionFileError


@dataclass(slots=True)
class Corpus:
    """The documents of a file or a folder. Which files and fields were not used is known once all have been read."""

    path: Path
    #: The encoding of the texts; empty to detect it.
    encoding: str = ""
    #: Part of a document → its fields, if they have other names.
    mapping: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Suffix → number of the folder's files that are no texts.
    other_files: Counter[str] = field(default_factory=Counter, init=False)
    #: Names of the records' fields, in order of appearance.
    _fields: dict[str, None] = field(default_factory=dict, init=False)
    #: Whether the records are in an object, by keys that are their ids.
    _by_key: bool = field(default=False, init=False)

    @property
    def lacks_ids(self) -> bool:
        """Whether the records have no ids, so that documents are called by hashes of their texts."""
        named = parts_of(self.mapping, self._fields)["id"]
        return bool(self._fields) and not self._by_key and self._fields.keys().isdisjoint(named)

    def left_alone(self) -> list[str]:
        """Return the fields that were not used for any part of a document."""
        used = {name for names in parts_of(self.mapping, self._fields).values() for name in names}
        return [name for name in self._fields if name not in used]

    def documents(self) -> Iterator[Document | Unfit]:
        """Yield the documents in order: the records of a file, a text itself, or the texts of a folder by their path.

        No entry is skipped silently: one that is not a valid document is yielded as `Unfit`, with file, line, field and
        remedy. Raises QuestionFileError if the entries cannot be separated. The caller must check ids for duplicates.
        """
        try:
            if self.path.is_dir():
                yield from self._files()
            elif self.path.is_file() and is_of_texts(self.path):
                yield self._text(self.path, self.path.name)
            else:
                yield from self._records()
        except OSError as trouble:
            hint = "Check the path and its permissions."
            path = trouble.filename or self.path
            raise QuestionFileError(f"cannot be read: {trouble.strerror}.", path=path, hint=hint) from None

    def _records(self) -> Iterator[Document | Unfit]:
        shown = str(self.path)
        with explaining(shown):
            for record in self._entries():
                try:
                    yield to_document(record, shown, self.mapping)
                except QuestionFileError as trouble:
                    yield Unfit(record.raw, trouble)
                self._fields.update(dict.fromkeys(map(str, record.fields or ())))
                self._by_key = record.key is not None
        self._refuse_unknown_fields()

    def _refuse_unknown_fields(self) -> None:
        """Raise QuestionFileError if a mapped field is in no record: one may lack it, but in all it is a mistake."""
        unknown = [name for names in self.mapping.values() for name in names if name not in self._fields]
        if unknown and self._fields:
            there = list(self._fields)
            message = f"no document has such a field; found {', '.join(there)}."
            hint = nearest(unknown[0], there) or "Correct --map."
            raise QuestionFileError(message, path=self.path, field=unknown[0], hint=hint)

    def _entries(self) -> Iterator[Record]:
        """Read the file as its suffix says."""
        path = self.path
        if not path.exists():
            beside = [each.name for each in path.parent.glob("*")]
            hint = nearest(path.name, beside) or "Check the path."
            raise QuestionFileError("no such file or folder.", path=path, hint=hint)
        suffixes = [each.lower() for each in path.suffixes]
        packed = bool(suffixes) and suffixes[-1] in _PACKED
        suffix = next(iter(suffixes[-2:-1] if packed else suffixes[-1:]), "")
        if suffix == ".parquet" and not packed:
            return read_parquet(path, str(path))
        if suffix in _RECORDS:
            read = {".json": _read_json, ".jsonl": read_jsonl}.get(suffix, self._table)
            return read(text_of(path, str(path), self.encoding))
        found = "".join(path.suffixes[-2:]) if packed else path.suffix
        raise QuestionFileError(
            f"unknown suffix {found!r}, expected {', '.join(_RECORDS)} "
            f"(also with {' or '.join(_PACKED)}), .parquet, {', '.join(_TEXTS)}, or a folder of such texts.",
            path=path,
            hint="Rename or convert it.",
        )

    def _table(self, text: Text) -> Iterator[Record]:
        """Yield the records of a table with commas, tabs, semicolons or bars, whose first row names the columns."""
        wanted = {*self.mapping.get("text", TEXT_FIELDS)}
        dialect = dialect_of(text, lambda names: not wanted.isdisjoint(name.strip() for name in names), named=True)
        yield from read_csv(text, dialect or Dialect(",", quoted=True, names=_header(text), header=True))

    def _files(self) -> Iterator[Document | Unfit]:
        """Yield every text below the folder, with its relative path as id; hidden files and folders are skipped.

        Other files are counted. Raises QuestionFileError if there are only such, OSError if a folder cannot be listed.
        """
        texts = 0
        for path in _below(self.path):
            name, suffix = path.relative_to(self.path).as_posix(), path.suffix.lower()
            if not path.is_dir() and suffix not in _TEXTS:
                self.other_files[suffix] += 1
                continue
            texts += 1
            yield self._text(path, name)
        if not texts and self.other_files:
            others = (f"{count:,} {suffix or 'without a suffix'}" for suffix, count in self.other_files.most_common())
            raise QuestionFileError(
                f"has no {' or '.join(_TEXTS)} files, but {', '.join(others)}.",
                path=self.path,
                hint="Name a file of records itself, not its folder.",
            )

    def _text(self, path: Path, name: str) -> Document | Unfit:
        try:
            return _document(path, name, self.encoding)
        except QuestionFileError as trouble:
            return Unfit(name, trouble)


def _read_json(text: Text) -> Iterator[Record]:
    """Yield the documents of a list, or of an object by id; a mere text is a document without other fields.

    One that is called `text` or `contents` is none: the object is then a single document, not several by id.
    """
    for record in read_entries(text):
        said = record.raw if record.key is None else record.raw[record.key]
        alone = isinstance(said, str) and record.key not in TEXT_FIELDS
        yield record._replace(fields={TEXT_FIELDS[0]: said}) if alone else record


def _header(text: Text) -> tuple[str, ...]:
    """Return the column names of a table whose delimiter cannot be detected: it has one column, or is malformed."""
    try:
        names = next(filter(None, reader_of(lines_of(text), Dialect(",", quoted=True))), [])
    except csv.Error as trouble:
        hint = "Close every quote that is opened in it."
        raise QuestionFileError(f"malformed CSV: header: {trouble}.", path=text.shown, line=1, hint=hint) from None
    return tuple(name.strip() for name in names)


def _below(folder: Path) -> list[Path]:
    """Return what is not hidden below `folder`, in order: files, and links that lead to folders or nowhere."""

    def fail(trouble: OSError) -> None:
        raise trouble

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [path for path in (Path(place, name) for name in folders) if path.is_symlink()]
        there = [Path(place, name) for name in files if not name.startswith(".")]
        found += [path for path in there if path.is_file() or path.is_symlink()]  # a pipe would never end
    return sorted(found)


def _document(path: Path, name: str, encoding: str) -> Document:
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise QuestionFileError("the file's name is not UTF-8.", path=shown, hint="Rename the file.") from None
    if path.is_dir():
        hint = "Put the folder itself there, or remove the link."
        raise QuestionFileError("is a link to a folder, and these are not followed.", path=path, hint=hint)
    if not path.is_file():
        raise QuestionFileError("is a link that leads to no file.", path=path, hint="Correct or remove the link.")
    with explaining(str(path)):
        text = text_of(path, str(path), encoding).whole().strip()
    if not text:
        raise QuestionFileError("the file is empty.", path=path, hint="Add text, or remove the file.")
    return Document(id=name, text=text, path=name, question_hash="", shown=str(path), line=None)
