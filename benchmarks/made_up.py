"""Made-up questions and runs in memory, for measurements in which the answers do not matter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256

from contract.ledger import Run
from contract.question import Question
from contract.spec import Mode, Prompt, RunSpec, run_id_for

__all__ = ["made_up_question", "made_up_run"]


def made_up_question(number: int, text: str = "") -> Question:
    """Return question `number`, with `text` or a sum; the correct choice rotates through the four labels."""
    return Question(
        id=f"q{number}",
        question=text or f"What is {number} plus {number}?",
        choices=tuple(str(2 * number + step) for step in range(4)),
        answer="ABCD"[number % 4],
    )


def made_up_run(name: str, model: str, questions: Sequence[Question]) -> Run:
    """Return a run of `questions` by likelihood, not yet written anywhere."""
    spec = RunSpec(
        questions_digest=sha256(b"\n".join(each.canonical() for each in questions)).hexdigest(),
        model=model,
        mode=Mode.LIKELIHOOD,
        prompt=Prompt(name="question", text="Question: {{ question }}\nAnswer:"),
    )
    return Run(
        run_id=run_id_for(name, spec),
        spec=spec,
        source="made up",
        questions=len(questions),
        chance=0.25,
        created_at=time.time(),
    )
