"""The vectors of an index: found as by brute force, in every structure and precision, and written to the disk."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from contract.errors import InputError
from contract.index import DenseOptions, Precision, Structure
from tests.unit.producer.conftest import room_per_file
from workers.retrieval.build import device_errors
from workers.retrieval.dense import VectorIndex, vector_bytes
from workers.retrieval.encoder import Vectors


def unit_vectors(count: int, dimensions: int = 64, seed: int = 0) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float32)


def filled(vectors: Vectors, options: DenseOptions, path: Path) -> VectorIndex:
    """An index that was written and read again, as all are that serve."""
    made = VectorIndex.empty(vectors.shape[1], options)
    made.add(vectors[:10])
    made.add(vectors[10:])
    made.write(path)
    return VectorIndex.read(path, options)


@pytest.mark.parametrize("top_k", [1, 7, 500])
def test_the_nearest_vectors_are_those_of_a_brute_force_search(tmp_path: Path, top_k: int) -> None:
    vectors, queries = unit_vectors(300), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(), tmp_path / "v")
    for found, row in zip(index.find(queries, top_k), queries @ vectors.T, strict=True):
        assert found.positions.tolist() == np.argsort(-row)[:top_k].tolist()
        assert found.scores == pytest.approx(np.sort(row)[::-1][:top_k], abs=1e-5)


@pytest.mark.parametrize("top_k", [10, 500])
def test_a_graph_finds_nearly_all_of_the_nearest_with_their_true_scores(tmp_path: Path, top_k: int) -> None:
    vectors, queries = unit_vectors(300), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(structure=Structure.HNSW), tmp_path / "v")
    for found, row in zip(index.find(queries, top_k), queries @ vectors.T, strict=True):
        nearest = np.argsort(-row)[:top_k]
        assert len(set(found.positions.tolist()) & set(nearest.tolist())) >= 0.9 * len(nearest)
        assert found.scores == pytest.approx(row[found.positions], abs=1e-5)
        assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize("structure", Structure)
def test_binary_vectors_are_scored_again_with_the_full_query(tmp_path: Path, structure: Structure) -> None:
    vectors, queries = unit_vectors(40), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(structure=structure, precision=Precision.BINARY), tmp_path / "v")
    signs = np.where(vectors > 0, 1, -1) / np.sqrt(vectors.shape[1])
    for found, row in zip(index.find(queries, 10), queries @ signs.T, strict=True):
        # Four candidates for each of ten: all forty are scored again, or those that the graph reaches.
        reached = 1.0 if structure is Structure.EXACT else 0.9
        assert len(set(found.positions.tolist()) & set(np.argsort(-row)[:10].tolist())) >= 10 * reached
        assert found.scores == pytest.approx(row[found.positions], abs=1e-5)
        assert (np.diff(found.scores) <= 0).all()


def test_binary_candidates_are_the_nearest_by_hamming_distance(tmp_path: Path) -> None:
    vectors, queries = unit_vectors(500), unit_vectors(9, seed=1)
    index = filled(vectors, DenseOptions(precision=Precision.BINARY), tmp_path / "v")
    for found, query in zip(index.find(queries, 5), queries, strict=True):
        distances = ((vectors > 0) != (query > 0)).sum(axis=1)
        assert (distances[found.positions] <= np.sort(distances)[4 * 5 - 1]).all()


def test_equal_vectors_come_in_the_passages_order_at_the_edge_too(tmp_path: Path) -> None:
    vectors = np.concatenate([unit_vectors(1)] * 30 + [unit_vectors(1, seed=1)] + [unit_vectors(1)] * 30)
    (found,) = filled(vectors, DenseOptions(), tmp_path / "v").find(vectors[30:31], 4)
    assert found.positions.tolist() == [30, 0, 1, 2]


def test_vectors_that_are_added_in_their_room_take_no_more_memory_than_a_build_asks_for() -> None:
    """They took twice that, although the build had found enough for all of them."""
    count, dimensions, options = 132 * 1024, 64, DenseOptions()
    program = f"""
import numpy as np
from contract.index import DenseOptions
from workers.retrieval.dense import VectorIndex, vector_bytes
def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
vectors = VectorIndex.empty({dimensions}, DenseOptions(), {count})
before, some = peak_bytes(), np.ones((1024, {dimensions}), np.float32)
while len(vectors) < {count}:
    vectors.add(some)
print(peak_bytes() - before)
"""
    more = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert more < 0.5 * count * vector_bytes(dimensions, options)


@pytest.mark.parametrize("structure", list(Structure))
@pytest.mark.parametrize("precision", list(Precision))
def test_room_for_vectors_changes_no_index(tmp_path: Path, structure: Structure, precision: Precision) -> None:
    options = DenseOptions(structure=structure, precision=precision)
    written = []
    for room in (0, 50, 300):
        made = VectorIndex.empty(16, options, room)
        for block in np.split(unit_vectors(200, 16), 4):
            made.add(block)
        made.write(tmp_path / "x")
        written.append((tmp_path / "x").read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize(("missing", "reason"), [(1, "the end is missing"), (70_000, "File too large")])
def test_vectors_that_do_not_fit_on_the_disk_are_told_with_their_file(
    tmp_path: Path, missing: int, reason: str
) -> None:
    """It was said that the device cannot be used, or nothing, and workers could not open the index."""
    vectors = filled(unit_vectors(300), DenseOptions(), tmp_path / "x")
    with (
        room_per_file((tmp_path / "x").stat().st_size - missing),
        pytest.raises(InputError, match=rf"/y: cannot be written: {reason}\. Check the disk space"),
        device_errors("cpu"),
    ):
        vectors.write(tmp_path / "y")


def test_vectors_whose_file_cannot_be_made_are_told_with_the_systems_reason(tmp_path: Path) -> None:
    """It was told with the signature of a function of FAISS's."""
    vectors = filled(unit_vectors(3), DenseOptions(), tmp_path / "x")
    (tmp_path / "y").mkdir()
    with pytest.raises(InputError, match=r"/y: cannot be written: Is a directory\. Check the disk space"):
        vectors.write(tmp_path / "y")


def test_signs_need_whole_bytes() -> None:
    with pytest.raises(
        InputError, match=r"The signs of 12 dimensions do not fill whole bytes\. Build it with --precision"
    ):
        VectorIndex.empty(12, DenseOptions(precision=Precision.BINARY))


def test_a_search_keeps_to_its_threads_in_whatever_thread_it_is_asked(tmp_path: Path) -> None:
    import faiss

    vectors, options = unit_vectors(50), DenseOptions()
    filled(vectors, options, tmp_path / "x")
    index = VectorIndex.read(tmp_path / "x", options, threads=1)
    seen: list[int] = []

    def ask() -> None:
        faiss.omp_set_num_threads(2)
        index.find(vectors[:1], 1)
        seen.append(faiss.omp_get_max_threads())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen == [1]
