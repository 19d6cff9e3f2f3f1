"""Made-up questions and runs, for measurements and tests in which the answers do not matter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from benchmarks.jsonl import write_rows
from contract.ledger import Run
from contract.mode import Mode
from contract.names import run_id_for
from contract.question import Question
from contract.spec import Prompt, RunSpec

__all__ = ["LETTERED", "made_up_file", "made_up_question", "made_up_run", "made_up_spec"]

BARE = Prompt(name="question", text="Question: {{ question }}\nAnswer:")
#: For modes in which the model names the label of a choice that it is shown.
LETTERED = Prompt(
    name="lettered",
    text="Question: {{ question }}\n{% for each in choices %}{{ each.label }}. {{ each.text }}\n{% endfor %}Answer:",
)


def made_up_question(number: int, **changes: object) -> Question:
    """Return question `number`, with `changes`; the correct one of its four choices rotates through the labels."""
    fields: dict[str, object] = {
        "id": f"q{number}",
        "question": f"What is {number} plus {number}?",
        "choices": tuple(str(2 * number + step) for step in range(4)),
        "answer": "ABCD"[number % 4],
    }
    return Question.model_validate(fields | changes)


def made_up_file(path: Path, count: int) -> Path:
    """Write `count` questions of about twenty words with four choices as JSON Lines; return the file."""
    rows = (
        {
            "id": f"q{number:07}",
            "question": f"A tank holds {number} litres and loses three litres an hour. How many are left after "
            "two hours, if nothing is added?",
            "choices": [f"{number - 6 + step} litres" for step in range(4)],
            "answer": "ABCD"[number % 4],
            "subject": f"subject {number % 20}",
        }
        for number in range(count)
    )
    return write_rows(path, rows)


def made_up_spec(questions: Sequence[Question], model: str, **changes: object) -> RunSpec:
    """Return how `model` is asked `questions`: by likelihood, unless `changes` say otherwise."""
    fields: dict[str, object] = {
        "questions_digest": sha256(b"\n".join(each.canonical() for each in questions)).hexdigest(),
        "model": model,
        "mode": Mode.LIKELIHOOD,
        "prompt": LETTERED if changes.get("mode") in (Mode.GENERATE, Mode.VOTE) else BARE,
    }
    return RunSpec.model_validate(fields | changes)


def made_up_run(name: str, questions: Sequence[Question], spec: RunSpec) -> Run:
    """Return a run of `questions`, not yet written anywhere."""
    return Run(
        run_id=run_id_for(name, spec),
        spec=spec,
        source="made up",
        questions=len(questions),
        chance=0.25,
        created_at=time.time(),
    )
