"""Questions by which tuning measures, and what they need."""

from __future__ import annotations

from contract import Mode, Question
from contract.spec import Judge, Prompt, RunSpec, Sampling
from tests.support import make_question, make_spec
from workers.tuning.lengths import Lengths

__all__ = ["NEEDS", "judged", "question_of"]

NEEDS = Lengths(questions=20, median=9, p95=10, longest=12, context=64, beyond=0)


def judged(max_tokens: int, **judge: str) -> RunSpec:
    """Answers of that length, and grades of 50 tokens, asked for three times at most."""
    grade = Prompt(name="grade", text="Grade {{ response }} against: {{ reference }}")
    grading = Judge.model_validate({"prompt": grade, "max_tokens": 50, "retries": 2, **judge})
    return make_spec(mode=Mode.JUDGE, sampling=Sampling(max_tokens=max_tokens), judge=grading)


def question_of(words: int) -> Question:
    return make_question(words, question="word " * words)
