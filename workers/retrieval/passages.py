"""The passages of an index, read from the disk as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contract.index import StoredPassage

__all__ = ["Passages"]


class Passages:
    """The Arrow file of an index, memory-mapped: what is never retrieved is never read."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._table = pa.ipc.open_file(pa.memory_map(str(path))).read_all().select(StoredPassage._fields)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, positions: Sequence[int]) -> list[StoredPassage]:
        """The passages at `positions`, in that order."""
        rows: list[dict[str, Any]] = self._table.take(np.asarray(positions, dtype=np.int64)).to_pylist()
        return [StoredPassage(**row) for row in rows]

    def texts(self) -> Iterator[str]:
        """All texts, in the index's order."""
        for chunk in self._table.column("text").iterchunks():
            yield from chunk.to_pylist()
