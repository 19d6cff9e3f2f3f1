"""What is wrong with the rows of a file or corpus: all counted by kind, the first ones kept word for word."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from contract.errors import QuestionFileError

__all__ = ["Troubles"]

#: Troubles that are spelled out before the rest is only counted.
MOST_SHOWN = 20


@dataclass
class Troubles:
    """Bad rows, gathered one by one."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    shown: list[QuestionFileError] = field(default_factory=list)

    def add(self, trouble: QuestionFileError) -> None:
        """Take one more into account."""
        self.count += 1
        self.kinds[f"{trouble.field}: {trouble.kind}" if trouble.field else trouble.kind] += 1
        if len(self.shown) < MOST_SHOWN:
            self.shown.append(trouble)

    def refusal(self, path: str | Path, rows: int, what: str) -> QuestionFileError:
        """One error for all of them, of which there is at least one; `what` the rows are called."""
        if self.count == 1:
            return self.shown[0]
        listed = "".join(f"\n  {each}" for each in self.shown)
        rest = self.count - len(self.shown)
        more = f"\n  … and {rest:,} more." if rest else ""
        by_kind = "; ".join(f"{count:,} × {kind}" for kind, count in self.kinds.most_common())
        return QuestionFileError(
            f"{self.count:,} of {rows:,} {what} are bad; correct them, or leave them out with --skip-bad:"
            f"{listed}{more}\n  by kind: {by_kind}",
            path=path,
        )
