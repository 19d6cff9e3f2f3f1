"""Detecting a source's format: a dataset, Parquet, JSON, JSON Lines or a table.

The content decides; the name hardly matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from contract.errors import QuestionFileError
from producer.readers.articles import one_by_one
from producer.readers.csv import read_csv
from producer.readers.csv_dialect import Dialect, dialect_of
from producer.readers.csv_headers import mapping_for, refuse_column_before_question, refuse_row_as_header
from producer.readers.field_names import is_table_header
from producer.readers.hub import is_dataset, only_a_column_names_splits, read_dataset
from producer.readers.json import read_json
from producer.readers.jsonl import DECODER, read_jsonl
from producer.readers.layouts import is_question
from producer.readers.mapping import is_mapped
from producer.readers.parquet import MAGIC, read_parquet
from producer.readers.record import FieldTrouble, Record, Records, head_of
from producer.readers.shapes import IsQuestion, refuse_row_per_choice
from producer.readers.source import Source
from producer.readers.stream import HEAD_BYTES, compression_of, open_bytes
from producer.readers.text import Text, encoding_among
from producer.readers.unsupported import refuse_foreign

__all__ = ["DATASET", "JSON", "Format", "format_of"]

#: The titles of the formats that can hold several subsets.
DATASET = "Hugging Face dataset"
JSON = "JSON"
#: Number of rows by which the header of a table without column names for a question is explained.
_FIRST_RECORDS = 50
#: Maximum number of characters in a header; a longer first line is prose, unless the file's name says that it is CSV.
_LONGEST_HEADER = 400


@dataclass(frozen=True, slots=True)
class Format:
    """A detected format."""

    #: `JSONL`, `TSV without header`, …
    title: str
    records: Records
    encoding: str = ""
    compression: str = ""
    #: Whether the split is already known, from a dataset or a file's name or folder, and not sought in records.
    names_split: bool = False


def format_of(source: Source) -> Format:
    """Return the format of a file or a dataset. Raises QuestionFileError for content without records."""
    if is_dataset(source):
        by_column = only_a_column_names_splits(source)
        whole = replace(source, how=replace(source.how, split="")) if by_column else source
        found = Format(DATASET, partial(read_dataset, whole), names_split=not by_column)
    else:
        found = _format_of_file(source)
    records = found.records
    if not source.how.mapping:
        records = partial(_unwrapped, records)
    return replace(found, records=partial(one_by_one, records))


def _format_of_file(source: Source) -> Format:
    compression = compression_of(source.path)
    open_again = partial(open_bytes, source.path, source.shown, source.member)
    with open_again() as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(MAGIC):
        if compression:
            hint = "Decompress it: Parquet has its own compression. A folder of Parquet files can be read as well."
            raise QuestionFileError(f"is Parquet compressed as {compression}.", path=source.shown, hint=hint)
        return Format("Parquet", partial(read_parquet, source.path, source.shown))
    refuse_foreign(head, source.shown)
    text = Text(open_again, encoding_among(source.how.encoding, head, source.shown), source.shown)
    return Format(*_text_format(text, source), text.encoding, compression)


#: Fields that hold the question itself in logs of lm-evaluation-harness and in rows from the hub's API.
_WRAPPERS = ("doc", "row")
#: The fields of a row of our own results.jsonl.
_RESULT = frozenset({"run_id", "question", "verdict"})


def _unwrapped(records: Records) -> Iterator[Record]:
    """Yield the records; one that only wraps a question is replaced by that question."""
    for record in records():
        inner = _wrapped_question(record.fields or {})
        yield record._replace(fields=inner) if inner else record


def _wrapped_question(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the question that a record wraps; None if it is one itself, or wraps something else."""
    if fields.keys() == _RESULT:
        return fields["question"] if isinstance(fields["question"], dict) else None
    inner = next((fields[name] for name in _WRAPPERS if name in fields), None)
    return inner if isinstance(inner, dict) and is_question(inner) and not is_question(fields) else None


def _is_or_holds_question(fields: Mapping[str, Any]) -> bool:
    return is_question(fields) or _wrapped_question(fields) is not None


def _text_format(text: Text, source: Source) -> tuple[str, Records]:
    start = text.head().lstrip()
    name = source.path.name.lower()
    if not start:
        return "CSV" if name.endswith((".csv", ".tsv")) else "JSONL", partial(read_jsonl, text)
    if _opens_json(start):
        mapping = source.how.mapping
        looks_right = is_mapped(mapping) if mapping else is_question
        if start.startswith("{") and _is_lines(text, name, looks_right if mapping else _is_or_holds_question):
            return "JSONL", partial(read_jsonl, text)
        wanted = ", ".join(_mapped_fields(source))
        doubt = f"Its questions may lack fields that --map names: {wanted}." if wanted else ""
        return JSON, partial(read_json, text, looks_right, source.how.subset, doubt)
    dialect = _dialect(text, source)
    if dialect is not None:
        return dialect.title, partial(read_csv, text, dialect)
    # It is what its name says, but malformed: the reader of that format reports the errors.
    if ".jsonl" in name:
        return "JSONL", partial(read_jsonl, text)
    if ".json" in name:
        return JSON, partial(read_json, text, is_question)
    message = f"is not JSON, JSON Lines, a table or Parquet: it starts with {start[:20]!r}."
    raise QuestionFileError(message, path=source.shown, hint="Convert it to one of these formats.")


def _opens_json(start: str) -> bool:
    """Whether the text starts a JSON object or list. A table may also begin with a bracket: "[header] How to …"."""
    if start.startswith("{"):
        return True
    inside = start[1:].lstrip()[:1]
    return start.startswith("[") and (not inside or inside in '[{]"-' or inside.isdigit())


def _is_lines(text: Text, name: str, is_row: IsQuestion) -> bool:
    """Whether each line of a text that starts with an object is a complete one, rather than a part of one."""
    lines = (line.strip() for line in _until_trouble(text) if line.strip())
    first, second = next(lines, ""), next(lines, "")
    try:
        whole = DECODER.decode(first)
    except (ValueError, RecursionError, FieldTrouble):
        return second.startswith("{") or (not second and ".jsonl" in name and bool(first))
    return bool(second) or is_row(whole)


def _until_trouble(text: Text) -> Iterator[str]:
    """Yield the lines up to one that is too long, which is JSON in one piece, with a brace for each invalid one."""
    with suppress(QuestionFileError):
        for line in text.lines_and_troubles():
            yield "{" if isinstance(line, FieldTrouble) else line


def _mapped_fields(source: Source) -> list[str]:
    """Return the fields that --map names: neither a base nor a part that no field holds (`id=`) names one."""
    return [each for part, value in source.how.mapping.items() if part != "base" for each in value.split("+") if each]


def _dialect(text: Text, source: Source) -> Dialect | None:
    columns = _mapped_fields(source)  # without any, the first row is judged as without --map
    numbered = bool(columns) and all(map(str.isdigit, columns))
    found = dialect_of(text, is_table_header, named=bool(columns), numbered=numbered)
    if found is None:
        return None
    if not found.header and not columns:
        refuse_column_before_question(text, found)
    if found.header and not columns and not is_table_header(found.names):
        shown = ", ".join(found.names[:12])
        suffix = source.path.suffix.lower()
        if suffix in {".json", ".jsonl"} or (len(shown) > _LONGEST_HEADER and suffix not in {".csv", ".tsv"}):
            return None
        refuse_row_as_header(text, found)
        refuse_row_per_choice(head_of(partial(read_csv, text, found), _FIRST_RECORDS), source.shown)
        raise QuestionFileError(
            f"header: no columns for question and choices among {shown[:_LONGEST_HEADER]}.",
            path=source.shown,
            line=1,
            hint="Expected question, answer, and choice_a, choice_b, … (or A, B, …, or a single column choices);"
            f" name other columns with --map {mapping_for(found.names)}.",
        )
    return found
