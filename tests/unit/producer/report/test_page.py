"""The report as a file: the table of questions, that nothing in it can break out, and that it asks for nothing."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from contract.ledger import MemoryLedger
from contract.prompts import prompts_of
from contract.question import Question
from contract.spec import ChatTemplate, IndexKind, Prompt, Retrieval
from contract.verdict import MAJORITY, Failure, Outcome, Passage, Verdict
from producer.question_view import verdict_facts
from producer.report.table import PER_PARCEL
from producer.session import Session
from tests.support import interrupted_run, make_question, make_questions, open_run
from tests.unit.producer.conftest import Producer
from tests.unit.producer.report.conftest import Page, Reporter, answer_all, packed, unpack

HOSTILE = "</script></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;{{ 7*7 }}{% raw %}\u2028]]>"


def test_the_margin_of_a_vote_is_a_share_of_the_texts_and_any_other_is_in_nats(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(3))
    for question_id, rule in (("q0", MAJORITY), ("q1", "sum"), ("q2", "per-character")):
        verdict = Verdict(question_id=question_id, outcome=Outcome.CORRECT, choice="A", margin=0.25, rule=rule)
        ledger.commit(run.run_id, [verdict])

    _, details = unpack(report.page(run).html)
    assert [dict(each["facts"])["margin"] for each in details] == [
        "0.2500 of the texts",
        "0.2500 nats",
        "0.2500 nats per character",
    ]


@pytest.mark.parametrize(("margin", "shown"), [(0.0, "0.0000 nats"), (3e-5, "3e-05 nats"), (0.00016, "0.0002 nats")])
def test_a_near_tie_does_not_look_like_a_tie(margin: float, shown: str) -> None:
    assert verdict_facts(Verdict(question_id="q", outcome=Outcome.WRONG, margin=margin))["margin"] == shown


def test_without_a_key_no_number_of_rotations_is_correct(
    ledger: MemoryLedger, session: Session, report: Reporter
) -> None:
    """ "correct in 0 of 4" was said of a question that nobody could be right on."""
    run = open_run(ledger, [make_question(0, choices=("a", "b"), answer=None)], circular=True)
    rotated = Verdict(question_id="q0", outcome=Outcome.ANSWERED, choice="A", rotations=2, rotation_choices=("A", "B"))
    ledger.commit(run.run_id, [rotated])

    report()
    shown = Producer(session, "show")(run.run_id, "q0").stdout

    assert verdict_facts(rotated)["rotations"] == "chosen: A, B"
    assert "A B: A chosen  ← the scores above" in shown
    assert "correct in" not in shown


def test_a_question_on_which_the_template_failed_is_shown_with_the_reason_instead_of_its_prompt(
    ledger: MemoryLedger, session: Session, report: Reporter
) -> None:
    short = make_question(1, choices=("a", "b"), answer="A")
    run = open_run(ledger, [make_question(0), short], prompt=Prompt(name="mine", text="{{ choices[2].text }}"))
    answer_all(ledger, run)

    page = report.page(run)
    shown = Producer(session, "show")(run.run_id, "q1")

    why = "‹none: prompt 'mine' cannot be rendered for question 'q1': list object has no element 2.›"
    assert [each["prompts"] for each in unpack(page.html)[1]] == [["2"], [why]]
    assert why in shown.output


def test_the_report_asks_for_nothing_outside_itself(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(4))
    answer_all(ledger, run)
    html = report.page(run).html
    loading = {name for _, attributes in Page(html).tags for name in attributes} & {"src", "srcset", "action"}
    assert loading == set()
    assert all(attributes["href"].startswith("#") for _, attributes in Page(html).tags if attributes.get("href"))  # type: ignore[union-attr]
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_no_text_of_a_run_can_break_the_page(ledger: MemoryLedger, report: Reporter) -> None:
    question = Question(
        id=f"q {HOSTILE}",
        question=HOSTILE,
        choices=(HOSTILE, "b"),
        answer="A",
        subject=HOSTILE,
        context=HOSTILE,
        metadata={HOSTILE: HOSTILE},
    )
    run = open_run(ledger, [question, make_questions(2)[1]]).model_copy(update={"source": HOSTILE})
    verdict = Verdict(
        question_id=question.id,
        outcome=Outcome.FAILED,
        raw_text=HOSTILE,
        worker=HOSTILE,
        batch_id=HOSTILE,
        batch_size=1,
        passages=(Passage(id=HOSTILE, score=float("nan"), text=HOSTILE),),
        choice_scores={"A": float("-inf")},
        error=Failure(type=HOSTILE, message=HOSTILE),
    )
    ledger.commit(run.run_id, [verdict])
    html = report.page(run).html
    page = Page(html)
    assert (page.scripts("code"), page.scripts("text/plain")) == (1, 2)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert HOSTILE.replace("\u2028", " ") in page.text, "shown as it is"
    rows, details = unpack(html)
    assert rows[0][1:3] == [question.id, HOSTILE]
    assert details[0]["passages"] == [[f"1. {HOSTILE}, score nan", HOSTILE]]
    assert details[0]["prompts"] == [f"Question: {HOSTILE}\nAnswer:"]
    assert details[0]["scores"] == {"A": "-inf"}


def test_the_table_holds_every_question_with_prompt_and_scores(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(PER_PARCEL + 3))
    answer_all(ledger, run)
    html = report.page(run).html
    rows, details = unpack(html)
    assert [row[1] for row in rows] == [f"q{n}" for n in range(PER_PARCEL + 3)]
    assert len(details) == len(rows)
    assert details[PER_PARCEL + 1]["prompts"][0].startswith(f"Question: {rows[PER_PARCEL + 1][8]}")


@pytest.mark.parametrize("piece", [1, 2, 5, 6])
def test_a_table_that_is_written_in_pieces_holds_every_question_once(
    ledger: MemoryLedger, report: Reporter, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """It was one text, beside which stood its bytes: for 100,000 questions of 7 kB, the report took 2.2 GB."""
    run = open_run(ledger, make_questions(5))
    monkeypatch.setattr("producer.report.table.PER_PIECE", piece)

    rows, _ = unpack(report.page(run).html)
    assert [(row[1], row[8]) for row in rows] == [(each.id, each.question) for each in make_questions(5)]


def test_the_table_of_a_run_without_a_written_question_is_empty(ledger: MemoryLedger, report: Reporter) -> None:
    run = interrupted_run(ledger, make_questions(2), written=0)

    assert unpack(report.page(run).html) == ([], [])


def test_what_several_runs_asked_stands_there_once(ledger: MemoryLedger, report: Reporter) -> None:
    questions = [make_question(n, context=f"Context {n}.", metadata={"level": n}) for n in range(PER_PARCEL + 3)]
    same, otherwise = open_run(ledger, questions, "same"), open_run(ledger, questions, "same", seed=7)
    words = Prompt(name="words", text="Say: {{ question }}")
    other_words, other_questions = open_run(ledger, questions, "words", prompt=words), open_run(ledger, questions[:2])
    chat = open_run(ledger, questions, "chat", chat_template=ChatTemplate.TURNS, description="Say.")
    runs = [same, otherwise, other_words, other_questions, chat]
    for run in runs[1:]:
        answer_all(ledger, run)
    html = report.page(*runs).html
    (texts, _), *_ = packed(html)
    assert len(texts[0]) == len(questions) + 2, "each set of questions once"
    rows, details = unpack(html)
    for number, run in enumerate(runs):
        asked = questions if run is not other_questions else questions[:2]
        mine = [(row, each) for row, each in zip(rows, details, strict=True) if row[0] == number]
        assert [(row[1], row[8], row[9]) for row, _ in mine] == [(q.id, q.question, list(q.choices)) for q in asked]
        assert [each["context"] for _, each in mine] == [q.context for q in asked]
        assert [each["metadata"] for _, each in mine] == [q.metadata for q in asked]
        assert [each["prompts"] for _, each in mine] == [prompts_of(q, run.spec) for q in asked]


def test_beside_a_run_whose_questions_were_not_all_written_every_row_shows_its_own_question(
    ledger: MemoryLedger, report: Reporter
) -> None:
    asked, others = make_questions(5), [make_question(n, id=f"other{n}") for n in range(5)]
    begun, between = interrupted_run(ledger, asked, 2, "begun"), open_run(ledger, others, "between")
    whole, again = open_run(ledger, asked, "whole", seed=7), open_run(ledger, asked, "again", seed=8)
    runs = [begun, between, whole, again]

    html = report.page(*runs).html
    rows, _ = unpack(html)
    ids = [[row[1] for row in rows if row[0] == number] for number in range(len(runs))]
    assert ids == [["q0", "q1"], [each.id for each in others], *[[each.id for each in asked]] * 2]
    (texts, _), *_ = packed(html)
    assert len(texts[0]) == 2 + 5 + 5, "the last run shares the questions of the one before it"


def test_without_questions_the_page_has_the_figures_alone(ledger: MemoryLedger, report: Reporter) -> None:
    questions = [make_question(n, question=f"Only the table says so, {n}.") for n in range(20)]
    a, b = open_run(ledger, questions, "a"), open_run(ledger, questions, "b", seed=7)
    answer_all(ledger, a)
    answer_all(ledger, b, right=lambda n: n % 4 != 1)

    html = report.page(a, b, option="--no-questions").html
    page = Page(html)
    assert "Difference +25.0 percentage points" in page.text
    assert "Calibration" in page.text
    assert (packed(html), page.scripts("code")) == ([], 0)
    assert "Only the table" not in html
    assert not any(attributes.get("href") == "#questions" for _, attributes in page.tags)


def test_of_very_many_subjects_the_page_lists_some_and_counts_all(ledger: MemoryLedger, report: Reporter) -> None:
    questions = [make_question(at, subject=f"subject {at:04}") for at in range(1003)]
    runs = [open_run(ledger, questions, name) for name in ("a", "b")]
    for run in runs:
        answer_all(ledger, run, right=lambda at: at < 300)
    page = report.page(*runs, option="--no-questions")
    listed = Counter(re.findall(r"subject \d{4}", page.text))
    assert "1,003 subjects, best first" in page.text
    assert "of these, the 500 best and the 500 worst (summary.json has all)" in page.text
    assert "By subject: 1,003 subjects, the first 1,000 by name" in page.text
    assert (listed["subject 0000"], listed["subject 0499"]) == (3, 3), "twice for itself, once for the pair"
    assert (listed["subject 0501"], listed["subject 1002"]) == (1, 2)


def test_the_prompts_of_another_model_are_told_once_and_those_of_another_template_each(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = make_questions(3)
    first, model = open_run(ledger, questions, "first"), open_run(ledger, questions, "model", model="another")
    words = open_run(ledger, questions, "words", prompt=Prompt(name="words", text="Say: {{ question }}"))
    html = report.page(first, model, words).html
    _, *parcels = packed(html)
    assert ["prompts" in each for parcel in parcels for each in parcel] == [True] * 3 + [False] * 3 + [True] * 3
    _, details = unpack(html)
    assert [each["prompts"] for each in details[3:]] == [
        prompts_of(q, run.spec) for run in (model, words) for q in questions
    ]


def test_an_opened_row_shows_the_prompt_with_the_passages_in_it(ledger: MemoryLedger, report: Reporter) -> None:
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }} {{ question }}")
    run = open_run(ledger, make_questions(1), rag=rag, prompt=template)
    shown = Passage(id="p", score=2.0, text="Sums are even.")
    ledger.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.WRONG, passages=(shown,))])
    _, details = unpack(report.page(run).html)
    assert details[0]["prompts"] == ["Sums are even. What is 0 plus 0?"]
