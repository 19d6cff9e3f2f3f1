"""How the two halves of the suite are put together."""

from __future__ import annotations

import pytest

from scripts.suite import BESIDE, OTHERS, ending
from tests.support import ROOT


def test_every_folder_of_tests_is_in_one_half() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    storeys = {f"tests/{folder.relative_to(ROOT / 'tests').parts[0]}" for folder in folders}

    assert sorted((*BESIDE, *OTHERS)) == sorted(storeys)


@pytest.mark.parametrize(
    ("others", "acceptance", "both"),
    [(0, 0, 0), (1, 0, 1), (0, 1, 1), (0, 5, 0), (5, 0, 0), (5, 5, 5), (5, 1, 1), (0, -9, -9)],
)
def test_the_suite_fails_if_a_half_does_and_passes_if_one_has_nothing_to_do(
    others: int, acceptance: int, both: int
) -> None:
    assert ending(others, acceptance) == both
