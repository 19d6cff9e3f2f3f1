"""Inline SVG charts, with CSS classes for colours so that the page's style sheet sets them.

A plotting library would emit fixed colours and its own fonts, and would follow neither dark mode nor print styles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from producer.report.measures import steps

__all__ = ["Axis", "Plot"]

#: Size in view box units: roughly pixels on a wide screen, and still readable when scaled down on a phone.
WIDTH, HEIGHT = 440, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 14, 44


@dataclass(frozen=True, slots=True)
class Axis:
    """A named range of numbers; with `percent`, 0.5 is labelled 50 %."""

    name: str
    low: float
    high: float
    percent: bool = False
    whole: bool = False

    def share(self, value: float) -> float:
        """Return the relative position of `value`, 0 at the low end and 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield round values with their labels."""
        width = steps(self.low, self.high, 6)
        width = max(1.0, width) if self.whole else width
        for at in range(math.ceil(self.low / width - 1e-9), math.floor(self.high / width + 1e-9) + 1):
            value = at * width
            yield value, f"{100 * value:.0f} %" if self.percent else f"{value:,.6g}"


class Plot:
    """An SVG image with an accessible label and two axes: `across` and `down` place values of the data in it."""

    def __init__(self, title: str, x: Axis, y: Axis, *, name_ticks: bool = True) -> None:
        self._root = ElementTree.Element(
            "svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": title, "class": "chart"}
        )
        self._x, self._y = x, y
        for value, label in y.ticks():
            self.line(LEFT, self.down(value), WIDTH - RIGHT, self.down(value), "grid")
            self.text(LEFT - 6, self.down(value) + 4, label, "tick end")
        for value, label in x.ticks() if name_ticks else ():
            self.mark(value, label)
        self.line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.name, "name middle")
        self.text(13, (TOP + HEIGHT - BOTTOM) / 2, y.name, "name middle", turned=True)

    def across(self, value: float) -> float:
        """Convert an x value to a canvas coordinate."""
        return LEFT + self._x.share(value) * (WIDTH - LEFT - RIGHT)

    def down(self, value: float) -> float:
        """Convert a y value to a canvas coordinate."""
        return HEIGHT - BOTTOM - self._y.share(value) * (HEIGHT - TOP - BOTTOM)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a straight line with the class `kind`."""
        self._add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str) -> None:
        """Draw a dot with the class `kind`; `tip` is its tooltip."""
        self._add("circle", kind, tip, cx=x, cy=y, r=radius)

    def polyline(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Draw a line through `points`."""
        self._add("polyline", kind, points=" ".join(f"{x:.2f},{y:.2f}" for x, y in points))

    def text(self, x: float, y: float, text: str, kind: str, turned: bool = False) -> None:
        """Draw `text` with its anchor, which the class determines, at the point; `turned` text reads upwards."""
        turn = {"transform": f"rotate(-90 {x:.2f} {y:.2f})"} if turned else {}
        element = self._add("text", kind, x=x, y=y, **turn)
        element.text = text

    def bar(self, low: float, high: float, start: float, end: float, kind: str, tip: str) -> None:
        """Draw a column from `low` to `high` in x, and from `start` to `end` in y; `tip` is its tooltip."""
        left, right, top = self.across(low), self.across(high), self.down(end)
        gap = min(1.0, (right - left) / 8)
        width, height = max(0.0, right - left - 2 * gap), max(0.0, self.down(start) - top)
        self._add("rect", kind, tip, x=left + gap, y=top, width=width, height=height)

    def mark(self, x: float, label: str) -> None:
        """Draw a label below the x axis."""
        self.text(self.across(x), HEIGHT - BOTTOM + 16, label, "tick middle")

    def _add(self, tag: str, kind: str, tip: str = "", **attributes: float | str) -> ElementTree.Element:
        plain = {name: each if isinstance(each, str) else f"{each:.2f}" for name, each in attributes.items()}
        element = ElementTree.SubElement(self._root, tag, {"class": kind, **plain})
        if tip:
            ElementTree.SubElement(element, "title").text = tip
        return element

    def __html__(self) -> Markup:
        return Markup(ElementTree.tostring(self._root, encoding="unicode"))  # ElementTree has escaped it
