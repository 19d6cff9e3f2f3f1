"""What do shared prefixes save, and does the order in which questions are asked decide it?

`order`: questions about `--contexts` texts, `--each` of them about one, by one worker's engine in batches of 16, with a
prefix cache that holds a few of the texts. Once as a shuffled file has them, and once as `enqueue` sends them: those
about one text together (`producer/runs/prefix_order.py`).

`warm-up`: the first 16 questions after a prefix that the engine has never seen (eight solved examples). Once all at
once, and once with the first of them asked alone, so that the prefix lies in the cache when the others come.

Both sides of a pair take turns; every round's prompts begin with its number, so that nothing of an earlier round is in
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
from benchmarks.stand import DEPLOY
from contract.chunks import chunks
from contract.question import Question
from contract.settings import load_settings
from contract.spec import RunSpec
from producer.intake.survey import survey, taken
from producer.readers import Source
from producer.runs.prefix_order import PrefixOrder
from producer.runs.runconfig import load_run_config
from workers.engines.base import Engine
from workers.pipeline import Item, score_batch
from workers.tuning.trials import marked

BATCH = 16
PASSAGES = 8
#: Small enough that a few texts fill it, and as large as one context of the model.
CACHE_BYTES = 48 * 1024**2
DEMO = Path("demo")
#: Asks the round's questions in that side's way: seconds, and the share of prefilled tokens that came from the cache.
Side = Callable[[str], tuple[float, float]]


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--config", existing_file, DEPLOY, "deploy file")
    parser.option("--contexts", positive, 12, "texts")
    parser.option("--each", positive, 4, "questions about each")
    parser.option("--rounds", positive, 5, "times that each pair is asked")
    options = parser.parse_args()
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
    print(write("prefix_cache", rows, options.out, engine=about))


def order(engine: Engine, contexts: int, each: int, rounds: int) -> dict[str, Any]:
    """Shuffled against together."""
    shuffled = about_texts(contexts, each)
    spec = asked("mode=letter", "rag.use_context_field=true")
    prefix_order = PrefixOrder(spec)
    for question in shuffled:
        prefix_order.add(question)
    by_id = {question.id: question for question in shuffled}
    together = [by_id[name] for name in prefix_order.grouped(by_id)]

    def side(in_order: Sequence[Question], name: str) -> Side:
        return lambda mark: score(engine, [Item(each, marked(spec, f"{name}, {mark}.")) for each in in_order])

    sides = {"shuffled": side(shuffled, "Shuffled"), "together": side(together, "Together")}
    return {"pair": "order", "questions": len(shuffled), **compared(sides, rounds)}


def warm_up(engine: Engine, rounds: int) -> dict[str, Any]:
    """All at once against the first one alone before."""
    first = questions(BATCH)
    spec = asked("mode=letter", "few_shot.k=8", f"few_shot.file={DEMO / 'examples.jsonl'}")

    def at_once(mark: str) -> tuple[float, float]:
        return score(engine, [Item(each, marked(spec, f"At once, {mark}.")) for each in first])

    def warmed(mark: str) -> tuple[float, float]:
        items = [Item(each, marked(spec, f"Warmed, {mark}.")) for each in first]
        warming_s, _ = score(engine, items[:1])
        rest_s, cached = score(engine, items[1:])
        return warming_s + rest_s, cached

    return {"pair": "warm-up", "questions": BATCH, **compared({"at once": at_once, "warmed": warmed}, rounds)}


def compared(sides: Mapping[str, Side], rounds: int) -> dict[str, Any]:
    """The two sides' medians, and how many times as fast the second one is."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    shares: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name, ask in sides.items():
            taken_s, cached = ask(f"round {number}")
            seconds[name].append(taken_s)
            shares[name].append(cached)
            print(f"round {number}: {name} {taken_s:.2f} s, {cached:.0%} from the cache", file=sys.stderr)
    first, second = sides
    ratios = [one / other for one, other in zip(seconds[first], seconds[second], strict=True)]
    found: dict[str, Any] = {f"{name}, s": statistics.median(each) for name, each in seconds.items()}
    found |= {f"{name}, cached": statistics.median(each) for name, each in shares.items()}
    return {**found, f"{second} to {first}": statistics.median(ratios), "rounds": [round(each, 3) for each in ratios]}


def score(engine: Engine, asked_for: Sequence[Item]) -> tuple[float, float]:
    """Seconds for all of them in batches, one after another, and the share of tokens from the cache."""
    started = time.monotonic()
    verdicts = [verdict for batch in chunks(asked_for, BATCH) for verdict in score_batch(batch, engine)]
    seconds = time.monotonic() - started
    return seconds, sum(each.cached_tokens for each in verdicts) / sum(each.prefill_tokens for each in verdicts)


def about_texts(contexts: int, each: int) -> list[Question]:
    """Demo questions, each with one of `contexts` texts made of the demo's corpus, in an order drawn by a seed."""
    draw = random.Random(0)
    corpus = [row["text"] for row in read_rows(DEMO / "corpus.jsonl")]
    texts = [" ".join(draw.sample(corpus, PASSAGES)) for _ in range(contexts)]
    found = [
        question.model_copy(update={"context": texts[place % contexts]})
        for place, question in enumerate(questions(contexts * each))
    ]
    draw.shuffle(found)
    return found


def questions(count: int) -> list[Question]:
    """The demo's first questions."""
    path = DEMO / "questions.jsonl"
    return list(islice(taken(survey(Source(path, path.name))), count))


def asked(*overrides: str) -> RunSpec:
    """How they are asked."""
    return load_run_config(None, overrides).to_spec("0" * 64, load_settings())


if __name__ == "__main__":
    run(main)
