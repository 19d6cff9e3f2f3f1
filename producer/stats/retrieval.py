"""Retrieval metrics of a run: whether relevant passages were found, and whether they helped the model.

Two things are measured separately. **Finding** considers all retrieved passages, best first, and the ranks of the
passages that the question file names as sources (`contract/relevance.py`). **Showing** considers the passages that
fitted in the prompt, for questions to which the model responded. Questions with their own context, and those that
failed before anything was retrieved, are excluded from both: an error is not a missed passage. A search that found
nothing is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from contract.question import Question
from contract.relevance import Sources, sources_of
from contract.spec import Retrieval
from contract.verdict import ContextSource, Outcome, Passage, Verdict
from producer.stats.mentions import mentions
from producer.stats.proportion import Mean, Share, Sum, share

__all__ = ["RetrievalTally", "average_precision", "was_searched_for"]

#: Depths at which recall is reported, up to the number of retrieved passages, in addition to that number itself.
DEPTHS = (1, 3, 5, 10)


def was_searched_for(verdict: Verdict) -> bool:
    """Whether passages were searched for this question, found or not; not if its own context was shown.

    A question can fail before the search, in it, or with its passages in the prompt. Only in the last case does the
    verdict have passages or, where the question names its source, say whether a relevant one was shown. Of a failed
    question without either it is unknown, and makes no difference to recall.
    """
    if verdict.context_source is ContextSource.QUESTION:
        return False
    return verdict.outcome is not Outcome.FAILED or bool(verdict.passages) or verdict.retrieval_hit is not None


@dataclass(slots=True)
class RetrievalTally:
    """Counts and sums from which the metrics are computed, of constant size for any number of questions."""

    rag: Retrieval
    depths: tuple[int, ...]
    #: Where the context in the prompts came from; `none` if nothing was found, or nothing fitted.
    context_sources: Counter[ContextSource] = field(default_factory=Counter)
    #: Questions without a single passage to show, as the search found none or the threshold dropped all.
    found_none: int = 0
    #: Questions that failed before they were searched for, or of which that is not known.
    failed: int = 0
    #: Numbers of passages retrieved and shown, and of questions whose passages did not all fit in the prompt.
    retrieved: int = 0
    shown: int = 0
    cut: int = 0
    #: Number of questions that name their source, and depth → number of those with a relevant passage within it.
    sourced: int = 0
    any_within: Counter[int] = field(default_factory=Counter)
    #: Depth → fraction of the named passages within it.
    share_within: dict[int, Sum] = field(default_factory=dict)
    reciprocal_ranks: Sum = field(default_factory=Sum)
    precisions: Sum = field(default_factory=Sum)
    #: (a relevant passage was shown, the answer is right) → number of questions.
    answers: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    #: Number of questions with a key that did not fail, of those whose right choice occurs in a shown passage, and the
    #: fraction of wrong choices that do.
    keyed: int = 0
    right_in_context: int = 0
    wrong_in_context: Sum = field(default_factory=Sum)

    @classmethod
    def of(cls, rag: Retrieval) -> RetrievalTally:
        """Return an empty tally for a run with the retrieval settings `rag`."""
        top_k = rag.retrieval_top_k
        depths = (*(depth for depth in DEPTHS if depth < top_k), top_k)
        return cls(rag, depths, share_within={depth: Sum() for depth in depths})

    @property
    def searched(self) -> int:
        """Number of questions for which passages were searched."""
        return self.context_sources[ContextSource.RETRIEVED] + self.context_sources[ContextSource.NONE]

    def add(self, question: Question, verdict: Verdict | None) -> None:
        """Count one question; questions without a verdict are ignored."""
        if verdict is None:
            return
        own = verdict.context_source is ContextSource.QUESTION
        searched = was_searched_for(verdict)
        if not (own or searched):
            self.failed += 1
            return
        self.context_sources[verdict.context_source] += 1
        if not searched:
            return
        shown = [each for each in verdict.passages if each.shown]
        self.found_none += not verdict.passages
        self.retrieved += len(verdict.passages)
        self.shown += len(shown)
        self.cut += verdict.passages_left_out > 0
        if sources := sources_of(question, by_hash=self.rag.question_hashes):
            self._add_ranks(sources, verdict.passages)
        # A failed question has shown the model nothing: one that is too long has no room for any passage.
        if verdict.outcome is Outcome.FAILED:
            return
        if sources:
            self.precisions.add(average_precision([sources.answered_by(each) for each in shown]))
        if question.answer is not None and verdict.retrieval_hit is not None:
            self.answers[verdict.retrieval_hit, verdict.outcome is Outcome.CORRECT] += 1
        self._add_wording(question, shown)

    def _add_ranks(self, sources: Sources, passages: Sequence[Passage]) -> None:
        ranks = [rank for rank, each in enumerate(passages, 1) if sources.answered_by(each)]
        self.sourced += 1
        self.reciprocal_ranks.add(1 / ranks[0] if ranks else 0.0)
        for depth in self.depths:
            self.any_within[depth] += bool(ranks) and ranks[0] <= depth
            if sources.passages:
                found = sources.named_among(passages[:depth])
                self.share_within[depth].add(len(found) / len(sources.passages))

    def _add_wording(self, question: Question, shown: Iterable[Passage]) -> None:
        if question.answer is None:
            return
        found = dict(zip(question.labels, mentions(question.choices, [each.text for each in shown]), strict=True))
        right = [found.pop(label) for label in question.right]
        self.keyed += 1
        self.right_in_context += any(right)
        if found:
            self.wrong_in_context.add(sum(found.values()) / len(found))

    def include(self, other: RetrievalTally) -> None:
        """Add the counts of `other`, which has the same retrieval settings."""
        self.context_sources.update(other.context_sources)
        self.found_none += other.found_none
        self.failed += other.failed
        self.retrieved += other.retrieved
        self.shown += other.shown
        self.cut += other.cut
        self.sourced += other.sourced
        self.any_within.update(other.any_within)
        for depth, shares in other.share_within.items():
            self.share_within[depth].include(shares)
        self.reciprocal_ranks.include(other.reciprocal_ranks)
        self.precisions.include(other.precisions)
        self.answers.update(other.answers)
        self.keyed += other.keyed
        self.right_in_context += other.right_in_context
        self.wrong_in_context.include(other.wrong_in_context)

    def recall_any(self) -> dict[int, Share]:
        """Return depth k → share of questions with at least one relevant passage among the first k.

        Over the questions that name their source in any way: by passage, document, path or question hash.
        """
        found = {depth: share(self.any_within[depth], self.sourced) for depth in self.depths}
        return {depth: each for depth, each in found.items() if each}

    def recall_share(self) -> dict[int, Mean]:
        """Return depth k → mean fraction of a question's named passages among the first k: recall@k proper.

        Only over questions that name individual passages; a document named in this way that was split counts as found
        with any of its passages. For a `source_id` or a path the number of relevant passages is unknown, so the
        fraction is undefined. For both see Manning, Raghavan and Schütze, "Introduction to information retrieval"
        (2008), section 8.4.
        """
        found = {depth: each.mean() for depth, each in self.share_within.items()}
        return {depth: each for depth, each in found.items() if each}

    def mrr(self) -> Mean | None:
        """Return the mean reciprocal rank of the first relevant passage, which is 0 if none was retrieved.

        Source: E. M. Voorhees, "The TREC-8 question answering track report" (1999).
        """
        return self.reciprocal_ranks.mean()

    def context_precision(self) -> Mean | None:
        """Return the mean over the questions of the `average_precision` of the shown passages."""
        return self.precisions.mean()

    def accuracy(self, *, hit: bool) -> Share | None:
        """Return the accuracy with a relevant passage shown (`hit`), or with none shown.

        Over questions that name their source, have a key, and did not fail; unanswered counts as incorrect.
        """
        right = self.answers[hit, True]
        return share(right, right + self.answers[hit, False])

    def answer_in_context(self) -> Share | None:
        """Return the share of questions whose right choice occurs verbatim in a shown passage."""
        return share(self.right_in_context, self.keyed)

    def wrong_choice_in_context(self) -> Mean | None:
        """Return the mean fraction of a question's wrong choices that do, as a baseline for `answer_in_context`."""
        return self.wrong_in_context.mean()

    def to_json(self) -> dict[str, Any]:
        """Return the content for summary.json. A figure over zero questions is null, or empty."""
        return {
            "context_sources": {each.value: self.context_sources[each] for each in ContextSource},
            "failed_without_passages": self.failed,
            "passages": {
                "of": self.searched,
                "mean_retrieved": self._per_question(self.retrieved),
                "mean_shown": self._per_question(self.shown),
                "questions_without_room_for_all": self.cut,
            },
            "recall_any": {str(depth): each.to_json() for depth, each in self.recall_any().items()},
            "recall_share": {str(depth): each.to_json() for depth, each in self.recall_share().items()},
            "mrr": _json(self.mrr()),
            "context_precision": _json(self.context_precision()),
            "accuracy_with_right_passage": _json(self.accuracy(hit=True)),
            "accuracy_without_right_passage": _json(self.accuracy(hit=False)),
            "answer_in_context": _json(self.answer_in_context()),
            "wrong_choice_in_context": _json(self.wrong_choice_in_context()),
        }

    def _per_question(self, count: int) -> float | None:
        return round(count / self.searched, 6) if self.searched else None


def average_precision(relevant: Sequence[bool]) -> float:
    """Return the average precision of a ranking: 1 if all relevant items come first, 0 if there are none.

    (Σ_k precision@k · v_k) / (Σ_k v_k), where v_k is 1 if the passage of rank k is relevant, and precision@k is the
    fraction of relevant ones among the first k. That is the context precision of RAGAS (docs.ragas.io, "Context
    precision"), where a language model judges v_k, while here the question file determines it; unlike average precision
    in information retrieval, it ignores relevant passages that were not retrieved.
    """
    found, total = 0, 0.0
    for rank, hit in enumerate(relevant, 1):
        if hit:
            found += 1
            total += found / rank
    return total / found if found else 0.0


def _json(figure: Share | Mean | None) -> dict[str, Any] | None:
    return figure.to_json() if figure else None
