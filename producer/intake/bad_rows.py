"""Collecting the errors of a file's or corpus's rows: all are counted by kind, the first distinct ones are kept.

Skipped rows are written to `rejected.jsonl`.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from contract.errors import QuestionFileError
from producer.beyond_json import in_text

__all__ = ["BadRows", "rejected_line", "rejected_row", "write_rejected_row"]

#: Maximum number of distinct errors that are listed; the rest is only counted.
MOST_SHOWN = 20
#: Maximum number of further lines listed for the same error.
MOST_LINES = 5


@dataclass
class Repeated:
    """An error and the other rows of the file with the same one."""

    first: QuestionFileError
    #: Number of other rows.
    more: int = 0
    #: Lines of the first of these.
    lines: list[int] = field(default_factory=list)

    def add(self, line: int | None) -> None:
        """Count another row with this error, on `line`."""
        self.more += 1
        if line is not None and len(self.lines) < MOST_LINES:
            self.lines.append(line)

    def __str__(self) -> str:
        if not self.more:
            return str(self.first)
        listed = ", ".join(map(str, self.lines)) + (", …" if self.more > len(self.lines) else "")
        lines = f": line{'' if self.more == 1 else 's'} {listed}" if self.lines else ""
        return f"{self.first} The same in {self.more:,} more{lines}"


@dataclass
class BadRows:
    """The errors of all bad rows."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    _shown: dict[tuple[str, ...], Repeated] = field(default_factory=dict)

    @property
    def shown(self) -> list[Repeated]:
        """The first distinct errors."""
        return list(self._shown.values())

    def add(self, trouble: QuestionFileError) -> None:
        """Count one more bad row."""
        self.count += 1
        self.kinds[f"{trouble.field}: {trouble.kind}" if trouble.field else trouble.kind] += 1
        said = (trouble.path, trouble.field or "", trouble.message, trouble.hint)
        if said in self._shown:
            self._shown[said].add(trouble.line)
        elif len(self._shown) < MOST_SHOWN:
            self._shown[said] = Repeated(trouble)

    def by_kind(self) -> list[str]:
        """Return the kinds with their numbers of rows, as `2 × id: duplicate`, the most frequent first."""
        return [f"{count:,} × {kind}" for kind, count in self.kinds.most_common()]

    def refusal(self, path: str | Path, rows: int, what: str) -> QuestionFileError:
        """Return one error for all bad rows; there must be at least one. `what` is the plural noun for the rows."""
        if self.count == 1:
            only = self.shown[0].first
            others = f"The other {what} are good: --skip-bad leaves this one out." if rows > 1 else ""
            hint = f"{only.hint} {others}".strip()
            return QuestionFileError(
                only.message, path=only.path, line=only.line, field=only.field, hint=hint, kind=only.kind
            )
        listed = "".join(f"\n  {each}" for each in self.shown)
        rest = self.count - sum(1 + each.more for each in self.shown)
        more = f"\n  … and {rest:,} more." if rest else ""
        return QuestionFileError(
            f"{self.count:,} of {rows:,} {what} are bad; correct them, or skip them with --skip-bad:"
            f"{listed}{more}\n  by kind: {'; '.join(self.by_kind())}",
            path=path,
        )


def rejected_row(raw: Any, trouble: QuestionFileError) -> dict[str, Any]:
    """Return what `rejected.jsonl` says of a bad row: file, line, field, kind, reason, and the row as it was read."""
    reason = f"{trouble.message} {trouble.hint}".strip()
    where = {"file": str(trouble.path), "line": trouble.line, "field": trouble.field}
    return {**where, "kind": trouble.kind, "reason": reason, "row": raw}


def rejected_line(row: dict[str, Any]) -> str:
    """Return one line of `rejected.jsonl`, in ASCII."""
    return json.dumps(row, ensure_ascii=True, default=in_text) + "\n"


def write_rejected_row(file: IO[str], row: dict[str, Any]) -> None:
    """Write one line of `rejected.jsonl`."""
    file.write(rejected_line(row))
