"""Checking the documents of a corpus: valid ones with unique ids become passages, the others are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract.errors import QuestionFileError
from producer.corpus.document import Document
from producer.corpus.read import Unfit
from producer.intake.bad_rows import BadRows, rejected_row

__all__ = ["DocumentCheck"]


@dataclass
class DocumentCheck:
    """Passes on the good documents of one corpus."""

    corpus: Path
    #: Receives the bad documents; if None, a single one is enough to refuse the corpus.
    reject: Callable[[dict[str, Any]], object] | None = None
    rows: int = 0
    troubles: BadRows = field(default_factory=BadRows)
    #: Id → the line of its document.
    _seen: dict[str, int | None] = field(default_factory=dict)

    def good(self, rows: Iterable[Document | Unfit]) -> Iterator[Document]:
        """Yield the documents among `rows`; of several with the same id, the first.

        Unless `reject` is set, raises QuestionFileError at the end, for all bad ones together.
        """
        for row in rows:
            self.rows += 1
            if isinstance(row, Unfit):
                self._count(row)
            elif row.id in self._seen:
                self._count(self._repeated(row))
            else:
                self._seen[row.id] = row.line
                if self.reject or not self.troubles.count:
                    yield row
        if self.troubles.count and self.reject is None:
            raise self.troubles.refusal(self.corpus, self.rows, "documents")

    def _repeated(self, document: Document) -> Unfit:
        first = self._seen[document.id]
        where = f"on line {first}" if first is not None else "by an earlier document"
        trouble = QuestionFileError(
            f"{document.id!r} is already used {where}.",
            path=document.shown,
            line=document.line,
            field="id",
            hint="Give each document a unique id; without ids, remove the document that repeats the other's text.",
            kind="duplicate",
        )
        return Unfit({"id": document.id, "text": document.text}, trouble)

    def _count(self, unfit: Unfit) -> None:
        self.troubles.add(unfit.trouble)
        if self.reject:
            self.reject(rejected_row(unfit.raw, unfit.trouble))
