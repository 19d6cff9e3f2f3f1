"""The passages of an index, read from disk on demand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from contract.index import StoredPassage

__all__ = ["Passages"]


class Passages:
    """The Arrow file of an index, memory-mapped: passages never retrieved are never read."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all().select(StoredPassage._fields)
        #: The table's parts as they were written. Rows are taken from these, as taking them from the table copies it.
        self._batches = table.to_batches()
        #: The columns of each batch, looked up once: Arrow makes new objects at every look.
        self._columns = [each.columns for each in self._batches]
        #: Position at which each batch starts, and the end of the last.
        self._starts: list[int] = [0, *accumulate(each.num_rows for each in self._batches)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, positions: Sequence[int]) -> list[StoredPassage]:
        """Return the passages at `positions`, in that order."""
        return [self._passage(each) for each in positions]

    def _passage(self, position: int) -> StoredPassage:
        at = bisect_right(self._starts, position) - 1
        row = position - self._starts[at]
        return StoredPassage(*[column[row].as_py() for column in self._columns[at]])

    def texts(self) -> Iterator[str]:
        """Yield all texts, in the index's order."""
        for batch in self._batches:
            yield from batch.column("text").to_pylist()
