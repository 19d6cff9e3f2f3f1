"""Loading and verification of an index."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from contract.errors import IndexUnusable
from contract.index import PASSAGES, Encoder, Manifest, read_manifest
from contract.spec import IndexKind
from contract.verdict import Passage
from workers.cpu_quota import usable_cores
from workers.retrieval.base import Retriever
from workers.retrieval.bm25 import Bm25Searcher
from workers.retrieval.dense import DenseSearcher, VectorIndex
from workers.retrieval.encoder import TextEncoder
from workers.retrieval.files import BM25_FOLDER, DENSE_FILE, HeldFiles
from workers.retrieval.hybrid import HybridSearcher
from workers.retrieval.passages import Passages
from workers.retrieval.ranking import Ranking, Searcher

__all__ = ["IndexRetriever", "load_index", "search_threads"]

log = logging.getLogger(__name__)


def load_index(path: Path) -> IndexRetriever:
    """Load the index in folder `path` for searching.

    Every file is hashed and compared with the manifest, which takes about a second per gigabyte.
    Raises IndexUnusable if files are missing, changed or from another index, or if the encoder is not the one that
    computed the vectors; ModelNotFound if that encoder is unavailable.
    """
    manifest = read_manifest(path)
    files = HeldFiles(path, manifest.files)
    found = IndexRetriever(path, manifest, files, Passages(path / PASSAGES), _searchers(path, manifest))
    files.require_in_place()
    return found


def _searchers(path: Path, manifest: Manifest) -> dict[IndexKind, Searcher]:
    """Return a searcher for each search method that this index supports."""
    searchers: dict[IndexKind, Searcher] = {}
    if manifest.plan.bm25:
        searchers[IndexKind.BM25] = Bm25Searcher(path / BM25_FOLDER, manifest.plan.bm25)
    if manifest.plan.dense and manifest.encoder:
        encoder = _encoder(path, manifest.encoder)
        vectors = VectorIndex.read(path / DENSE_FILE, manifest.plan.dense, search_threads())
        searchers[IndexKind.DENSE] = DenseSearcher(vectors, encoder)
    if len(searchers) > 1:
        searchers[IndexKind.HYBRID] = HybridSearcher(tuple(searchers.values()))
    return searchers


def _encoder(path: Path, expected: Encoder) -> TextEncoder:
    """Load the encoder of the vectors on the CPU, as it must not take GPU memory from a model."""
    place = _place_of(expected, path)
    encoder = TextEncoder(
        place,
        device="cpu",
        threads=search_threads(),
        query_prompt=expected.query_prompt,
        passage_prompt=expected.passage_prompt,
    )
    if others := sorted(_differing(encoder.info, expected)):
        message = f"was built with a different encoder {expected.id!r} than {place!r} here; differing: "
        hint = "Copy the original encoder to this host, or build the index again with python -m producer index."
        raise IndexUnusable(message + ", ".join(others), path=path, hint=hint)
    if not expected.files:
        log.warning("index %s predates the hashing of encoder files: only the encoder's weights are compared", path)
    return encoder


def _place_of(encoder: Encoder, index: Path) -> str:
    """Return the encoder's id; or, if that is a folder of another host, the folder of that name next to the index."""
    beside = index.resolve().parent / Path(encoder.id).name
    moved = Path(encoder.id).is_absolute() and not Path(encoder.id).is_dir() and beside.is_dir()
    return str(beside) if moved else encoder.id


def _differing(found: Encoder, expected: Encoder) -> Iterator[str]:
    """Yield what differs between this encoder and the one that the index was built with."""
    if found.dimensions != expected.dimensions:
        yield f"dimensions ({found.dimensions}, not {expected.dimensions})"
    if expected.files:
        names = found.files.keys() | expected.files.keys()
        yield from (name for name in names if found.files.get(name) != expected.files.get(name))
    elif expected.weights_sha256 not in {None, *found.files.values()}:
        yield "weights"


def search_threads() -> int | None:
    """Return the threads per search, or None if OMP_NUM_THREADS, read by the libraries, is set.

    They are a quarter of the cores, or of those that a CPU quota leaves. A search shares the machine with an engine,
    and OpenMP threads wait for each other by spinning: with more threads than free cores, a search takes longer and
    burns several times the CPU time.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, math.ceil(usable_cores()) // 4)


class IndexRetriever(Retriever):
    """Retriever over an index on disk, described by `manifest`."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        files: HeldFiles,
        passages: Passages,
        searchers: Mapping[IndexKind, Searcher],
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._files = files
        self._passages = passages
        self._searchers = searchers

    def changed(self) -> bool:
        """See `Retriever.changed`."""
        return self._files.changed()

    def search(self, queries: Sequence[str], top_k: int, kind: IndexKind | None = None) -> list[list[Passage]]:
        """See `Retriever.search`."""
        searcher = self._searcher(kind or self.manifest.plan.kind)
        asked = [at for at, query in enumerate(queries) if query.strip()]
        rankings = searcher.find([queries[at] for at in asked], min(top_k, len(self._passages))) if asked else []
        found: list[list[Passage]] = [[] for _ in queries]
        for at, passages in zip(asked, self._read(rankings), strict=True):
            found[at] = passages
        return found

    def _searcher(self, kind: IndexKind) -> Searcher:
        if kind not in self._searchers:
            own = self.manifest.plan.kind
            hint = f"Use kind {own}, or build it again with --kind {kind} or hybrid."
            raise IndexUnusable(f"is a {own} index and cannot be searched as {kind}", path=self.path, hint=hint)
        return self._searchers[kind]

    def _read(self, rankings: Sequence[Ranking]) -> list[list[Passage]]:
        """Read the passages of all rankings from disk in one call."""
        stored = iter(self._passages[list(chain.from_iterable(each.positions.tolist() for each in rankings))])
        return [
            [
                Passage(**next(stored)._asdict(), score=score, rank=rank)
                for rank, score in enumerate(ranking.scores.tolist(), start=1)
            ]
            for ranking in rankings
        ]
