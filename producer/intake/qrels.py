"""Reading relevance judgements from a separate file (qrels) and adding them to the questions as `gold_passages`.

Formats: BEIR's TSV (`query-id corpus-id score`, with its header), TREC's four columns (`query iteration document
relevance`), or JSON Lines with the ids of a question and its passages, and a score of each or of all together. Passages
judged 0 or less are not relevant; in JSON Lines, those without a score are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from contract.errors import QuestionFileError
from contract.question import Question
from contract.wording import number
from producer.readers import opened, refuse_missing
from producer.readers.jsonl import DECODER
from producer.readers.record import FieldTrouble
from producer.readers.stream import explaining
from producer.readers.text import Text, text_of

__all__ = ["Qrels"]

#: Accepted field names in JSON Lines; those of a question may also begin a header.
QUESTION_NAMES = ("query-id", "query_id", "question_id", "qid", "id")
PASSAGE_NAMES = ("corpus-id", "corpus_id", "passage_id", "doc_id", "pid", "pids", "doc_ids", "gold_passages")
SCORE_NAMES = tuple(
    f"{each}{ending}"
    for each in ("score", "relevance", "rel", "label", "grade", "judgment", "judgement")
    for ending in ("", "s")
)
_HINT = "Expected rows of query-id, corpus-id and score, TREC's four columns, or JSON Lines with qid and pids."


@dataclass
class Qrels:
    """The relevant passages by question id, and the ids of the questions seen so far."""

    path: Path
    passages: dict[str, list[str]]
    joined: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file at `path`, or a pipe. Raises QuestionFileError with file and line for an invalid row."""
        passages: dict[str, list[str]] = {}
        judged: dict[tuple[str, str], bool] = {}
        with opened(str(path)) as source, explaining(source.shown):
            refuse_missing(source)
            for line, question_id, passage, relevant in _judgements(text_of(source.path, source.shown, ""), path):
                if judged.setdefault((question_id, passage), relevant) != relevant:
                    message = f"{passage!r} is judged twice for {question_id!r}: once above 0, once not."
                    raise QuestionFileError(message, path=path, line=line, hint="Keep one of the two.")
                if relevant:
                    passages.setdefault(question_id, []).append(passage)
        if not passages:
            raise QuestionFileError("contains no judgement above 0.", path=path, hint=_HINT)
        return cls(path, passages)

    def join(self, question: Question) -> Question:
        """Return `question` with its relevant passages added to those that its own file names."""
        if question.id not in self.passages:
            return question
        self.joined.add(question.id)
        found = dict.fromkeys([*question.gold_passages, *self.passages[question.id]])
        return question.model_copy(update={"gold_passages": tuple(found)})

    def describe(self, questions: int) -> str:
        """Describe how many of the `questions` have judgements. Raises QuestionFileError if none has."""
        strangers = [each for each in self.passages if each not in self.joined]
        if not self.joined:
            raise QuestionFileError(
                f"none of its {number(len(strangers), 'id')} matches a question: the first is {strangers[0]!r}.",
                path=self.path,
                hint="Ids must match those of the question file; use --map id=FIELD if they are in another field.",
            )
        text = f"{self.path}: judgements of {len(self.joined):,} of {number(questions, 'question')}"
        if strangers:
            text += f"; no selected question has {len(strangers):,} of its ids, the first is {strangers[0]!r}"
        return text


def _judgements(file: Text, path: Path) -> Iterator[tuple[int, str, str, bool]]:
    """Yield line, question and passage of every judgement in the file, and whether it is above 0."""
    for line, text in enumerate(file.lines(), start=1):
        if text.strip() and not (line == 1 and _is_header(text)):
            yield from _judgements_in(text, path, line)


def _is_header(text: str) -> bool:
    return text.split()[0].lower() in {*QUESTION_NAMES, "topic"}


def _judgements_in(text: str, path: Path, line: int) -> Iterator[tuple[int, str, str, bool]]:
    try:
        question_id, judged = _of_json(text, path, line) if text.lstrip().startswith("{") else _of_columns(text)
    except FieldTrouble as trouble:
        raise trouble.at(str(path), line) from None
    except (ValueError, TypeError, RecursionError):
        raise QuestionFileError("is not a relevance judgement.", path=path, line=line, hint=_HINT) from None
    for passage, score in judged:
        if score > 0:
            _refuse_unusable_id(passage, path, line)
        yield line, question_id, passage, score > 0


def _refuse_unusable_id(passage: str, path: Path, line: int) -> None:
    """Raise QuestionFileError for an id that cannot be stored: the ledger could not read a question that names it."""
    hint = "Write the passage's id there, or remove the row."
    if not passage.strip():
        raise QuestionFileError("the passage's id is empty.", path=path, line=line, hint=hint)
    if any(0xD800 <= ord(letter) < 0xE000 for letter in passage):
        message = "the passage's id contains half a surrogate pair."
        raise QuestionFileError(message, path=path, line=line, hint="Repair the \\u escapes.")


def _of_columns(text: str) -> tuple[str, list[tuple[str, float]]]:
    parts = text.rstrip("\r\n").split("\t") if "\t" in text else text.split()
    if len(parts) == 4:
        del parts[1]
    question_id, passage, score = (part.strip() for part in parts)
    return question_id, [(passage, _score(score))]


def _of_json(text: str, path: Path, line: int) -> tuple[str, list[tuple[str, float]]]:
    row: dict[str, Any] = DECODER.decode(text)
    question_id, found = (_first(row, names) for names in (QUESTION_NAMES, PASSAGE_NAMES))
    if question_id is None or found is None:
        raise ValueError("no question or no passage")
    passages = [_id(each) for each in (found if isinstance(found, list) else [found])]
    judged = not row.keys().isdisjoint(SCORE_NAMES)
    if not judged:
        _refuse_unknown_score(row, path, line)
    score = _first(row, SCORE_NAMES) if judged else 1.0
    scores = score if isinstance(score, list) else [score] * len(passages)
    return str(question_id), [(each, _score(found)) for each, found in zip(passages, scores, strict=True)]


def _score(found: Any) -> float:
    score = float(found)
    if math.isnan(score):
        raise ValueError("no number")
    return score


def _id(found: Any) -> str:
    if found is not None and not isinstance(found, str | int):
        raise TypeError("not an id")
    return "" if found is None else str(found)


def _refuse_unknown_score(row: dict[str, Any], path: Path, line: int) -> None:
    """Raise QuestionFileError if a field of another name may hold scores: unread, all passages would be relevant."""
    for name, found in row.items():
        values = found if isinstance(found, list) else [found]
        others = name not in {*QUESTION_NAMES, *PASSAGE_NAMES}
        if others and values and all(isinstance(each, int | float) for each in values):
            message = f"{name!r} may say how relevant a passage is, but is no name for that."
            raise QuestionFileError(message, path=path, line=line, hint="Name it score, or remove it.")


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[each] for each in names if each in row), None)
