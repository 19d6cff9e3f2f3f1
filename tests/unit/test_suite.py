"""How the parts of the suite are put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.suite import PARTS, ending
from tests.support import ROOT


def test_every_test_is_in_one_part() -> None:
    files = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    collected = [path for part in PARTS for path in files if _is_in(path, part)]

    assert sorted(collected) == files


def _is_in(path: Path, part: Sequence[str]) -> bool:
    ignored = {word.removeprefix("--ignore=") for word in part if word.startswith("--")}
    places = [word for word in part if not word.startswith("--")]
    return any(path.is_relative_to(place) for place in places) and str(path) not in ignored


@pytest.mark.parametrize(
    ("codes", "together"),
    [
        ((0, 0, 0), 0),
        ((1, 0, 0), 1),
        ((0, 0, 1), 1),
        ((0, 5, 5), 0),
        ((5, 0, 5), 0),
        ((5, 5, 5), 5),
        ((5, 5, 1), 1),
        ((0, -9, 0), -9),
    ],
)
def test_the_suite_fails_if_a_part_does_and_passes_if_one_has_nothing_to_do(
    codes: tuple[int, ...], together: int
) -> None:
    assert ending(*codes) == together
