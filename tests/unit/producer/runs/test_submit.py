"""From a file to a run: selection, refusal, resuming."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from contract import Run, prefix_order
from contract.errors import QuestionFileError, RedisUnreachable, RunConfigError, UnknownRun
from contract.ledger import MemoryLedger
from contract.priority import Priority
from contract.settings import Settings
from contract.spec import ChatTemplate, ExampleSelection
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.intake.survey import rejected_rows, survey
from producer.readers import Source
from producer.runs.earlier_runs import asked_already
from producer.runs.parts import FewShotConfig, RagConfig
from producer.runs.planning import Plan, afresh, plan
from producer.runs.runconfig import RunConfig
from producer.runs.submit import State, submit
from tests.support import make_spec, settle
from tests.unit.producer.conftest import WriteRows


def planned(path: Path, selection: Selection | None = None, **options: Any) -> Plan:
    return plan(Source(path, path.name), RunConfig(), Settings(), selection or Selection(), **options)


def ids(path: Path, selection: Selection) -> list[str]:
    return [question.id for question in survey(Source(path, path.name), selection).questions()]


def test_a_survey_counts_what_it_found(five: Path) -> None:
    found = survey(Source(five, five.name))

    assert (found.rows, found.good, found.digest.count, found.digest.keys.without_key) == (5, 5, 5, 1)
    chance = found.digest.keys.guessing.chance(make_spec())
    assert chance == 0.5, "the one without a key, of four choices, does not count"


def test_several_right_choices_raise_chance(write_rows: WriteRows) -> None:
    path = write_rows({"question": "q", "choices": ["a", "b", "c", "d"], "answer": ["A", 2]})

    found = survey(Source(path, path.name))

    assert (found.digest.keys.several_right, found.digest.keys.guessing.chance(make_spec())) == (1, 0.5)
    assert next(found.questions()).right == ("A", "C")


def test_a_limit_takes_the_first_and_reads_no_further(write_rows: WriteRows) -> None:
    good = [{"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A"} for n in range(3)]
    path = write_rows(*good, "not json at all")

    assert ids(path, Selection(limit=3)) == ["q0", "q1", "q2"]


def test_a_sample_keeps_the_order_and_follows_its_seed(five: Path) -> None:
    samples = {seed: ids(five, Selection(sample=3, seed=seed)) for seed in range(20)}

    assert all(len(set(each)) == 3 and each == sorted(each) for each in samples.values())
    assert ids(five, Selection(sample=3, seed=7)) == samples[7]
    assert len({tuple(each) for each in samples.values()}) > 1
    assert ids(five, Selection(sample=99)) == ["q0", "q1", "q2", "q3", "q4"]


def test_the_digest_is_of_the_selected_questions_only(five: Path) -> None:
    digests = {
        planned(five, selection).spec.questions_digest
        for selection in (Selection(), Selection(limit=3), Selection(sample=3, seed=1), Selection(limit=5))
    }

    assert len(digests) == 3, "all five, however asked for, are the same questions"


def test_a_duplicate_id_is_refused_with_both_lines(write_rows: WriteRows) -> None:
    row = {"id": "same", "question": "q", "choices": ["a", "b"], "answer": "A"}
    path = write_rows(row, {**row, "id": "other"}, row)

    with pytest.raises(QuestionFileError, match=r"jsonl:3: field 'id': 'same' is already used on line 1"):
        planned(path)


def test_a_question_repeated_without_ids_is_asked_again_under_an_id_of_its_own(write_rows: WriteRows) -> None:
    row = {"question": "q", "choices": ["a", "b"], "answer": "A"}
    other = {**row, "question": "another"}

    found = survey(source := Source(path := write_rows(row, other, row, row), path.name))
    first, _, second, third = found.questions()

    assert (second.id, third.id, found.digest.repeats.count()) == (f"{first.id}-2", f"{first.id}-3", 2)
    assert {each.id for each in survey(source).questions()} == {each.id for each in found.questions()}
    reordered = write_rows(row, row, other, row, name="reordered.jsonl")
    assert {each.id for each in survey(Source(reordered, "r")).questions()} == {each.id for each in found.questions()}


def test_all_troubles_are_told_at_once_up_to_twenty(write_rows: WriteRows) -> None:
    path = write_rows(*({"question": f"q{n}", "choices": ["a", "b"], "answer": f"none {n}"} for n in range(23)))

    with pytest.raises(QuestionFileError) as caught:
        planned(path)

    lines = str(caught.value).splitlines()
    assert "23 of 23 rows are bad" in lines[0]
    assert "--skip-bad" in lines[0]
    assert len(lines) == 23
    assert lines[-2].strip() == "… and 3 more."
    assert lines[-1].strip().startswith("by kind: 23 × answer: ")


def test_the_same_trouble_in_every_row_is_told_once_with_its_number_and_the_first_lines(write_rows: WriteRows) -> None:
    path = write_rows(*({"question": f"q{n}", "choices": ["a"]} for n in range(23)), {"question": "q", "choices": []})

    with pytest.raises(QuestionFileError) as caught:
        planned(path)

    _, same, other, kinds = str(caught.value).splitlines()
    assert same.startswith("  questions.jsonl:1: field 'choices': found 1, expected 2 to 26.")
    assert same.endswith(" The same in 22 more: lines 2, 3, 4, 5, 6, …")
    assert other.startswith("  questions.jsonl:24: field 'choices': ")
    assert "more" not in other + kinds, "all are told"


def test_what_stops_the_reading_is_told_after_the_troubles_before_it(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text('[{"question": "a"},\n {"question": ]')

    with pytest.raises(QuestionFileError) as caught:
        planned(path, skip_bad=True)

    assert "reading stopped at line 2, after 1 bad row:" in str(caught.value)
    assert "field 'choices': missing" in str(caught.value)


@pytest.mark.parametrize("name", ["q.json", "q.jsonl", "q.csv"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("")

    with pytest.raises(QuestionFileError, match="contains no questions"):
        planned(path)


def test_skipped_rows_are_kept_with_line_field_and_reason(write_rows: WriteRows) -> None:
    good = {"id": "k", "question": "q", "choices": ["a", "b"], "answer": "A"}
    path = write_rows(good, {**good, "id": "l", "answer": "Z"}, good, "{broken", {**good, "id": "m"})

    found = survey(Source(path, path.name), skip_bad=True)

    assert [question.id for question in found.questions()] == ["k", "m"]
    assert (found.rows, found.good, found.troubles.count) == (5, 2, 3)
    rejected = list(rejected_rows(found))
    assert [(each["line"], each["field"]) for each in rejected] == [(2, "answer"), (3, "id"), (4, None)]
    assert [each["kind"] for each in rejected] == ["names no choice", "duplicate", "malformed JSON"]
    assert rejected[0]["row"]["answer"] == "Z"
    assert rejected[2]["row"] == "{broken"
    assert "is already used on line 1" in rejected[1]["reason"]


def test_only_bad_rows_are_refused_even_when_they_may_be_skipped(write_rows: WriteRows) -> None:
    with pytest.raises(QuestionFileError, match="All of its rows were skipped"):
        planned(write_rows("{broken"), skip_bad=True)


def test_a_new_run_is_written_and_sent(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    done = submit(planned(five), ledger, broker)

    assert (done.state, done.sent, done.messages) == (State.NEW, 5, 3)
    assert done.run.run_id.startswith("questions-smollm2-135m-instruct-likelihood-")
    assert list(ledger.unsettled(done.run.run_id)) == ["q0", "q1", "q2", "q3", "q4"]
    assert [each[2] for each in broker.messages] == [["q0", "q1"], ["q2", "q3"], ["q4"]]


@pytest.mark.parametrize("shown", [True, False])
def test_questions_about_one_text_are_sent_together_if_it_is_shown(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker, shown: bool
) -> None:
    texts = ["first text", None, "second text", "first text", None, "second text", "first text"]
    rows = [
        {"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A", "context": text}
        for n, text in enumerate(texts)
    ]
    path = write_rows(*rows)
    config = RunConfig(rag=RagConfig(use_context_field=shown))

    done = submit(plan(Source(path, path.name), config, Settings(), Selection()), ledger, broker)

    together, as_they_stood = ["q0", "q3", "q6", "q1", "q2", "q5", "q4"], [f"q{n}" for n in range(7)]
    assert [each for _, _, ids in broker.messages for each in ids] == (together if shown else as_they_stood)
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == as_they_stood


class EagerWorkers(MemoryBroker):
    """Workers that settle whatever is sent to them at once, up to a number of questions, and then lose Redis."""

    up_to: float = float("inf")

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:  # noqa: ARG002 - all the same
        ids = list(question_ids)
        assert not self.ledger.counts(run.run_id).finished
        if self.ledger.counts(run.run_id).settled + len(ids) > self.up_to:
            raise RedisUnreachable("gone")
        settle(self.ledger, run.run_id, *ids)
        return 1


def test_a_run_is_not_finished_before_all_is_written_even_if_workers_have_settled_what_was_sent_so_far(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)

    done = submit(planned(five), ledger, EagerWorkers(ledger))

    assert (done.state, done.sent, done.messages) == (State.NEW, 5, 3)
    assert ledger.counts(done.run.run_id).finished
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == ["q0", "q1", "q2", "q3", "q4"]


def test_an_enqueue_that_is_cut_short_between_its_parts_sends_only_the_rest_when_it_is_repeated(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)
    lost = EagerWorkers(ledger)
    lost.up_to = 3
    with pytest.raises(RedisUnreachable):
        submit(planned(five), ledger, lost)
    assert ledger.counts(planned(five).run_id).unwritten == 1

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.unsettled, again.sent) == (State.RESUMED, 3, 3)
    assert [each for _, _, ids in broker.messages for each in ids] == ["q2", "q3", "q4"]


class PurgingBroker(MemoryBroker):
    """Somebody purges the run as soon as its first questions have been sent."""

    def publish(self, run: Run, question_ids: Iterable[str], priority: Priority) -> int:
        messages = super().publish(run, question_ids, priority)
        self.ledger.purge(run.run_id)
        return messages


def test_an_enqueue_whose_run_is_purged_meanwhile_says_so_and_names_no_other_run(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "IN_ORDER", 2)

    with pytest.raises(UnknownRun, match="it was purged, or Redis lost its data") as caught:
        submit(planned(five), ledger, PurgingBroker(ledger))

    assert caught.value.hint == "To ask its questions, run the same command again."


def test_a_long_file_is_grouped_by_text_part_by_part(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_order, "GROUPED", 3)
    rows = [
        {"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A", "context": text}
        for n, text in enumerate("xyxyyxy")
    ]
    path, config = write_rows(*rows), RunConfig(rag=RagConfig(use_context_field=True))

    submit(plan(Source(path, path.name), config, Settings(), Selection()), ledger, broker)

    assert [each for _, _, ids in broker.messages for each in ids] == ["q0", "q2", "q1", "q3", "q4", "q5", "q6"]


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(description="On {{ subject }}."),
        RunConfig(few_shot=FewShotConfig(k=1, file="dev.jsonl", selection=ExampleSelection.SUBJECT)),
        RunConfig(description="On {{ subject }}.", chat_template=ChatTemplate.TURNS),
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
    rows = [
        {"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A", "subject": subject}
        for n, subject in enumerate(subjects)
    ]
    shown = ("law", "art", None)
    write_rows(
        *({**rows[0], "id": f"e{n}", "question": "e", "subject": s} for n, s in enumerate(shown)), name="dev.jsonl"
    )
    path = write_rows(*rows)

    submit(plan(Source(path, path.name), config, Settings(), Selection()), ledger, broker)

    together = ["q0", "q3", "q1", "q5", "q2", "q4"]
    assert [each for _, _, ids in broker.messages for each in ids] == together
    (run,) = ledger.read_open_runs().runs.values()  # as workers see it, without its examples
    assert list(prefix_order.grouped_again(ledger, run, [f"q{n}" for n in range(6)])) == together


def test_questions_that_are_sent_again_are_grouped_by_text_as_at_first(
    write_rows: WriteRows, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    rows = [
        {"id": f"q{n}", "question": "q", "choices": ["a", "b"], "answer": "A", "context": text}
        for n, text in enumerate("xyxy")
    ]
    path, config = write_rows(*rows), RunConfig(rag=RagConfig(use_context_field=True))
    planned = plan(Source(path, path.name), config, Settings(), Selection())
    submit(planned, ledger, broker)
    broker.messages.clear()

    assert submit(planned, ledger, broker).state is State.RESUMED

    assert [each for _, _, ids in broker.messages for each in ids] == ["q0", "q2", "q1", "q3"]


def test_subjects_with_too_few_examples_of_their_own_are_named(write_rows: WriteRows) -> None:
    def row(name: str, subject: str | None) -> dict[str, Any]:
        return {"id": name, "question": name, "choices": ["a", "b"], "answer": "A", "subject": subject}

    write_rows(row("e1", "law"), row("e2", "law"), row("e3", "art"), row("q1", "art"), name="dev.jsonl")
    config = RunConfig(few_shot=FewShotConfig(k=2, file="dev.jsonl", selection=ExampleSelection.SUBJECT))
    path = write_rows(row("q0", "law"), row("q1", "art"), row("q2", "music"), row("q3", "music"), row("q4", None))

    with pytest.raises(RunConfigError) as caught:
        plan(Source(path, path.name), config, Settings(), Selection())

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
        return plan(Source(path, path.name), config, Settings(), Selection())

    assert planned_of("q1", "q2").survey.digest.count == 2
    with pytest.raises(RunConfigError, match=r"1 question among the 2 examples, each left with fewer than 2 others"):
        planned_of("q1", "e2")


def test_a_file_whose_questions_all_read_alike_has_examples_among_its_own(write_rows: WriteRows) -> None:
    asked = {"question": "Is the claim supported?", "choices": ["yes", "no"], "answer": "A"}
    path = write_rows(*({**asked, "id": f"q{n}", "context": f"Text {n}."} for n in range(4)))
    config = RunConfig(few_shot=FewShotConfig(k=3, file=path.name))

    assert plan(Source(path, path.name), config, Settings(), Selection()).survey.digest.count == 4


def test_the_same_thing_again_resumes_and_sends_only_what_is_lost(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    settle(ledger, run_id, "q0")
    del broker.messages[1]

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.run.run_id, again.unsettled) == (State.RESUMED, run_id, 4)
    assert (again.sent, again.messages) == (2, 1)
    assert len(ledger.runs()) == 1


def test_a_settled_run_is_left_alone(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    settle(ledger, run_id, "q0", "q1", "q2", "q3", "q4")
    broker.messages.clear()

    again = submit(planned(five), ledger, broker)

    assert (again.state, again.sent) == (State.SETTLED, 0)
    assert broker.messages == []


def test_a_run_killed_half_way_is_completed(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    ready = planned(five)
    ledger.open_run(ready.run())
    ledger.add_questions(ready.run_id, list(ready.survey.questions())[:2])
    settle(ledger, ready.run_id, "q0")

    done = submit(planned(five), ledger, broker)

    assert (done.state, done.unsettled, done.sent) == (State.RESUMED, 4, 4)
    assert [question.id for question, _ in ledger.results(done.run.run_id)] == ["q0", "q1", "q2", "q3", "q4"]


def test_to_find_who_asked_the_same_before_no_other_run_is_read(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may hold a whole training split as examples."""
    before = submit(planned(five, name="before"), ledger, broker).run.run_id
    submit(planned(five, Selection(limit=2), name="fewer"), ledger, broker)
    asked = submit(planned(five, name="now"), ledger, broker)
    read: list[str] = []

    def reading(among: Sequence[str] | None = None) -> list[Run]:
        found = MemoryLedger.runs(ledger, among)
        read.extend(each.run_id for each in found)
        return found

    there = ledger.run_ids()
    monkeypatch.setattr(ledger, "runs", reading)
    monkeypatch.setattr(ledger, "run_ids", lambda: there)

    assert asked_already([asked], ledger) == {asked.run.run_id: [before]}
    assert read == [before]


def test_asking_afresh_takes_the_next_free_number(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    first = submit(afresh(planned(five), ledger), ledger, broker).run.run_id
    second = submit(afresh(planned(five), ledger), ledger, broker).run.run_id
    third = submit(afresh(planned(five), ledger), ledger, broker).run.run_id

    assert (second, third) == (f"{first}-2", f"{first}-3")


def test_asking_afresh_leaves_the_number_of_a_run_that_cannot_be_read_here(
    five: Path, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version's run is in the list of ids alone, as in `RedisLedger.runs`."""
    theirs = planned(five).run_id
    monkeypatch.setattr(ledger, "run_ids", lambda: [theirs])

    assert afresh(planned(five), ledger).run_id == f"{theirs}-2"


def test_a_name_of_ones_own_stands_before_the_fingerprint(five: Path) -> None:
    ready = planned(five, name="My Run")

    assert ready.run_id == f"my-run-{ready.spec.fingerprint()[:8]}"


def test_a_priority_reaches_the_messages(five: Path, ledger: MemoryLedger, broker: MemoryBroker) -> None:
    submit(planned(five), ledger, broker)
    urgent = submit(planned(five, name="urgent"), ledger, broker, Priority.HIGH)

    assert broker.messages[0][1] == urgent.run.run_id


def test_a_run_that_is_enqueued_again_keeps_its_priority_unless_another_is_named_for_what_is_sent(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Priority] = []

    def send_missing(_: Run, priority: Priority) -> tuple[int, int]:
        sent.append(priority)
        return 0, 0

    monkeypatch.setattr(broker, "send_missing", send_missing)
    submit(planned(five), ledger, broker, Priority.HIGH)
    for asked in (None, Priority.LOW):
        assert submit(planned(five), ledger, broker, asked).run.priority is Priority.HIGH
    assert sent == [Priority.HIGH, Priority.LOW]


def test_a_weight_is_kept_beside_the_run_and_is_no_part_of_what_is_asked(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    run_id = submit(planned(five), ledger, broker).run.run_id
    assert broker.weight(run_id) == 1
    assert submit(planned(five), ledger, broker, weight=3).run.run_id == run_id
    assert submit(planned(five), ledger, broker).run.run_id == run_id
    assert broker.weight(run_id) == 3


@pytest.mark.parametrize("rewrite", [("Question 0?", "Question zero?"), ('"answer": "B"', '"answer": "Z"')])
def test_what_was_checked_is_what_is_asked_although_the_file_changed_meanwhile(
    five: Path, ledger: MemoryLedger, broker: MemoryBroker, rewrite: tuple[str, str]
) -> None:
    ready = planned(five)
    checked = list(ready.survey.questions())
    five.write_text(five.read_text().replace(*rewrite))

    done = submit(ready, ledger, broker)

    assert [question for question, _ in ledger.results(done.run.run_id)] == checked
    assert done.run.spec.questions_digest == ready.survey.digest.hexdigest()
