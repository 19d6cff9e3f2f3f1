"""What do shared prefixes save, and does it depend on the order of the questions?

`order`: questions about `--contexts` texts, `--each` of them about the same one, on one worker's engine in batches of
16, with a prefix cache that holds a few of the texts. Once in shuffled order, and once as `enqueue` sends them, with
those about one text together (`contract/prefix_order.py`).

`warm-up`: the first 16 questions after a prefix that is new to the engine (eight solved examples). Once all at once,
and once with the first question asked alone, so that the prefix is in the cache for the others.

Both sides of a pair alternate. The prompts of a round begin with its number, so that nothing of an earlier round is in
the cache. Ratios are taken within a round, and the median over the rounds counts.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.asking import described, engine_of
from benchmarks.command import Parser, existing_file, positive, run
from benchmarks.jsonl import read_rows
from benchmarks.record import print_table, without, write
from benchmarks.stand import USERS_DEPLOY, refuse_failures
from contract.chunks import chunks
from contract.prefix_order import PrefixOrder
from contract.question import Question
from contract.settings import load_settings
from contract.spec import RunSpec
from contract.wording import number
from producer.intake.survey import survey
from producer.readers import Source
from producer.runs.runconfig import load_run_config
from workers.engines.base import Engine
from workers.pipeline import score_batch
from workers.scoring import Item
from workers.tuning.trials import marked

BATCH = 16
PASSAGES = 8
#: Small enough to be filled by a few texts, and large enough for one context of the model.
CACHE_BYTES = 48 * 1024**2
DEMO = Path("demo")
#: Asks a round's questions in one way; returns the seconds, and the share of prefilled tokens that came from the cache.
Side = Callable[[str], tuple[float, float]]


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--config", existing_file, USERS_DEPLOY, "deploy file")
    parser.option("--contexts", positive, 12, "number of texts")
    parser.option("--each", positive, 4, "questions about each text")
    parser.option("--rounds", positive, 5, "rounds of each pair")
    options = parser.parse_args()
    if options.contexts * options.each > (there := len(questions())):
        parser.error(f"--contexts, --each: the demo has {number(there, 'question')}")
    overrides = [f"vllm_args.kv_cache_memory_bytes={CACHE_BYTES}", "vllm_args.max_model_len=1024"]
    settings = load_settings(options.config, overrides)
    with engine_of(settings) as engine:
        score(engine, [Item(each, asked("mode=letter")) for each in questions(4)])
        rows = [
            order(engine, options.contexts, options.each, options.rounds),
            warm_up(engine, options.rounds),
        ]
        about = described(engine, settings)
    print_table("prefix cache", [without(row, "rounds") for row in rows])
    print(write("prefix_cache", rows, options, engine=about))


def order(engine: Engine, contexts: int, each: int, rounds: int) -> dict[str, Any]:
    """Compare the shuffled order with questions about the same text together."""
    shuffled = about_texts(contexts, each)
    spec = asked("mode=letter", "rag.use_context_field=true")
    prefix_order = PrefixOrder(spec)
    for question in shuffled:
        prefix_order.add(question)
    by_id = {question.id: question for question in shuffled}
    together = [by_id[name] for name in prefix_order.grouped(list(by_id))]
    sides = {"shuffled": side(engine, shuffled, spec, "Shuffled"), "together": side(engine, together, spec, "Together")}
    return {"pair": "order", "questions": len(shuffled), **compared(sides, rounds)}


def warm_up(engine: Engine, rounds: int) -> dict[str, Any]:
    """Compare asking all at once with asking the first one alone before."""
    first = questions(BATCH)
    spec = asked("mode=letter", "few_shot.k=8", f"few_shot.file={DEMO / 'examples.jsonl'}")
    sides = {"at once": side(engine, first, spec, "At once"), "warmed": side(engine, first, spec, "Warmed", alone=1)}
    return {"pair": "warm-up", "questions": BATCH, **compared(sides, rounds)}


def side(engine: Engine, in_order: Sequence[Question], spec: RunSpec, name: str, alone: int = 0) -> Side:
    """Return what asks these questions, in prompts that begin with `name`; `alone` is as in `score`."""
    return lambda mark: score(engine, [Item(each, marked(spec, f"{name}, {mark}.")) for each in in_order], alone)


def compared(sides: Mapping[str, Side], rounds: int) -> dict[str, Any]:
    """Return the medians of both sides, and how many times as fast the second one is."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    shares: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name, ask in sides.items():
            taken_s, cached = ask(f"round {turn}")
            seconds[name].append(taken_s)
            shares[name].append(cached)
            print(f"round {turn}: {name} {taken_s:.2f} s, {cached:.0%} from the cache", file=sys.stderr)
    first, second = sides
    ratios = [one / other for one, other in zip(seconds[first], seconds[second], strict=True)]
    found: dict[str, Any] = {f"{name}, s": statistics.median(each) for name, each in seconds.items()}
    found |= {f"{name}, cached": statistics.median(each) for name, each in shares.items()}
    return {**found, f"{second} to {first}": statistics.median(ratios), "rounds": [round(each, 3) for each in ratios]}


def score(engine: Engine, asked_for: Sequence[Item], alone: int = 0) -> tuple[float, float]:
    """Score all in batches, one after another; return the seconds and the share of tokens from the cache.

    The first ones, `alone` of them, are a batch by themselves.
    """
    batches = [asked_for[:alone], *chunks(asked_for[alone:], BATCH)]
    started = time.monotonic()
    verdicts = [verdict for batch in batches if batch for verdict in score_batch(batch, engine)]
    seconds = time.monotonic() - started
    refuse_failures(verdicts)
    return seconds, sum(each.cached_tokens for each in verdicts) / sum(each.prefill_tokens for each in verdicts)


def about_texts(contexts: int, each: int) -> list[Question]:
    """Return demo questions, each with one of `contexts` texts from the demo's corpus, in seeded random order."""
    draw = random.Random(0)
    corpus = [row["text"] for row in read_rows(DEMO / "corpus.jsonl")]
    texts = [" ".join(draw.sample(corpus, PASSAGES)) for _ in range(contexts)]
    found = [
        question.model_copy(update={"context": texts[place % contexts]})
        for place, question in enumerate(questions(contexts * each))
    ]
    draw.shuffle(found)
    return found


def questions(count: int | None = None) -> list[Question]:
    """Return the questions of the demo, or the first `count`."""
    path = DEMO / "questions.jsonl"
    return list(islice(survey(Source(path, path.name)).questions(), count))


def asked(*overrides: str) -> RunSpec:
    """Return the spec with these overrides."""
    return load_run_config(None, overrides).to_spec("0" * 64, load_settings())


if __name__ == "__main__":
    run(main)
