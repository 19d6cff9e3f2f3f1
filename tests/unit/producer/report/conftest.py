"""What the tests of the report share: reading a page, and runs with verdicts."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from contract.ledger import MemoryLedger, Run
from contract.verdict import Outcome, Verdict
from producer.session import Session
from tests.unit.producer.conftest import Producer


class Page(HTMLParser):
    """Tags and texts of a page, and what it would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def scripts(self, kind: str) -> int:
        return sum(tag == "script" and attributes.get("type", "code") == kind for tag, attributes in self.tags)


class Reporter(Producer):
    """Calls `report`, and reads the page that it writes."""

    def page(self, *runs: Run, option: str = "") -> Page:
        """The page on these runs: the only one in the folder of the first."""
        self(*(run.run_id for run in runs), *filter(None, [option]))
        (path,) = (Path("results") / runs[0].run_id).glob("*.html")
        return Page(path.read_text(encoding="utf-8"))


def packed(html: str) -> list[Any]:
    """What the page carries, parcel by parcel."""
    parcels = re.findall(r'<script type="text/plain"[^>]*>([A-Za-z0-9+/=]*)</script>', html)
    return [json.loads(zlib.decompress(base64.b64decode(each))) for each in parcels]


def unpack(html: str) -> tuple[list[Any], list[Any]]:
    """The table's rows and details, as the page's script puts them together."""
    (questions, runs), *parcels = packed(html)
    details = [each for parcel in parcels for each in parcel]
    rows: list[Any] = []
    whole = []
    for run, (start, columns) in enumerate(runs):
        for place, (outcome, choice, confidence, latency) in enumerate(zip(*columns, strict=True)):
            id_, subject, key, text, choices, first = (column[start + place] for column in questions)
            common = {
                name: value for name, value in details[first].items() if name in {"context", "metadata", "prompts"}
            }
            whole.append(common | details[len(rows)])
            whole[-1]["prompts"] = [text.join(pieces) for pieces in whole[-1]["prompts"]]
            rows.append([run, id_, subject, outcome, key, choice, confidence, latency, text, choices])
    return rows, whole


def answer_all(ledger: MemoryLedger, run: Run, right: Callable[[int], bool] = lambda n: n % 2 == 0) -> None:
    """Verdicts for all questions of the run; question `n` is right where `right` says so."""
    questions = [question for question, _ in ledger.results(run.run_id)]
    for number, question in enumerate(questions):
        choice = question.answer if right(number) else next(x for x in question.labels if x != question.answer)
        verdict = Verdict(
            question_id=question.id,
            outcome=Outcome.CORRECT if right(number) else Outcome.WRONG,
            choice=choice,
            confidence=0.65,
            choice_scores=dict.fromkeys(question.labels, -1.0),
            batch_id=f"w/{number // 4}",
            batch_size=4,
            worker="w",
            latency_ms=100.0 + number,
            queued_ms=5.0,
            settled_at=1000.0 + number,
        )
        ledger.commit(run.run_id, [verdict])


@pytest.fixture
def report(session: Session) -> Reporter:
    return Reporter(session, "report")
