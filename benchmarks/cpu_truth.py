"""What transformers computes on this machine's CPU in float32: the truth that a GPU's scores are held against."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from contract.errors import RequestRejected
from contract.question import LABELS
from workers.engines.encoding import PromptEncoder
from workers.pipeline import Item
from workers.scoring import requests_of

__all__ = ["IEEE", "cpu_scores", "differing", "scores_apart"]

#: For a GPU's engine in float32: the products of its attention, which Triton makes, are TF32's otherwise.
IEEE = {"TRITON_F32_DEFAULT": "ieee"}
#: Choices that are closer than this, in nats, may change places.
NEAR_TIE_NATS = 0.01


def cpu_scores(model: str, items: Sequence[Item]) -> Iterator[list[float]]:
    """Log-probability of every continuation of every item, in nats; `model` is a folder or a hub id."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    encoder = PromptEncoder(AutoTokenizer.from_pretrained(model))
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for item in items:
        (encoded,) = encoder.encode(list(requests_of(item)))
        if isinstance(encoded, RequestRejected):
            raise encoded
        scores = []
        for tail in encoded.tails:
            with torch.no_grad():
                logprobs = network(torch.tensor([encoded.prompt + tail])).logits[0].log_softmax(-1)
            start = len(encoded.prompt)
            scores.append(sum(float(logprobs[start + i - 1, token]) for i, token in enumerate(tail)))
        yield scores


def scores_apart(model: str, items: Sequence[Item]) -> list[list[float]]:
    """The same in a process of its own: vLLM forks its core, which may hang where torch has had threads before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_all_scores, model, list(items)).result()


def _all_scores(model: str, items: list[Item]) -> list[list[float]]:
    return list(cpu_scores(model, items))


def differing(chosen: Sequence[str | None], truth: Sequence[Sequence[float]]) -> int:
    """How many of the `chosen` labels are not the likeliest choice of `truth`, near-ties left out."""
    wrong = 0
    for label, scores in zip(chosen, truth, strict=True):
        best, second = sorted(scores, reverse=True)[:2]
        wrong += best - second >= NEAR_TIE_NATS and label != LABELS[scores.index(best)]
    return wrong
