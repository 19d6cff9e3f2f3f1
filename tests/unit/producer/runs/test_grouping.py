"""Questions whose prompts begin alike are sent together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from contract import prefix_order
from contract.ledger import MemoryLedger
from contract.spec import ChatTemplate, ExampleSelection
from producer.broker import MemoryBroker
from producer.runs.parts import FewShotConfig, RagConfig
from producer.runs.runconfig import RunConfig
from producer.runs.submit import State, submit
from tests.unit.producer.conftest import WriteRows
from tests.unit.producer.planning import planned


def asked(field: str, values: Iterable[str | None]) -> list[dict[str, Any]]:
    """Rows q0, q1, … that differ in that field alone."""
    row = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    return [{"id": f"q{n}", **row, field: value} for n, value in enumerate(values)]


def sent(broker: MemoryBroker) -> list[str]:
    return [each for _, _, ids in broker.messages for each in ids]


@pytest.mark.parametrize("shown", [True, False])
def test_questions_about_one_text_are_sent_together_if_it_is_shown(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker, shown: bool
) -> None:
    texts = ["first text", None, "second text", "first text", None, "second text", "first text"]
    config = RunConfig(rag=RagConfig(use_context_field=shown))

    done = submit(planned(write_rows(*asked("context", texts)), config=config), ledger, broker)

    together, as_they_stood = ["q0", "q3", "q6", "q1", "q2", "q5", "q4"], [f"q{n}" for n in range(7)]
    assert sent(broker) == (together if shown else as_they_stood)
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == as_they_stood


def test_a_long_file_is_grouped_by_text_part_by_part(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "GROUPED", 3)
    config = RunConfig(rag=RagConfig(use_context_field=True))

    submit(planned(write_rows(*asked("context", "xyxyyxy")), config=config), ledger, broker)

    assert sent(broker) == ["q0", "q2", "q1", "q3", "q4", "q5", "q6"]


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(description="On {{ subject }}."),
        RunConfig(few_shot=FewShotConfig(k=1, file="dev.jsonl", selection=ExampleSelection.SUBJECT)),
        RunConfig(description="On {{ subject }}.", chat_template=ChatTemplate.TURNS),
        RunConfig(description="{% if subject %}{{ {'law': 'On law.', 'art': 'On art.'}[subject] }}{% endif %}"),
    ],
)
def test_questions_whose_prompts_begin_with_their_subjects_are_sent_together(
    write_rows: WriteRows,
    ledger: MemoryLedger,
    broker: MemoryBroker,
    config: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefix_order, "READ_TOGETHER", 4)
    subjects = ["law", "art", None, "law", None, "art"]
    rows = asked("subject", subjects)
    shown = ("law", "art", None)
    write_rows(
        *({**rows[0], "id": f"e{n}", "question": "e", "subject": s} for n, s in enumerate(shown)), name="dev.jsonl"
    )
    path = write_rows(*rows)

    submit(planned(path, config=config), ledger, broker)

    together = ["q0", "q3", "q1", "q5", "q2", "q4"]
    assert sent(broker) == together
    (run,) = ledger.read_open_runs().runs.values()  # as workers see it, without its examples
    assert list(prefix_order.grouped_again(ledger, run, [f"q{n}" for n in range(6)])) == together


def test_questions_that_are_sent_again_are_grouped_by_text_as_at_first(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    config = RunConfig(rag=RagConfig(use_context_field=True))
    ready = planned(write_rows(*asked("context", "xyxy")), config=config)
    submit(ready, ledger, broker)
    broker.messages.clear()

    assert submit(ready, ledger, broker).state is State.RESUMED

    assert sent(broker) == ["q0", "q2", "q1", "q3"]
