"""Dense retrieval: FAISS over embeddings, with exact or HNSW search and float32 or binary vectors.

HNSW: Y. A. Malkov and D. A. Yashunin, 2018, arXiv:1603.09320. Binary vectors hold the sign of each dimension; they are
searched by Hamming distance and rescored with the query's full vector, as in sentence-transformers'
`semantic_search_faiss` (after I. Yamada, A. Asai and H. Hajishirzi, Efficient passage retrieval with hashing, 2021,
arXiv:2106.00882). Scores are cosines; for a binary passage, the cosine of the query and the passage's signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contract.errors import InputError
from contract.index import DenseOptions, Precision, Structure
from workers.retrieval.encoder import TextEncoder, Vectors
from workers.retrieval.files import writing
from workers.retrieval.ranking import Ranking, Searcher, best

__all__ = ["DenseSearcher", "VectorIndex", "vector_bytes"]

#: Edges per node of the graph, and candidates considered when building and (at least) when searching.
HNSW_EDGES = 32
HNSW_BUILDING = 200
HNSW_SEARCHING = 128
#: Candidates by Hamming distance per requested passage.
RESCORED = 4


def vector_bytes(dimensions: int, options: DenseOptions) -> int:
    """Return the memory per passage: its vector and its edges in the graph, which are doubled in the lowest layer."""
    vector = dimensions // 8 if options.precision is Precision.BINARY else 4 * dimensions
    return vector + (2 * HNSW_EDGES * 4 if options.structure is Structure.HNSW else 0)


class VectorIndex:
    """A FAISS index that can be extended, written, read and searched."""

    def __init__(self, index: Any, options: DenseOptions, threads: int | None = None) -> None:
        """Search with `threads` threads; None leaves the number to FAISS."""
        self._index = index
        self._options = options
        self._threads = threads

    @classmethod
    def empty(cls, dimensions: int, options: DenseOptions, room: int = 0) -> VectorIndex:
        """Return an empty index that already has the memory of `room` vectors.

        Raises InputError if FAISS does not support `dimensions` with these options.
        """
        import faiss

        if options.precision is Precision.BINARY and dimensions % 8:
            raise InputError(
                f"The signs of {dimensions} dimensions do not fill whole bytes.",
                hint="Build it with --precision float32.",
            )
        index: Any
        match options.structure, options.precision:
            case Structure.EXACT, Precision.FLOAT32:
                index = faiss.IndexFlatIP(dimensions)
            case Structure.EXACT, Precision.BINARY:
                index = faiss.IndexBinaryFlat(dimensions)
            case Structure.HNSW, Precision.FLOAT32:
                index = faiss.IndexHNSWFlat(dimensions, HNSW_EDGES, faiss.METRIC_INNER_PRODUCT)
            case Structure.HNSW, Precision.BINARY:
                index = faiss.IndexBinaryHNSW(dimensions, HNSW_EDGES)
        if options.structure is Structure.HNSW:
            index.hnsw.efConstruction = HNSW_BUILDING
            index.hnsw.efSearch = HNSW_SEARCHING
        _reserve(index, room)
        return cls(index, options)

    @classmethod
    def read(cls, path: Path, options: DenseOptions, threads: int | None = None) -> VectorIndex:
        """Open the index file `path`, memory-mapped if FAISS supports it, to be searched with `threads` threads."""
        import faiss

        read = faiss.read_index_binary if options.precision is Precision.BINARY else faiss.read_index
        return cls(read(str(path), faiss.IO_FLAG_MMAP_IFC), options, threads)

    def write(self, path: Path) -> None:
        """Write the index to `path`. Raises InputError if that fails."""
        import faiss

        write = faiss.write_index_binary if self._options.precision is Precision.BINARY else faiss.write_index
        with writing(path):
            write(self._index, str(path))
            self._require_whole(path)

    def _require_whole(self, path: Path) -> None:
        """Raise OSError if `path` is incomplete: FAISS only prints that its last bytes could not be written."""
        try:
            self.read(path, self._options)
        except RuntimeError:
            raise OSError("the end is missing") from None

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: Vectors) -> None:
        """Append the next passages' vectors."""
        self._index.add(_signs(vectors) if self._options.precision is Precision.BINARY else vectors)

    def find(self, queries: Vectors, top_k: int) -> list[Ranking]:
        """Return at most `top_k` passages for each row of `queries`, ties in the passages' order."""
        if self._threads is not None:
            import faiss

            faiss.omp_set_num_threads(self._threads)  # applies to the calling thread only
        if self._options.precision is Precision.BINARY:
            return self._find_by_signs(queries, top_k)
        # FAISS keeps arbitrary passages of those tied at the edge: search deeper until a lower score appears.
        wanted = min(top_k + 1, len(self))
        while True:
            scores, positions = self._index.search(queries, wanted)
            if wanted == len(self) or not _tied_at(top_k, positions, scores):
                return [_ranked(*row, top_k) for row in zip(positions, scores, strict=True)]
            wanted = min(2 * wanted, len(self))

    def _find_by_signs(self, queries: Vectors, top_k: int) -> list[Ranking]:
        _, positions = self._index.search(_signs(queries), min(RESCORED * top_k, len(self)))
        return [self._rescored(query, row, top_k) for query, row in zip(queries, positions, strict=True)]

    def _rescored(self, query: NDArray[np.float32], positions: NDArray[np.int64], top_k: int) -> Ranking:
        positions = positions[positions >= 0]
        bits = np.stack([self._index.reconstruct(int(position)) for position in positions])
        signs = np.unpackbits(bits, axis=1).astype(np.float32) * 2 - 1
        return best(positions, signs @ query / np.sqrt(np.float32(query.size)), top_k)


def _reserve(index: Any, room: int) -> None:
    """Take the memory of `room` vectors at once: a FAISS index that grows holds all of them twice at times."""
    import faiss

    binary, graph = isinstance(index, faiss.IndexBinary), hasattr(index, "hnsw")
    flat: Any = index
    if graph:
        flat = faiss.downcast_IndexBinary(index.storage) if binary else faiss.downcast_index(index.storage)
    vectors = flat.xb if binary else flat.codes
    vectors.resize(room * flat.code_size)
    vectors.resize(0)  # keeps the memory
    if graph:
        index.hnsw.neighbors.resize(room * (2 * HNSW_EDGES + 2))  # one vector in 32 has edges in higher layers
        index.hnsw.neighbors.resize(0)


def _signs(vectors: Vectors) -> NDArray[np.uint8]:
    return np.packbits(vectors > 0, axis=1)


def _tied_at(top_k: int, positions: NDArray[np.int64], scores: NDArray[np.float32]) -> bool:
    """Whether, for any query, the last passage found scores as high as the last of the `top_k`."""
    return bool(((scores[:, top_k - 1] == scores[:, -1]) & (positions[:, -1] >= 0)).any())


def _ranked(positions: NDArray[np.int64], scores: NDArray[np.float32], top_k: int) -> Ranking:
    # A graph may reach fewer passages than requested; the rest are -1.
    found = positions >= 0
    return best(positions[found], scores[found], top_k)


class DenseSearcher(Searcher):
    """Searcher over a vector index, with the encoder of its vectors."""

    def __init__(self, vectors: VectorIndex, encoder: TextEncoder) -> None:
        self._vectors = vectors
        self._encoder = encoder

    def find(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """See `Searcher.find`; encodes all queries in one call and searches them in one call."""
        return self._vectors.find(self._encoder.queries(queries), top_k)
