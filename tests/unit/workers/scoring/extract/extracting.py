"""Choices of made-up questions, and what is read in a text about them."""

from __future__ import annotations

from workers.scoring.extract import extract

__all__ = ["BLOOD", "CITIES", "GERMS", "PLANETS", "label"]

CITIES = ("Berlin", "Madrid", "Paris", "Rome")
PLANETS = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune", "Pluto", "Ceres")
GERMS = ("S. aureus", "E. coli", "K. pneumoniae", "C. difficile", "S. enterica")
BLOOD = ("O", "A", "B", "AB")


def label(text: str, choices: tuple[str, ...] = CITIES) -> str | None:
    return extract(text, choices).label
