"""How the parts of the suite are put together."""

from __future__ import annotations

import pytest

from scripts.suite import PARTS, ending
from tests.support import ROOT


def test_every_folder_of_tests_is_in_one_part() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    storeys = {f"tests/{folder.relative_to(ROOT / 'tests').parts[0]}" for folder in folders}

    assert sorted(folder for part in PARTS for folder in part) == sorted(storeys)


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
