"""Whether a choice's text stands in a passage."""

from __future__ import annotations

import pytest

from producer.stats.mentions import mentions


@pytest.mark.parametrize(
    ("text", "passage", "stands"),
    [
        ("iron", "The symbol of iron is Fe.", True),
        ("IRON", "Iron rusts.", True),
        ("iron", "ironing is a chore", False),
        ("iron", "an environment", False),
        ("iron", "environment and iron", True),
        ("static  electricity", "caused by Static\nelectricity", True),
        ("The Sun rises.", "Each day the sun rises, and sets.", True),
        ("3.5", "3.5 volts", True),
        ("3.5", "13.5 volts", False),
        ("+", "1 + 1", True),
        ("STRASSE", "die Straße", True),
        (".", "Nothing stands here.", False),
        ("巴黎", "法国的首都是巴黎。", True),
        ("巴黎。", "首都巴黎在北部", True),
        ("ปารีส", "เมืองหลวงคือปารีสครับ", True),
        ("서울", "수도는 서울입니다.", True),
        ("Fe", "铁的符号是Fe。", True),
        ("3号", "在13号", False),
        ("рис", "Париж", False),
        ("рис", "варят рис", True),
    ],
)
def test_a_text_stands_there_word_for_word_whatever_its_case_and_spacing(text: str, passage: str, stands: bool) -> None:
    assert mentions([text], [passage]) == [stands]


def test_one_passage_is_enough_and_none_is_joined_to_the_next() -> None:
    assert mentions(["red", "blue sky", "green"], ["a red", "blue", "sky"]) == [True, False, False]


def test_nothing_stands_in_no_passages() -> None:
    assert mentions(["red"], []) == [False]
