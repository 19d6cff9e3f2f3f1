"""Detecting how to read a question file: its format, its layout, and how its answers name choices.

All of this is detected from the content. The files of a folder may differ in format, but share a layout and the way
answers are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from glob import glob

from contract.chunks import TOGETHER, chunks
from contract.errors import QuestionFileError, nearest
from contract.question import LABELS
from contract.wording import number
from producer.readers.answer_fields import Key, fields_beside_own_key, key_of, may_be_indices_from_0
from producer.readers.answer_file import with_answers
from producer.readers.answers import INDICES, Way, no_key, settle
from producer.readers.fields import parts_of, to_row
from producer.readers.fields_used import UsedFields
from producer.readers.folder import Member, members
from producer.readers.format import DATASET, JSON, Format, format_of
from producer.readers.hub import is_dataset
from producer.readers.layouts import OWN, Layout, choose, is_question, layout_called
from producer.readers.mapping import mapped
from producer.readers.marks import marks_are_usual, without_marks
from producer.readers.misnamed import possible_keys, refuse_doubtful_questions, refuse_overlooked_key
from producer.readers.own_answers import may_count_from_1, refuse_doubtful_numbers
from producer.readers.parts import SEPARATE_ANSWER, Parts
from producer.readers.record import FieldTrouble, Record, Records, Row, head_of
from producer.readers.shapes import place_of_questions, refuse_row_per_choice
from producer.readers.source import STDIN, HowToRead, Source
from producer.readers.splits import records_of_split
from producer.readers.stream import compression_of, explaining, files_in_zip
from producer.readers.unsupported import refuse_sheet

__all__ = ["QuestionFile", "refuse_missing", "understand"]

#: Number of records from which layout and answers are detected; several files share it, with a minimum for each.
HEAD_RECORDS = 1000
LEAST_RECORDS = 20


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A question file or folder and how to read it; its rows can be read any number of times."""

    source: Source
    layout: Layout
    key: Key
    #: The format of each file.
    formats: tuple[Format, ...]
    #: The fields that question, choices and answer were taken from.
    fields: UsedFields
    #: If no question has a key: what `--map` needs for each field that may be the key.
    possible_keys: tuple[str, ...] = ()

    @property
    def way(self) -> Way:
        """How its answers name choices."""
        return self.key.way

    @property
    def doubt(self) -> str:
        """A warning if the key may be overlooked, or the base of its indices was assumed; otherwise an empty string."""
        if self.possible_keys:
            return f"warning: no question has a key, but these numbers may be one: {'; '.join(self.possible_keys)}."
        if not self.key.assumes_base:
            return ""
        name = ", ".join(self.fields.answer)
        base, shown = (0, "be the number of a column") if self.key.way is Way.LABEL else (1, "count from 0")
        doubtful = f"no answer is 0 or as large as the number of choices: {name} is assumed to {shown}"
        return f"warning: {doubtful}. If it counts from {base}, add --map base={base}."

    @property
    def format(self) -> str:
        """`JSONL`, `CSV without header, 57 files`, …"""
        files = f", {len(self.formats)} files" if len(self.formats) > 1 else ""
        return " and ".join(sorted({each.title for each in self.formats})) + files

    @property
    def encoding(self) -> str:
        """`utf-8`, …; empty for binary formats."""
        return " and ".join(sorted({each.encoding for each in self.formats} - {""}))

    @property
    def compression(self) -> str:
        """`gzip`, …; empty if the file is not compressed."""
        return " and ".join(sorted({each.compression for each in self.formats} - {""}))

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the file, good and bad, in file order, reading at most `TOGETHER` ahead.

        Raises QuestionFileError if the file is so malformed that its rows cannot be separated.
        """
        with explaining(self.source.shown):
            for each in self.formats:
                for chunk in chunks(each.records(), TOGETHER):
                    yield from [to_row(record, self.layout, self.key, self.source.shown) for record in chunk]

    @property
    def title(self) -> str:
        """`ARC-style JSONL`, followed by the encoding, unless it is UTF-8, and the compression, if any."""
        more = [each for each in (self.encoding.upper().replace("UTF-8", ""), self.compression) if each]
        return f"{self.layout.title} {self.format}" + (f" ({', '.join(more)})" if more else "")

    def describe(self, choices: Counter[int]) -> str:
        """Describe what was read: "926 questions as ARC-style JSONL, 8 choices, labels A–H".

        `choices`: number of choices → questions with that many.
        """
        few, many = min(choices), max(choices)
        span = f"{few} choices" if few == many else f"{few} to {many} choices"
        bare = " removed from their texts" if self.key.removes_marks else ""
        return f"{number(choices.total(), 'question')} as {self.title}, {span}, labels A–{LABELS[many - 1]}{bare}"


def refuse_missing(source: Source) -> None:
    """Raise QuestionFileError if there is no such file or folder, before anything that takes longer.

    Standard input that was not yet copied and datasets on the hub are not looked for.
    """
    path = source.path
    with explaining(source.shown):
        if source.shown == STDIN or source.hub_name or path.exists():
            return
        is_pattern = bool(glob(str(path)))  # noqa: PTH207 - also one in the name of a folder, or absolute
        beside = [each.name for each in path.parent.glob("*")]
    hint = nearest(path.name, beside) or "Check the path; a dataset on the hub is written hf:owner/name."
    if is_pattern:
        hint = "Patterns are not read: name the folder. --subset (in a suite, subset) selects some of its files."
    raise QuestionFileError("no such file.", path=source.shown, hint=hint)


def understand(source: Source, like: QuestionFile | None = None) -> QuestionFile:
    """Detect format, layout and answers from the beginning of the file, or of each file of a folder.

    `like` is the file for whose questions this file has the examples: if the numbers here do not show whether they
    count from 0 or from 1, they count as they do there. Raises QuestionFileError if it is not a question file or is
    ambiguous, InputError for an unknown layout.
    """
    with explaining(source.shown):
        formats, head = _formats_and_head(source)
        layout = _layout(source, head)
        extracted = list(_extracted(head, layout))
        have_marks = marks_are_usual([parts for _, parts in extracted])
        if have_marks:
            extracted = [(record, without_marks(parts)) for record, parts in extracted]
        all_parts = [parts for _, parts in extracted]
        try:
            if not source.how.mapping.get("question"):
                refuse_doubtful_questions(extracted)
            _refuse_ignored_answers(source, layout, all_parts)
            if not source.how.names_answers:
                refuse_overlooked_key(all_parts)
            key = _key(all_parts, layout, source.how, like)._replace(removes_marks=have_marks)
        except FieldTrouble as trouble:
            record, _ = extracted[trouble.place]
            raise trouble.at(record.file or source.shown, record.line) from None
        used = UsedFields.of([(record, key.applied_to(parts)) for record, parts in extracted])
        maybe = () if source.how.names_answers else tuple(possible_keys(all_parts))
        return QuestionFile(source, layout, key, formats, _fields(used, source.how), maybe)


def _formats_and_head(source: Source) -> tuple[tuple[Format, ...], list[Record]]:
    """Return the format of each file, with the records of the requested split, and the first of these records."""
    formats = tuple(_formats(source))
    head = _head(formats)
    if any(each.names_split for each in formats):
        return formats, head
    of_split = records_of_split([each.records for each in formats], head, source.how.split, source.shown)
    if of_split is None:
        return formats, head
    formats = tuple(replace(each, records=records) for each, records in zip(formats, of_split, strict=True))
    return formats, _head(formats)


def _head(formats: Sequence[Format]) -> list[Record]:
    share = max(HEAD_RECORDS // len(formats), LEAST_RECORDS)
    return [record for each in formats for record in head_of(each.records, share)]


def _formats(source: Source) -> list[Format]:
    """Return the format of the file, or of each of several."""
    if not is_dataset(source):
        refuse_missing(source)
        if not _is_one_file(source):
            return [_format_of(member) for member in members(source)]
    found = format_of(source)
    _refuse_useless_subset(source, found)
    return [with_answers(found, source)]


def _is_one_file(source: Source) -> bool:
    """Whether the source is a single file, as opposed to a folder or a zip of several files."""
    path = source.path
    if path.is_dir():
        return False
    if compression_of(path) != "zip":
        return True
    names = files_in_zip(path)
    refuse_sheet(names, source.shown)
    return len(names) <= 1


def _refuse_useless_subset(source: Source, found: Format) -> None:
    """Raise QuestionFileError if a subset is requested of a format without subsets, instead of ignoring the option."""
    if source.how.subset and found.title not in {DATASET, JSON}:
        hint = "To select the questions of one subject, use --subject NAME."
        raise QuestionFileError(f"{found.title} has no subset {source.how.subset!r}.", path=source.shown, hint=hint)


def _refuse_ignored_answers(source: Source, layout: Layout, head: Sequence[Parts]) -> None:
    """Raise QuestionFileError if --answers would be ignored: --map or the layout takes the answers from elsewhere."""
    how = source.how
    if how.answers and "answer" in how.mapping:
        message = f"--map takes the answers from {how.mapping['answer']!r}, but --answers from {how.answers}."
        raise QuestionFileError(message, path=source.shown, hint="Remove one of the two options.")
    if how.answers and any(parts.used.answer != SEPARATE_ANSWER for parts in head):
        message = f"read as {layout.title}, it contains its own answers: those in {how.answers} would be ignored."
        hint = "Remove --answers, and correct wrong answers in the file itself; --layout NAME selects another layout."
        raise QuestionFileError(message, path=source.shown, hint=hint)


def _format_of(member: Member) -> Format:
    """Return the format of one file of several; its records carry the file's name."""
    with explaining(member.source.shown):
        found = format_of(member.source)
    return replace(found, records=partial(_placed, found.records, member), names_split=bool(member.split))


def _placed(records: Records, member: Member) -> Iterator[Record]:
    shown = member.source.shown
    with explaining(shown):
        for record in records():
            group = "/".join(filter(None, (member.name, record.group)))
            yield record._replace(file=shown, group=group or None)


def _layout(source: Source, head: list[Record]) -> Layout:
    if source.how.mapping:
        return mapped(source.how.mapping)
    if source.how.layout:
        return layout_called(source.how.layout)
    layout = choose([record.fields for record in head if record.fields])
    if layout is None and not any(place_of_questions(record.fields, is_question) for record in head):
        refuse_row_per_choice(head, source.shown)
    # If no layout fits, errors about the records refer to our own layout.
    return layout or OWN


def _extracted(head: list[Record], layout: Layout) -> Iterator[tuple[Record, Parts]]:
    """Yield each record whose parts can be extracted, with these parts."""
    for record in head:
        with suppress(FieldTrouble):
            yield record, parts_of(record, layout)


def _key(head: Sequence[Parts], layout: Layout, how: HowToRead, like: QuestionFile | None) -> Key:
    """Return how these records say which choices are right. Raises FieldTrouble."""
    if layout is OWN:
        answers = [(each.answer, each.choices) for each in head]
        refuse_doubtful_numbers(answers)
        return Key(Way.ANY_0, None, fields_beside_own_key(head, "answer"), may_count_from_1(answers))
    given = [each.given(each.answer) for each in head]
    if how.names_answers or layout.ways == (Way.TEXT,):  # else several fields may be the key
        way = settle(given, layout.ways)
        known = [each for each in given if not no_key(each.answer, each.choices)]
        return Key(
            way, assumes_base=may_be_indices_from_0(head, known, way), is_ruled_out=how.mapping.get("answer") == ""
        )
    return key_of(head, layout.ways, _like(head, like) if like else None)


def _like(head: Sequence[Parts], like: QuestionFile) -> Way | None:
    """Return how numbers count in the file `like`, if its answers come from the same field."""
    if base := like.source.how.mapping.get("base"):
        return INDICES[int(base)]
    same = {each.used.answer for each in head if each.used.answer} == {*like.fields.answer}
    return like.key.way if same else None


def _fields(used: UsedFields, how: HowToRead) -> UsedFields:
    """Return `used`, with what the user named in place of the internal fields for answers and gold passages."""
    if how.answers:
        used = replace(
            used, answer=tuple(str(how.answers) if name == SEPARATE_ANSWER else name for name in used.answer)
        )
    if used.gold_passages and "gold_passages" in how.mapping:
        used = replace(used, gold_passages=(how.mapping["gold_passages"],))
    return used
