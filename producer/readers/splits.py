"""Splits, the parts of a set that are not asked together: those of a folder's files, and those inside one file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from contract.errors import QuestionFileError, nearest
from producer.readers.field_names import spelled
from producer.readers.record import Record, Records

__all__ = ["ALL", "bare", "chosen", "counted", "several", "split_called", "split_of_name"]

#: The name that asks for every split.
ALL = "*"
_SPLITS = frozenset({"train", "auxiliary_train", "dev", "val", "valid", "validation", "test", "eval", "evaluation"})
_LAST_WORD = re.compile(r"(?:^|[_.-])([a-z]+)$")
#: What may stand behind a split in a file's name: `train_set`, `test-00000-of-00001`.
_AFTER = re.compile(r"(?:-\d+-of-\d+|[_.-]?set)$", re.IGNORECASE)


def split_called(word: str) -> str:
    """The split that goes by this word, in small letters; empty where it is none."""
    return word.lower() if word.lower() in _SPLITS else ""


def split_of_name(stem: str) -> str:
    """The split that a file's name ends with; empty where it says none."""
    last = _LAST_WORD.search(_AFTER.sub("", stem).lower())
    return split_called(last[1]) if last else ""


def bare(stem: str) -> str:
    """A file's name without the split that it ends with."""
    return _AFTER.sub("", stem)[: -len(split_of_name(stem))].rstrip("_.-")


def counted(there: Counter[str]) -> str:
    """`dev (2), test (57)`."""
    return ", ".join(f"{name} ({count:,})" for name, count in sorted(there.items()) if name)


def several(shown: str, there: Counter[str], what: str) -> QuestionFileError:
    """Several splits, of which none is chosen."""
    hint = f"Choose one with --split, for example --split {max(filter(None, there))}; --split '{ALL}' takes all."
    return QuestionFileError(f"several splits, with {what} of each: {counted(there)}.", path=shown, hint=hint)


def chosen(records: Records, head: Sequence[Record], wanted: str, shown: str) -> Records | None:
    """The records of the wanted split of one file, by the list that they stand in or by their field `split`.

    None where all are asked. Raises QuestionFileError for a split that is not there, and for several where none is
    wanted.
    """
    named = any(map(_split_of, head)) if wanted else any(map(split_called, map(_split_of, head)))
    if wanted and not named:
        hint = "A split is chosen of a folder, a dataset, or a file with several lists or a field split; leave it out."
        raise QuestionFileError(f"is one file: it has no split {wanted!r}.", path=shown, hint=hint)
    if not named or wanted == ALL:
        return None
    there: Counter[str] = Counter()
    with suppress(QuestionFileError):  # it shows again when the rows are read
        there.update(map(_split_of, records()))
    if wanted:
        if not there[wanted.lower()]:
            hint = nearest(wanted, list(there))
            raise QuestionFileError(f"no split {wanted!r} among {counted(there)}.", path=shown, hint=hint)
        return lambda: _only(records(), wanted.lower())
    if len(set(filter(split_called, there))) > 1:
        raise several(shown, there, "questions")
    return None


def _only(records: Iterable[Record], wanted: str) -> Iterator[Record]:
    for record in records:
        if _split_of(record) == wanted:
            # What all of them have in common tells nothing of a question.
            yield record._replace(group=None) if (record.group or "").lower() == wanted else record


def _split_of(record: Record) -> str:
    if record.group and split_called(record.group):
        return split_called(record.group)
    found = next((value for name, value in (record.fields or {}).items() if spelled(name) == "split"), None)
    return found.strip().lower() if isinstance(found, str) else ""
