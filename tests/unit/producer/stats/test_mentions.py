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
        ("The sun rises .", "Each day the sun rises.", True),
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


@pytest.mark.parametrize(
    ("text", "passage", "stands"),
    [
        ("4", "It weighs 4.5 kg.", False),
        ("5", "It weighs 4.5 kg.", False),
        (".5", "It weighs 4.5 kg.", False),
        ("10", "10,000 units", False),
        ("000", "10,000 units", False),
        ("10", "10.5 and 10", True),
        ("1.5", "1.5.2 was released", False),
        ("4.5", "It weighs 4.5 kg.", True),
        ("10,000", "10,000, or more", True),
        ("5", "vitamin C, 5", True),
        ("5", "The answer is 5.", True),
        ("5.", "The answer is 5, not 6.", True),
        ("4", "4, 5 and 6", True),
        ("5", "4, 5 and 6", True),
        ("5", "in 5.", True),
        ("5", "5", True),
        ("4", "長さは4.5センチ", False),
        ("4", "長さは4センチ", True),
    ],
)
def test_a_number_does_not_stand_in_a_longer_one(text: str, passage: str, stands: bool) -> None:
    """ "4" was found in 4.5, and "10" in 10,000."""
    assert mentions([text], [passage]) == [stands]


def test_one_passage_is_enough_and_none_is_joined_to_the_next() -> None:
    assert mentions(["red", "blue sky", "green"], ["a red", "blue", "sky"]) == [True, False, False]


def test_nothing_stands_in_no_passages() -> None:
    assert mentions(["red"], []) == [False]
