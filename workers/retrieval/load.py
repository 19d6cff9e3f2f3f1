"""Opening an index that was built before, and making sure that it is what it says."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from contract.errors import IndexUnusable
from contract.index import PASSAGES, Encoder, Manifest, read_manifest
from contract.spec import IndexKind
from contract.verdict import Passage
from workers.retrieval.base import Ranking, Retriever, Searcher
from workers.retrieval.bm25 import Bm25Searcher
from workers.retrieval.dense import DenseSearcher, VectorIndex
from workers.retrieval.encoder import TextEncoder
from workers.retrieval.files import BM25_FOLDER, DENSE_FILE, HeldFiles
from workers.retrieval.hybrid import HybridSearcher
from workers.retrieval.passages import Passages

__all__ = ["IndexRetriever", "load_index", "search_threads"]

log = logging.getLogger(__name__)


def load_index(path: Path) -> IndexRetriever:
    """The index in folder `path`, ready to be searched.

    Every file is hashed and compared with the manifest, a second or so per gigabyte.
    Raises IndexUnusable where files are missing, changed or another index's, or where the encoder is not the one that
    made the vectors; ModelNotFound where that encoder is not to be had.
    """
    manifest = read_manifest(path)
    files = HeldFiles(path, manifest.files)
    found = IndexRetriever(path, manifest, files, Passages(path / PASSAGES), _searchers(path, manifest))
    files.require_in_place()
    return found


def _searchers(path: Path, manifest: Manifest) -> dict[IndexKind, Searcher]:
    """Every way in which this index can be searched."""
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
    """The encoder that made the vectors, on the CPU: it must not take a GPU's memory from a model."""
    place = _place_of(expected, path)
    encoder = TextEncoder(
        place,
        device="cpu",
        threads=search_threads(),
        query_prompt=expected.query_prompt,
        passage_prompt=expected.passage_prompt,
    )
    if others := sorted(_differing(encoder.info, expected)):
        message = f"was made with another encoder {expected.id!r} than {place!r} here: other {', '.join(others)}"
        hint = "Bring the encoder here that it was made with, or build the index again with python -m producer index."
        raise IndexUnusable(message, path=path, hint=hint)
    if not expected.files:
        log.warning("index %s is from before an encoder's files were hashed: only its weights are compared", path)
    return encoder


def _place_of(encoder: Encoder, index: Path) -> str:
    """Its id; or, where that is a folder of another host, the folder of that name beside the index."""
    beside = index.resolve().parent / Path(encoder.id).name
    moved = Path(encoder.id).is_absolute() and not Path(encoder.id).is_dir() and beside.is_dir()
    return str(beside) if moved else encoder.id


def _differing(found: Encoder, expected: Encoder) -> Iterator[str]:
    """What of the encoder here is not as it was when the index was made."""
    if found.dimensions != expected.dimensions:
        yield f"dimensions ({found.dimensions}, not {expected.dimensions})"
    if expected.files:
        names = found.files.keys() | expected.files.keys()
        yield from (name for name in names if found.files.get(name) != expected.files.get(name))
    elif expected.weights_sha256 not in {None, *found.files.values()}:
        yield "weights"


def search_threads() -> int | None:
    """Threads of one search: what OMP_NUM_THREADS says, which the libraries read themselves, or a quarter of the cores.

    A search stands beside an engine that uses the others, and OpenMP's threads wait for each other by spinning: with
    more of them than cores are free, a search takes longer and burns several times the processor time.
    """
    return None if "OMP_NUM_THREADS" in os.environ else max(1, len(os.sched_getaffinity(0)) // 4)


class IndexRetriever(Retriever):
    """An index on the disk. `manifest` says what it is."""

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
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, found {top_k}")
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
            hint = f"Ask for kind {own}, or build it again with --kind {kind} or hybrid."
            raise IndexUnusable(f"is a {own} index and cannot be searched as {kind}", path=self.path, hint=hint)
        return self._searchers[kind]

    def _read(self, rankings: Sequence[Ranking]) -> list[list[Passage]]:
        """What was found, read from the disk in one go."""
        stored = iter(self._passages[list(chain.from_iterable(each.positions.tolist() for each in rankings))])
        return [
            [
                Passage(**next(stored)._asdict(), score=score, rank=rank)
                for rank, score in enumerate(ranking.scores.tolist(), start=1)
            ]
            for ranking in rankings
        ]
