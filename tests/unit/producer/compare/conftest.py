"""What the tests of `compare` share: runs by the letters of their outcomes, and the command."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pytest

from contract.ledger import MemoryLedger, Run
from contract.mode import Mode
from contract.question import Question
from contract.spec import IndexKind, Prompt, Retrieval, RunSpec
from contract.verdict import ContextSource, Outcome
from producer.session import Session
from tests.support import settle
from tests.unit.producer.conftest import Producer

SPEC = RunSpec(
    questions_digest="0" * 64, model="small", mode=Mode.LETTER, prompt=Prompt(name="plain", text="{{ question }}")
)
#: q0 to q5 have a key; q6 has none.
QUESTIONS = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A", subject="red") for n in range(6)] + [
    Question(id="q6", question="q", choices=("a", "b"))
]
OUTCOMES = {
    "c": Outcome.CORRECT,
    "w": Outcome.WRONG,
    "u": Outcome.UNANSWERED,
    "f": Outcome.FAILED,
    "a": Outcome.ANSWERED,
}
RAG = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)
RETRIEVED = {"context_source": ContextSource.RETRIEVED}
CONTEXTS: dict[str, dict[str, Any]] = {
    "+": {**RETRIEVED, "retrieval_hit": True},
    "-": {**RETRIEVED, "retrieval_hit": False},
    "?": RETRIEVED,
    "o": {"context_source": ContextSource.QUESTION},
    "0": {"context_source": ContextSource.NONE, "retrieval_hit": False},
}
CHOICES = {Outcome.CORRECT: "A", Outcome.WRONG: "B", Outcome.ANSWERED: "A"}
Ran = Callable[..., Run]


@pytest.fixture
def ran(ledger: MemoryLedger) -> Ran:
    """A run in the ledger, its outcomes given by their first letters; `-` is not settled.

    `hits` say what each question was shown: a right passage `+`, others `-`, nobody knows `?`, its own context `o`,
    none `0`.
    """

    def make(
        run_id: str,
        outcomes: str,
        questions: list[Question] | None = None,
        hits: str = "",
        chance: float | None = 0.5,
        **spec: Any,
    ) -> Run:
        asked = questions or QUESTIONS
        whole = SPEC.model_copy(update=spec)
        run = Run(run_id=run_id, spec=whole, source="q.json", questions=len(asked), chance=chance, created_at=1.0)
        ledger.open_run(run)
        ledger.add_questions(run_id, asked)
        ended = [(question.id, OUTCOMES.get(letter)) for question, letter in zip(asked, outcomes, strict=True)]
        for (each, came), hit in zip_longest(ended, hits):
            if came:
                settle(ledger, run_id, each, outcome=came, choice=CHOICES.get(came), **CONTEXTS.get(hit, {}))
        return run

    return make


@pytest.fixture
def compare(session: Session) -> Producer:
    return Producer(session, "compare")


def keyed(count: int) -> list[Question]:
    return [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A") for n in range(count)]
