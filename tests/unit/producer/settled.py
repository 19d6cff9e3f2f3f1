"""Five questions and four verdicts that between them put something into nearly every column of an export."""

from __future__ import annotations

from contract.question import Question
from contract.verdict import Failure, Outcome, Passage, Verdict

QUESTIONS = (
    Question(id="a", question="q", choices=("x", "=1+1"), answer="B", subject="s", metadata={"level": 3}),
    Question(id="b", question="q", choices=("x", "y"), answer="B", subject="s"),
    Question(id="c", question="q", choices=("x", "y")),
    Question(id="d", question="q", choices=("x", "y"), answer="A", subject="t"),
    Question(id="e", question="q", choices=("x", "y"), answer="A"),
)
VERDICTS = (
    Verdict(
        question_id="a",
        outcome=Outcome.CORRECT,
        choice="B",
        choice_scores={"A": float("-inf"), "B": -1.23456789},
        confidence=0.123456789,
        margin=float("inf"),
        rule="argmax",
        passages=(Passage(id="p1", score=0.51234567, text="t"), Passage(id="p2", score=0.25, text="t")),
        prompt_tokens=11,
        completion_tokens=2,
        queued_ms=1.23456,
        latency_ms=500,
        worker="w1",
        batch_id="b1",
        batch_size=2,
        settled_at=1_700_000_000.5,
    ),
    Verdict(question_id="b", outcome=Outcome.UNANSWERED, raw_text='+ "quoted",\nsecond line', settled_at=1_700_000_002),
    Verdict(
        question_id="c", outcome=Outcome.ANSWERED, choice="A", worker="w0", prompt_tokens=5, settled_at=1_700_000_001
    ),
    Verdict(question_id="d", outcome=Outcome.FAILED, attempts=3, error=Failure(type="RequestRejected", message="long")),
)
