"""A question file, understood: which format, encoding and layout it has, and how its answers are meant.

All of that is told by the content; a file's name counts only where the content says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

from contract.errors import QuestionFileError, nearest
from producer.readers.answers import Given, Way, settle
from producer.readers.csv import Dialect, dialect_of, read_csv
from producer.readers.fields import parts_of, to_row
from producer.readers.hub import is_dataset, read_dataset
from producer.readers.json import IsQuestion, read_json
from producer.readers.jsonl import DECODER, read_jsonl
from producer.readers.layouts import OWN, Layout, choose, is_question, layout_called
from producer.readers.mapping import is_mapped, mapped
from producer.readers.names import is_table_header
from producer.readers.parquet import MAGIC, read_parquet
from producer.readers.record import FieldTrouble, Record, Row
from producer.readers.source import Source
from producer.readers.stream import HEAD_BYTES, compression_of, explaining, open_bytes
from producer.readers.text import Text, encoding_of, text_of

__all__ = ["QuestionFile", "understand"]

#: Records by which layout and answers are understood.
HEAD_RECORDS = 1000
_TAR = slice(257, 262)


@dataclass(frozen=True, slots=True)
class _Format:
    """What the bytes are."""

    title: str
    records: Callable[[], Iterator[Record]]


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A file that is understood; its rows can be read as often as they are wanted."""

    source: Source
    #: `JSONL`, `TSV without header`, …
    format: str
    encoding: str
    compression: str
    layout: Layout
    way: Way
    records: Callable[[], Iterator[Record]]

    def rows(self) -> Iterator[Row]:
        """Rows of the file, good and bad, in its order, read as they are asked for.

        Raises QuestionFileError where no row can be told from the next.
        """
        with explaining(self.source.shown):
            for record in self.records():
                yield to_row(record, self.layout, self.way, self.source.shown)

    @property
    def title(self) -> str:
        """`ARC-style JSONL`, and what else is not the usual: the encoding, the compression."""
        more = [each for each in (self.encoding.upper().replace("UTF-8", ""), self.compression) if each]
        return f"{self.layout.title} {self.format}" + (f" ({', '.join(more)})" if more else "")


def understand(source: Source) -> QuestionFile:
    """Look at the beginning of the file, and say what it is.

    Raises QuestionFileError for what is no question file, InputError for a layout that is none.
    """
    _refuse_what_is_no_file(source)
    with explaining(source.shown):
        if source.hub_name or source.path.is_dir():
            found, encoding, compression = _Format("Hugging Face dataset", partial(read_dataset, source)), "", ""
        else:
            compression = compression_of(source.path)
            found, encoding = _format(source)
        records = _with_answers(found.records, source)
        head = _head(records)
        layout = _layout(source, head)
        return QuestionFile(source, found.title, encoding, compression, layout, _way(head, layout), records)


def _refuse_what_is_no_file(source: Source) -> None:
    path = source.path
    if source.hub_name:
        return
    if not path.exists():
        beside = [each.name for each in path.parent.glob("*")]
        hint = nearest(path.name, beside) or "Check the path; a dataset of the hub is written hf:owner/name."
        raise QuestionFileError("no such file.", path=source.shown, hint=hint)
    if path.is_dir() and not is_dataset(path):
        inside = sorted(each.name for each in path.iterdir() if each.suffix in {".json", ".jsonl", ".csv", ".tsv"})
        hint = f"Name one file, for example {inside[0]}." if inside else "Name a file."
        raise QuestionFileError("is a folder, expected a question file.", path=source.shown, hint=hint)


def _format(source: Source) -> tuple[_Format, str]:
    """Format and encoding of a file's content."""
    open_again = partial(open_bytes, source.path, source.shown, source.how.subset)
    with open_again() as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(MAGIC):
        return _Format("Parquet", partial(read_parquet, source.path, source.shown)), ""
    if head[_TAR] == b"ustar":
        raise QuestionFileError("is a tar archive.", path=source.shown, hint="Unpack it and name one file of it.")
    text = Text(open_again, source.how.encoding or encoding_of(head), source.shown)
    return _text_format(text, source), text.encoding


def _text_format(text: Text, source: Source) -> _Format:
    start = text.head(HEAD_BYTES).lstrip()
    name = source.path.name.lower()
    if _opens_json(start) or (not start and not name.endswith((".csv", ".tsv"))):
        looks_right = is_mapped(source.how.mapping) if source.how.mapping else is_question
        if not start or _is_lines(text, name, looks_right):
            return _Format("JSONL", partial(read_jsonl, text))
        return _Format("JSON", partial(read_json, text, looks_right, source.how.subset))
    dialect = _dialect(text, source)
    if dialect is not None:
        return _Format(dialect.title, partial(read_csv, text, dialect))
    if ".json" in name:
        reader = read_jsonl if ".jsonl" in name else partial(read_json, is_question=is_question)
        return _Format("JSON", partial(reader, text))
    if not start:
        return _Format("CSV", partial(read_jsonl, text))
    message = f"is neither JSON, nor JSON Lines, nor a table, nor Parquet: it starts with {start[:20]!r}."
    raise QuestionFileError(message, path=source.shown, hint="Convert it to one of these.")


def _opens_json(start: str) -> bool:
    """Whether this is an object or a list. A table may begin with a bracket too: "[header] How to …"."""
    if start.startswith("{"):
        return True
    inside = start[1:].lstrip()[:1]
    return start.startswith("[") and (not inside or inside in '[{]"-' or inside.isdigit())


def _is_lines(text: Text, name: str, looks_right: IsQuestion) -> bool:
    """Whether every line is an object of its own, rather than a part of one."""
    lines = (line.strip() for line in _until_trouble(text) if line.strip())
    first, second = next(lines, ""), next(lines, "")
    try:
        whole = DECODER.decode(first)
    except (ValueError, RecursionError):
        return first.startswith("{") and (second.startswith("{") or (not second and ".jsonl" in name))
    return isinstance(whole, dict) and (bool(second) or looks_right(whole))


def _until_trouble(text: Text) -> Iterator[str]:
    for line in text.lines_and_troubles():
        yield "{" if isinstance(line, FieldTrouble) else line


def _dialect(text: Text, source: Source) -> Dialect | None:
    mapping = source.how.mapping
    numbered = bool(mapping) and all(
        each.isdigit() for part, value in mapping.items() if part != "base" for each in value.split("+") if each
    )
    found = dialect_of(text, is_table_header, named=bool(mapping), numbered=numbered)
    if found is None:
        return None
    if found.header and not mapping and not is_table_header(found.names):
        shown = ", ".join(found.names[:12])
        if len(shown) > 400 or source.path.suffix.lower() in {".json", ".jsonl"}:
            return None
        raise QuestionFileError(
            f"header: no question and choices among the columns {shown}.",
            path=source.shown,
            line=1,
            hint="Expected question, answer, and choice_a, choice_b, … (or A, B, …, or one column choices);"
            " --map question=NAME,choices=NAME says where they are.",
        )
    return found


def _head(records: Callable[[], Iterator[Record]]) -> list[Record]:
    """The first records; fewer where the file cannot be read on, which shows again when its rows are read."""
    head: list[Record] = []
    with suppress(QuestionFileError):
        head.extend(islice(records(), HEAD_RECORDS))
    return head


def _layout(source: Source, head: list[Record]) -> Layout:
    if source.how.mapping:
        return mapped(source.how.mapping)
    if source.how.layout:
        return layout_called(source.how.layout)
    # Messages about records of no known layout speak of our own.
    return choose([record.fields for record in head if record.fields]) or OWN


def _way(head: list[Record], layout: Layout) -> Way:
    """How the answers of these records are meant."""
    if layout is OWN:
        return Way.ANY
    given = []
    for record in head:
        with suppress(FieldTrouble):
            parts = parts_of(record, layout)
            given.append(Given(parts.answer, parts.choices, parts.labels))
    return settle(given, layout.ways)


def _with_answers(records: Callable[[], Iterator[Record]], source: Source) -> Callable[[], Iterator[Record]]:
    """The records, each with its line of the file of answers, where there is one."""
    path = source.how.answers
    return partial(_paired, records, path, source.shown) if path else records


def _paired(records: Callable[[], Iterator[Record]], path: Path, shown: str) -> Iterator[Record]:
    lines = (line.strip() for line in text_of(path, str(path)).lines() if line.strip())
    both = zip_longest(records(), lines)
    for number, (record, answer) in enumerate(both, start=1):
        if record is None or answer is None:
            what = "more" if record is None else "fewer"
            message = f"{what} answers than questions: {number - 1:,} of both, then only one of them."
            raise QuestionFileError(message, path=path, hint=f"One answer per line, in the order of {shown}.")
        if record.fields is None:
            yield record
        else:
            yield record._replace(fields={**record.fields, "answer_key": answer})
