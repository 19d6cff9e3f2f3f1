"""What transformers computes on this machine's CPU in float32, as the reference for a GPU's scores."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager

from contract.errors import RequestRejected
from contract.question import LABELS
from workers.engines.encoding import PromptEncoder
from workers.engines.model_tokenizer import load_tokenizer
from workers.parent import follow_parent
from workers.scoring import Item, requests_of

__all__ = ["IEEE", "cpu_scores", "differing", "scoring_apart"]

#: For a GPU's engine in float32: otherwise Triton computes the products of its attention in TF32.
IEEE = {"TRITON_F32_DEFAULT": "ieee"}
#: The order of choices that are closer than this, in nats, may change.
NEAR_TIE_NATS = 0.01


def cpu_scores(model: str, items: Sequence[Item]) -> Iterator[list[float]]:
    """Yield the log-probability of each continuation of every item, in nats; `model` is a folder or a hub id."""
    import torch
    from transformers import AutoModelForCausalLM

    encoder = PromptEncoder(load_tokenizer(model))
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for item in items:
        (encoded,) = encoder.encode(list(requests_of(item)))
        if isinstance(encoded, RequestRejected):
            raise encoded
        start, fed = len(encoded.prompt), {}
        for head in dict.fromkeys(tuple(tail[:-1]) for tail in encoded.tails):  # labels share one pass of the prompt
            with torch.no_grad():
                fed[head] = network(torch.tensor([[*encoded.prompt, *head]])).logits[0, start - 1 :].log_softmax(-1)
        scores = [sum(float(fed[tuple(tail[:-1])][i, token]) for i, token in enumerate(tail)) for tail in encoded.tails]
        yield scores


@contextmanager
def scoring_apart(model: str, items: Mapping[str, Sequence[Item]]) -> Iterator[Mapping[str, Future[list[list[float]]]]]:
    """Begin `cpu_scores` for each value of `items`, and yield what its results will be, under the same names.

    One process of its own computes them; its memory and threads are gone when the block is left.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=follow_parent) as pool:
        yield {name: pool.submit(_all_scores, model, list(some)) for name, some in items.items()}


def _all_scores(model: str, items: list[Item]) -> list[list[float]]:
    return list(cpu_scores(model, items))


def differing(chosen: Sequence[str | None], truth: Sequence[Sequence[float]]) -> int:
    """Return how many of the `chosen` labels are not the most likely choice by `truth`, ignoring near-ties."""
    wrong = 0
    for label, scores in zip(chosen, truth, strict=True):
        best, second = sorted(scores, reverse=True)[:2]
        wrong += best - second >= NEAR_TIE_NATS and label != LABELS[scores.index(best)]
    return wrong
