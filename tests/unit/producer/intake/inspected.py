"""Rows of files that are inspected."""

from __future__ import annotations

from typing import Any

__all__ = ["SIX", "yes_or_no"]

SIX: list[dict[str, Any]] = [
    {"question": "Which colour is the sky, and why is it so?", "choices": ["blue", "red", "green"], "answer": "A"},
    {"question": "Quelle est la capitale de la France, et depuis quand ?", "choices": ["Paris", "Rome"], "answer": 0},
    {"question": "天空是什么颜色的？为什么？", "choices": ["蓝色", "红色"], "answer": None, "subject": "sky"},
    {"question": "Which colour is the sky, and why is it so?", "choices": ["blue", "red", "green"], "answer": "A"},
    {"question": "Which colour is the sky, and why is it so?", "choices": ["white", "black"], "answer": "B"},
    {"question": "broken", "choices": ["x"]},
]


def yes_or_no(answers: str) -> list[dict[str, object]]:
    return [{"question": f"q{n}", "choices": ["yes", "no"], "answer": each} for n, each in enumerate(answers)]
