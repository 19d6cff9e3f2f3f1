"""Counting queries that are too long for an index's encoder: it reads their beginning, but many ask at the end."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from contract.index import Encoder
from contract.prompts import query_of, wants_passages
from contract.question import Question
from contract.spec import IndexKind, RunSpec
from contract.wording import number
from producer.corpus.chunks import token_count
from producer.output import Lines

__all__ = ["LongQueries", "long_queries"]

#: Unicode categories: combining marks, and what formats.
REMOVED = frozenset({"Mn", "Mc", "Me", "Cf"})


@dataclass(frozen=True, slots=True)
class LongQueries:
    """How many queries are certainly too long: they have more words and punctuation marks, each at least a token."""

    encoder_id: str
    encoder_reads: int
    at_least: int
    queries: int

    def lines(self) -> Lines:
        """Return the output lines; empty if no query is too long."""
        if not self.at_least:
            return []
        text = (
            f"at least {self.at_least:,} of {number(self.queries, 'question')} longer than the "
            f"{self.encoder_reads} tokens that {self.encoder_id} reads: only their beginning is searched for by vectors"
        )
        return [("queries", text)]

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {"at_least": self.at_least, "encoder_reads": self.encoder_reads}


def long_queries(questions: Iterable[Question], spec: RunSpec, encoder: Encoder | None) -> LongQueries | None:
    """Measure the queries of `questions`; None if no vectors are searched, or what `encoder` reads is unknown."""
    if spec.rag is None or spec.rag.kind is IndexKind.BM25 or encoder is None or encoder.max_tokens is None:
        return None
    queries = at_least = 0
    for question in questions:
        if wants_passages(question, spec):
            queries += 1
            at_least += token_count(_bare(query_of(question, spec.rag.query))) > encoder.max_tokens
    return LongQueries(encoder.id, encoder.max_tokens, at_least, queries)


def _bare(text: str) -> str:
    """Return `text` without what tokenizers may remove: accents that are characters of their own, soft hyphens."""
    if text.isascii():
        return text
    return "".join(each for each in text if unicodedata.category(each) not in REMOVED)
