"""Whether each question has as many examples as its configuration wants."""

from __future__ import annotations

from typing import Any

import pytest

from contract.errors import RunConfigError
from contract.spec import ExampleSelection
from producer.runs.parts import FewShotConfig
from producer.runs.planning import Plan
from producer.runs.runconfig import RunConfig
from tests.unit.producer.conftest import WriteRows
from tests.unit.producer.planning import planned


def test_subjects_with_too_few_examples_of_their_own_are_named(write_rows: WriteRows) -> None:
    def row(name: str, subject: str | None) -> dict[str, Any]:
        return {"id": name, "question": name, "choices": ["a", "b"], "answer": "A", "subject": subject}

    write_rows(row("e1", "law"), row("e2", "law"), row("e3", "art"), row("q1", "art"), name="dev.jsonl")
    config = RunConfig(few_shot=FewShotConfig(k=2, file="dev.jsonl", selection=ExampleSelection.SUBJECT))
    path = write_rows(row("q0", "law"), row("q1", "art"), row("q2", "music"), row("q3", "music"), row("q4", None))

    with pytest.raises(RunConfigError) as caught:
        planned(path, config=config)

    assert str(caught.value) == (
        "few_shot: fewer than 2 examples of the same subject for questions of music (2 asked, 0 examples), art (1"
        " asked, 2 examples), without a subject (1 asked, 0 examples); a question is never its own example."
        " Add examples to few_shot.file, lower few_shot.k, or set few_shot.selection: fixed."
    )


@pytest.mark.parametrize("selection", [ExampleSelection.FIXED, ExampleSelection.SEEDED])
def test_all_examples_of_a_file_may_be_shown_unless_one_of_them_is_asked(
    write_rows: WriteRows, selection: ExampleSelection
) -> None:
    def row(name: str) -> dict[str, Any]:
        return {"id": name, "question": f"{name}?", "choices": ["a", "b"], "answer": "A"}

    write_rows(row("e1"), row("e2"), name="dev.jsonl")
    config = RunConfig(few_shot=FewShotConfig(k=2, file="dev.jsonl", selection=selection))

    def planned_of(*names: str) -> Plan:
        path = write_rows(*map(row, names))
        return planned(path, config=config)

    assert planned_of("q1", "q2").survey.digest.count == 2
    with pytest.raises(RunConfigError, match=r"1 question among the 2 examples, each left with fewer than 2 others"):
        planned_of("q1", "e2")


def test_a_file_whose_questions_all_read_alike_has_examples_among_its_own(write_rows: WriteRows) -> None:
    asked = {"question": "Is the claim supported?", "choices": ["yes", "no"], "answer": "A"}
    path = write_rows(*({**asked, "id": f"q{n}", "context": f"Text {n}."} for n in range(4)))
    config = RunConfig(few_shot=FewShotConfig(k=3, file=path.name))

    assert planned(path, config=config).survey.digest.count == 4
