"""Inputs for the fuzz programs: hostile values, mutated texts, and the tally of the outcomes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HOSTILE", "Result", "mutated"]

#: Values that YAML might contain for any setting.
HOSTILE = (
    "null", "~", "true", "[]", "{}", "''", "-1", "0", "1e999", "-.inf", ".nan", "0x_", "0b", "9" * 5000, "1_000",
    "2026-13-45", "2026-01-01", "12:30:45", "!!int x", "!!float ''", "!!python/object/apply:os.system ['x']",
    "!!binary zz", "!!timestamp x", "!!set {a, b}", "!!omap [a]", "&a [*a]", "*nothing", "<<: 1", "? [a]", "{1: 2}",
    "[" * 3000, "{a: " * 800, "a" * 100_000, "\x00", "\x1b[31m", "\u202e", "\ud800", "\ufeff", "'", '"', "\\",
    "%s {0} {{x}}",
    "../../../../etc/passwd", "/dev/zero", "/proc/self/environ", "C:\\CON", "$(id)", "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>", "&a [1,1,1,1,1,1,1,1,1]", "redis://:x@y", "http://[::1", "file:///etc/passwd",
    '"\\0"', '"\\0.j2"', "a" * 5000 + ".j2", ".j2", "/.j2", '"\\ud800.j2"', '"x\\ud800"',
)  # fmt: skip


@dataclass
class Result:
    """The outcomes of the inputs of one corner."""

    corner: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    #: CPU time of the slowest input; None: inputs were not timed one by one.
    slowest_s: float | None = None
    broken: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the row for the table and the record."""
        counted = {"corner": self.corner, "inputs": self.inputs, "accepted": self.accepted, "refused": self.refused}
        timed = {} if self.slowest_s is None else {"slowest_s": round(self.slowest_s, 3)}
        return {**counted, "broken": len(self.broken), **timed}


def mutated(chance: random.Random, text: str) -> str:
    """Return `text` with a few random mutations."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.randint(0, 30))
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + text[at:to] * chance.randint(2, 5) + text[to:]
        elif kind == 2:
            text = text[:at] + chr(chance.choice((chance.randrange(32), chance.randrange(0x2FFF)))) + text[at:]
        elif kind == 3:
            text = text[:at] + chance.choice(HOSTILE) + text[to:]
        elif kind == 4:
            text = _with_value(chance, text)
        else:
            lines = text.splitlines(keepends=True)
            chance.shuffle(lines)
            text = "".join(lines)
    return text


def _with_value(chance: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = chance.randrange(len(lines))
    lines[at] = f"{lines[at].partition(':')[0]}: {chance.choice(HOSTILE)}\n"
    return "".join(lines)
