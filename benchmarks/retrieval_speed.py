"""How fast is an index, and what does it take, at 10 thousand, 100 thousand and a million synthetic passages?

Every measurement has its own process. BM25: passages of made-up words (`--words`) drawn by Zipf's law without its first
hundred words (where English has its stop words), indexed by `producer index`; queries of 10 words. Dense: the vectors
are made up, because encoding a million texts takes hours on a CPU, and so are those of the queries; the encoder is
measured separately. Queries come in batches of 16, with five passages each; wall and CPU time are medians over the
batches. `memory` is the increase of the process's private memory from before the index is loaded until after the
search; `mapped` is the resident part of the index's files, which the system can reclaim; `build` is the peak of the
command's largest process.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.command import Parser, positive, run
from benchmarks.jsonl import write_rows
from benchmarks.record import print_table, write
from benchmarks.stand import producer
from contract.chunks import chunks
from contract.index import DEFAULT_ENCODER, DenseOptions, Precision, Structure
from workers.retrieval.dense import VectorIndex
from workers.retrieval.encoder import TextEncoder, Vectors
from workers.retrieval.load import load_index, search_threads

BATCH, TOP_K, BATCHES = 16, 5, 30
QUERY_WORDS, VOCABULARY, COMMON_WORDS = 10, 200_000, 100
DIMENSIONS = 384
#: Vectors are drawn around this many centres, as texts have topics, which a graph index exploits.
TOPICS = 1000

Row = dict[str, Any]
Measured = TypeVar("Measured")
#: Called with a batch of queries.
Search = Callable[[Any], object]


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("parts", nargs="+", choices=("bm25", *map(str, Structure), "encoder"), help="parts to measure")
    parser.option("--sizes", positive, (10_000, 100_000, 1_000_000), "numbers of passages")
    parser.option("--words", positive, 40, "words of each passage (bm25)")
    options = parser.parse_args()
    rows = []
    for part in options.parts:
        for name, measurement in measurements(part, options.sizes, options.words):
            print(name, file=sys.stderr, flush=True)
            rows.append({"what": name, **alone(measurement)})
    print_table("Retrieval", rows)
    print(write("_".join(["retrieval_speed", *options.parts]), rows, options))


def measurements(part: str, sizes: Sequence[int], words: int) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the measurements of a part, with their names."""
    if part == "encoder":
        yield part, measure_encoder
    elif part == "bm25":
        yield from ((f"bm25 {size:,}", partial(measure_bm25, size, words)) for size in sizes)
    else:
        for precision, size in product(Precision, sizes):
            yield f"{part} {precision} {size:,}", partial(measure_dense, Structure(part), precision, size)


def alone(measure: Callable[[], Measured]) -> Measured:
    """Return the result of `measure` in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure).result()


def measure_bm25(size: int, words: int) -> Row:
    """Measure a BM25 index of `size` passages of so many words, with the real command and `load_index`."""
    with tempfile.TemporaryDirectory() as scratch:
        corpus, folder = Path(scratch) / "corpus.jsonl", Path(scratch) / "index"
        texts = made_up_texts(size, words)
        write_rows(corpus, ({"id": f"p{number}", "text": text} for number, text in enumerate(texts)))
        built = producer(os.environ, "index", str(corpus), "-o", str(folder), "--kind", "bm25")

        def load() -> Search:
            index = load_index(folder)
            return lambda batch: index.search(batch, TOP_K)

        found = report(load, made_up_queries(), size, built.wall_s, folder)
        return {**found, "build_mb": round(built.peak_rss_bytes / 1e6)}


def measure_dense(structure: Structure, precision: Precision, size: int) -> Row:
    """Measure a vector index like that in an index's folder."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "dense.faiss"
        options = DenseOptions(structure=structure, precision=precision)
        built_s = alone(partial(_build_dense, size, options, path))

        def load() -> Search:
            index = VectorIndex.read(path, options, search_threads())
            return lambda batch: index.find(batch, TOP_K)

        queries = (batch for block in made_up_vectors(BATCH * BATCHES, seed=1) for batch in np.split(block, BATCHES))
        return report(load, queries, size, built_s, Path(scratch))


def _build_dense(size: int, options: DenseOptions, path: Path) -> float:
    """Write an index of made-up vectors; return the seconds of adding them."""
    index = VectorIndex.empty(DIMENSIONS, options)
    built_s = 0.0
    for block in made_up_vectors(size):
        started = time.perf_counter()
        index.add(block)
        built_s += time.perf_counter() - started
    index.write(path)
    return built_s


def measure_encoder() -> Row:
    """Measure the packaged encoder on the CPU, with queries of made-up words."""
    return report(
        lambda: TextEncoder(DEFAULT_ENCODER, device="cpu", threads=search_threads()).queries, made_up_queries()
    )


def report(
    load: Callable[[], Search],
    queries: Iterable[Any],
    size: int | None = None,
    built_s: float | None = None,
    folder: Path | None = None,
) -> Row:
    """Return a row: load an index or encoder, and search it with the batches `queries`."""
    own, mapped = memory()
    started = time.perf_counter()
    search = load()
    loaded_s = time.perf_counter() - started
    speed = per_query(queries, search)
    own_now, mapped_now = memory()
    on_disk = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) if folder else None
    return {
        "passages": size,
        "built_s": built_s and round(built_s, 1),
        "loaded_s": round(loaded_s, 2),
        **speed,
        "memory_mb": round((own_now - own) / 1e6),
        "mapped_mb": round((mapped_now - mapped) / 1e6),
        "disk_mb": on_disk and round(on_disk / 1e6),
    }


def memory() -> tuple[int, int]:
    """Return the private and the file-backed resident bytes of this process."""
    found = psutil.Process().memory_info()
    return found.rss - found.shared, found.shared


def per_query(asked: Iterable[Any], search: Search) -> Row:
    """Return medians over the batches, after one that warms up."""
    wall_s, processor_s = [], []
    for batch in asked:
        started = time.perf_counter(), time.process_time()
        search(batch)
        wall_s.append(time.perf_counter() - started[0])
        processor_s.append(time.process_time() - started[1])
    return {
        "queries/s": round(BATCH / statistics.median(wall_s[1:]), 1),
        "cpu_ms/query": round(1000 * statistics.median(processor_s[1:]) / BATCH, 3),
    }


def made_up_queries() -> Iterator[list[str]]:
    """Yield batches of texts to search for."""
    return chunks(made_up_texts(BATCH * BATCHES, QUERY_WORDS, seed=1), BATCH)


def made_up_texts(count: int, words: int, seed: int = 0) -> Iterator[str]:
    """Yield texts of `words` words, the same for the same seed."""
    drawn = np.random.default_rng(seed)
    weights = 1 / (np.arange(VOCABULARY) + COMMON_WORDS)
    edges = np.cumsum(weights / weights.sum())
    for first in range(0, count, 10_000):
        numbers = np.searchsorted(edges, drawn.random((min(10_000, count - first), words)))
        for row in numbers.tolist():
            yield " ".join(f"w{number}" for number in row)


def made_up_vectors(count: int, seed: int = 0) -> Iterator[Vectors]:
    """Yield blocks of unit vectors around centres that do not depend on the seed."""
    centres = np.random.default_rng(99).standard_normal((TOPICS, DIMENSIONS), dtype=np.float32)
    drawn = np.random.default_rng(seed)
    for first in range(0, count, 10_000):
        rows = min(10_000, count - first)
        found: NDArray[np.float32] = centres[drawn.integers(0, TOPICS, rows)]
        found = found + drawn.standard_normal((rows, DIMENSIONS), dtype=np.float32)
        yield found / np.linalg.norm(found, axis=1, keepdims=True)


if __name__ == "__main__":
    run(main)
