"""How a chat template affects the comparison with lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contract.prompts import all_turns
from contract.question import Question
from contract.settings import Settings
from contract.spec import ChatTemplate, RunSpec
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import ScoreRequest
from workers.engines.encoding import Encoded, PromptEncoder
from workers.engines.model_tokenizer import load_tokenizer
from workers.scoring import MODES

__all__ = ["flags", "shown_texts", "white_space"]


def flags(chat: ChatTemplate) -> list[str]:
    """Return lm_eval's options for that template setting."""
    if chat is ChatTemplate.NEVER:
        return []
    return ["--apply_chat_template", "--fewshot_as_multiturn", str(chat is ChatTemplate.TURNS).lower()]


def shown_texts(questions: Sequence[Question], spec: RunSpec, model: Path) -> dict[str, str]:
    """Return question id → the text that the engine receives, including the chat template."""
    requests = [MODES[spec.mode].ask(question, all_turns(question, spec)[0], spec)[0] for question in questions]
    texts: dict[str, str] = {}
    encoder = PromptEncoder(load_tokenizer(model))
    for question, encoded in zip(questions, encoder.encode(requests), strict=True):
        if not isinstance(encoded, Encoded):
            raise encoded
        texts[question.id] = encoded.text
    return texts


def white_space(prompts: Sequence[str], settings: Settings) -> list[float]:
    """Return, for each prompt, the log-probability of its trailing white space after the rest of it; 0 if it has none.

    lm_eval removes that white space from the prompt and counts it towards each choice (`_encode_pair`), which is right
    if the tokenizer makes one token of the two. But the line break of a chat template before the model's turn is a
    token of its own: the template writes it, and no choice changes how likely it is.
    """
    bare = [prompt.rstrip() for prompt in prompts]
    ends = [prompt[len(rest) :] for prompt, rest in zip(prompts, bare, strict=True)]
    asked = [ScoreRequest(one_turn(rest), (end,)) for rest, end in zip(bare, ends, strict=True) if end]
    engine = make_engine(settings)
    engine.start()
    try:
        found = iter(engine.generate(asked))
    finally:
        engine.close()
    return [next(found).logprobs[0] if end else 0.0 for end in ends]
