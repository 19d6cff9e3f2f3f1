"""The tokens of a question's prompts, as the engine receives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from contract.errors import RunConfigError, SettingsError
from contract.ledger import Ledger, Run
from contract.prompts import wants_passages
from contract.question import Question
from contract.settings import Settings
from contract.verdict import Passage
from workers.engines.encoding import Encoded, PromptEncoder
from workers.scoring import Item, requests_of

__all__ = ["as_asked", "refuse_foreign_tokens", "request_tokens"]


def refuse_foreign_tokens(settings: Settings) -> None:
    """Raise SettingsError if the model, and so its tokenizer, is not here: `hf_model_id` would be another model's."""
    if not settings.runs_the_model:
        what = "a server has the model" if settings.engine == "openai" else "there is no model"
        raise SettingsError(
            f"engine: {settings.engine}: {what}, so its tokens cannot be shown.",
            hint="Use a deploy file with engine: vllm, or with boot_local: true: --config FILE.",
        )


def as_asked(ledger: Ledger, run: Run, question_id: str) -> tuple[Question, tuple[Passage, ...]]:
    """Return a question and the passages that it is asked with; if it is unsettled, all that were retrieved for it.

    Raises RunConfigError if it is to be asked with passages that are not retrieved yet.
    """
    question, verdict = ledger.result(run.run_id, question_id)
    if not wants_passages(question, run.spec):
        return question, ()
    found = ledger.retrieved(run.run_id, [question_id])
    if question_id not in found:
        raise RunConfigError(
            f"Question {question_id} of {run.run_id} has no passages{'' if verdict else ' yet'}: it was not asked.",
            hint="A worker that searches the index must look it up first; see python -m producer status.",
        )
    return question, found[question_id]


def request_tokens(
    run: Run, question: Question, passages: Sequence[Passage], encoder: PromptEncoder
) -> Iterator[dict[str, Any]]:
    """Yield the engine's input for `question`: per request the text, its token ids, and those of each continuation."""
    for encoded in encoder.encode(list(requests_of(Item(question, run.spec, tuple(passages))))):
        if not isinstance(encoded, Encoded):
            yield {"rejected": str(encoded)}
            continue
        yield {
            "text": encoded.text,
            "token_ids": encoded.prompt,
            "continuations": [
                {"text": text, "token_ids": tail}
                for text, tail in zip(encoded.continuations, encoded.tails, strict=True)
            ],
        }
