"""Splits: parts of a dataset that are not used together, either separate files of a folder or within one file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from contract.errors import QuestionFileError, nearest
from producer.readers.field_names import spelled
from producer.readers.record import Record, Records

__all__ = [
    "ALL",
    "records_of_split",
    "several_splits",
    "split_called",
    "split_of_name",
    "splits_counted",
    "splits_within",
    "stem_without_split",
]

#: The value that requests all splits.
ALL = "*"
_SPLITS = frozenset({"train", "auxiliary_train", "dev", "val", "valid", "validation", "test", "eval", "evaluation"})
_LAST_WORD = re.compile(r"(?:^|[_.-])([a-z]+)$")
#: What may follow the split in a file name: `train_set`, `test-00000-of-00001`.
_AFTER = re.compile(r"(?:-\d+-of-\d+|[_.-]?set)$", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"[_.-]")


def split_called(word: str) -> str:
    """Return `word` in lower case if it is the name of a split, otherwise an empty string."""
    return word.lower() if word.lower() in _SPLITS else ""


def split_of_name(stem: str) -> str:
    """Return the split that a file name ends with, or an empty string."""
    last = _LAST_WORD.search(_AFTER.sub("", stem).lower())
    return split_called(last[1]) if last else ""


def stem_without_split(stem: str) -> str:
    """Return a file name without the split that it ends with."""
    return _AFTER.sub("", stem)[: -len(split_of_name(stem))].rstrip("_.-")


def splits_within(stems: Sequence[str]) -> list[str]:
    """Return the split that each file name has among its words, if the names differ in nothing else: `dev_data` and
    `test_data`. Otherwise empty strings: such a word is as often a subject, as in `test_taking`.
    """
    words = [_BETWEEN_WORDS.split(stem.lower()) for stem in stems]
    found = [list(filter(None, map(split_called, each))) for each in words]
    if any(len(each) != 1 for each in found):
        return [""] * len(stems)
    splits = [split for (split,) in found]
    rests = {tuple("" if word == split else word for word in each) for each, split in zip(words, splits, strict=True)}
    return splits if len(rests) == 1 and len({*splits}) > 1 else [""] * len(stems)


def splits_counted(there: Counter[str]) -> str:
    """Return `dev (2), test (57)`."""
    return ", ".join(f"{name} ({count:,})" for name, count in sorted(there.items()) if name)


def several_splits(shown: str, there: Counter[str], what: str) -> QuestionFileError:
    """Return the error for several splits of which none is selected; `what` is what is counted."""
    hint = f"Choose one with --split NAME, or all with --split '{ALL}'."
    return QuestionFileError(
        f"contains several splits; {what} per split: {splits_counted(there)}.", path=shown, hint=hint
    )


def records_of_split(files: Sequence[Records], head: Sequence[Record], wanted: str, shown: str) -> list[Records] | None:
    """Return the records of each file that are in the requested split, according to their list or their field `split`.

    None if no selection is necessary. `head` has the first records of each file. Raises QuestionFileError for a split
    that does not exist, and if there are several and none is requested.
    """
    if wanted == ALL:
        return None
    named = any(map(_split_of, head)) if wanted else any(map(split_called, map(_split_of, head)))
    if wanted and not named:
        hint = "Remove --split: a split is named by a folder, the end of a file name, a list in JSON, or a field split."
        raise QuestionFileError(f"has no split {wanted!r}, nor any other.", path=shown, hint=hint)
    if not named:
        return None
    there: Counter[str] = Counter()
    for records in files:
        with suppress(QuestionFileError):  # raised again when the rows are read
            there.update(map(_split_of, records()))
    if wanted:
        if not there[wanted.lower()]:
            hint = nearest(wanted, list(there))
            raise QuestionFileError(f"no split {wanted!r} among {splits_counted(there)}.", path=shown, hint=hint)
        return [partial(_only, records, wanted.lower()) for records in files]
    if len(set(filter(None, there))) > 1:  # beside `train`, `held_out` is a split, too
        raise several_splits(shown, there, "questions")
    return None


def _only(records: Records, wanted: str) -> Iterator[Record]:
    for record in records():
        if _split_of(record) == wanted:
            # All of these questions share the split's name, so it must not become their subject or part of their ids.
            before, last = _parted(record)
            yield record._replace(group=before or None) if last.lower() == wanted else record


def _parted(record: Record) -> tuple[str, str]:
    """Return the name of the record's file, if it is one of several, and that of its list."""
    before, _, last = (record.group or "").rpartition("/")
    return before, last


def _split_of(record: Record) -> str:
    if of_list := split_called(_parted(record)[1]):
        return of_list
    found = next((value for name, value in (record.fields or {}).items() if spelled(name) == "split"), None)
    return found.strip().lower() if isinstance(found, str) else ""
