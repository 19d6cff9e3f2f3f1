"""Counts in messages."""

from __future__ import annotations

import pytest

from contract.wording import number, percent


@pytest.mark.parametrize(
    ("count", "read"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (1_200, "1,200 messages")]
)
def test_one_of_a_thing_is_no_plural(count: int, read: str) -> None:
    assert number(count, "message") == read


def test_a_share_is_the_same_figure_in_percent_as_with_three_decimals() -> None:
    for count in range(801):
        share = count / 800
        assert percent(share) == f"{float(f'{share:.3f}') * 100:.1f}"


def test_a_difference_in_percentage_points_has_a_sign_where_a_template_asks_for_it() -> None:
    assert [percent(share, "+") for share in (0.0754, 0.0, -0.0754)] == ["+7.5", "+0.0", "-7.5"]
