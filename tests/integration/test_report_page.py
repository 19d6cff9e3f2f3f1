"""The report in Chromium, as a person uses it: searching, sorting, opening, on a phone, in the dark, on paper."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from contract.ledger import MemoryLedger
from contract.question import Question
from contract.verdict import Failure, Outcome, Passage, Verdict
from producer.report.page import build
from tests.browser import chromium, open_page
from tests.support import make_question, make_questions, open_run, settle

QUESTIONS = 230
ATTACK = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">{{7*7}}"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs over questions of which some are hostile."""
    ledger = MemoryLedger()
    made = make_questions(QUESTIONS)
    questions = [*made[:-1], made[-1].model_copy(update={"question": ATTACK, "choices": (ATTACK, "b", "c", "d")})]
    runs = [open_run(ledger, questions, name, seed=seed) for seed, name in enumerate(("first", "second"))]
    for run in runs:
        ledger.commit(run.run_id, [_verdict(question, n, run.spec.seed) for n, question in enumerate(questions)])
    written = tmp_path_factory.mktemp("report") / "report.html"
    written.write_text("".join(build(ledger, runs)), encoding="utf-8")
    return written


def _verdict(question: Question, number: int, seed: int) -> Verdict:
    if number == QUESTIONS - 1:
        failure = Failure(type=ATTACK, message=ATTACK)
        return Verdict(question_id=question.id, outcome=Outcome.FAILED, raw_text=ATTACK, error=failure)
    right = number % 3 != seed
    return Verdict(
        question_id=question.id,
        outcome=Outcome.CORRECT if right else Outcome.WRONG,
        choice=question.answer if right else "ABCD"[(number + 1) % 4],
        confidence=0.3 + number / 1000,
        choice_scores={"A": -1.0, "B": -2.0, "C": -3.0, "D": float("-inf")},
        passages=(Passage(id=f"p{number}", score=1.5, text=f"passage {number}"),),
        batch_id=f"w/{number // 16}",
        batch_size=16,
        latency_ms=50.0 + number,
        settled_at=time.time() + number,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, path: Path) -> Iterator[Page]:
    with open_page(browser, viewport={"width": 1200, "height": 900}) as opened:
        _show(opened, path)
        yield opened


def _show(page: Page, path: Path) -> None:
    page.goto(path.as_uri())
    page.locator("#rows tr").first.wait_for()


def test_a_menu_of_very_many_subjects_gives_way_to_the_search(browser: Browser, tmp_path: Path) -> None:
    ledger, written = MemoryLedger(), tmp_path / "report.html"
    questions = [make_question(at, subject=f"subject-{at}") for at in range(1001)]
    run = open_run(ledger, questions)
    written.write_text("".join(build(ledger, [run])), encoding="utf-8")
    with open_page(browser) as page:
        _show(page, written)
        assert page.locator("#outcome").is_visible()
        assert not page.locator("#subject").is_visible()
        page.locator("#search").fill("subject-1000")
        assert page.locator("#found").inner_text() == "1 of 1,001 questions"


def test_hostile_questions_are_shown_and_do_nothing(page: Page) -> None:
    page.locator("#outcome").select_option("=failed")
    assert page.locator("#found").inner_text() == f"2 of {2 * QUESTIONS} rows, one for each question and run"
    page.locator(".open").first.click()
    assert page.locator(".detail .text").first.inner_text() == ATTACK
    assert ATTACK in page.locator(".detail pre").last.inner_text()
    assert page.locator("img").count() == 0
    assert "broken" not in page.title()


def test_search_filters_and_paging_find_every_question(page: Page) -> None:
    page.locator("#search").fill("Q117")
    assert page.locator("#rows tr").count() == 2
    page.locator("#run").select_option(label=page.locator("#run option").nth(1).inner_text())
    assert page.locator("#rows tr").count() == 1
    page.locator("#search").fill("")
    seen = set()
    while True:
        seen |= set(page.locator("#rows td[data-name=id]").all_inner_texts())
        if page.locator("#next").is_disabled():
            break
        page.locator("#next").click()
    assert seen == {f"q{n}" for n in range(QUESTIONS)}
    page.locator("#subject").select_option("=odd")
    assert (
        page.locator("#found").inner_text()
        == f"{QUESTIONS // 2} of {2 * QUESTIONS} rows, one for each question and run"
    )


def test_only_where_the_runs_differ(page: Page) -> None:
    differing = sum((n % 3 != 0) != (n % 3 != 1) for n in range(QUESTIONS - 1))
    page.get_by_label("only where runs differ").check()
    assert (
        page.locator("#found").inner_text() == f"{2 * differing} of {2 * QUESTIONS} rows, one for each question and run"
    )


def test_two_wrong_answers_that_are_not_the_same_count_as_differing(browser: Browser, tmp_path: Path) -> None:
    ledger = MemoryLedger()
    questions = [each.model_copy(update={"answer": "A"}) for each in make_questions(3)]
    runs = [open_run(ledger, questions, name, seed=seed) for seed, name in enumerate(("first", "second"))]
    for run, choices in zip(runs, ("BBB", "BCD"), strict=True):
        verdicts = zip(questions, choices, strict=True)
        made = [Verdict(question_id=each.id, outcome=Outcome.WRONG, choice=choice) for each, choice in verdicts]
        ledger.commit(run.run_id, made)
    path = tmp_path / "report.html"
    path.write_text("".join(build(ledger, runs)), encoding="utf-8")

    with open_page(browser) as page:
        _show(page, path)
        page.get_by_label("only where runs differ").check()

        assert page.locator("#found").inner_text() == "4 of 6 rows, one for each question and run"


def test_questions_of_two_files_that_have_the_same_id_do_not_count_as_differing(
    browser: Browser, tmp_path: Path
) -> None:
    ledger = MemoryLedger()
    asked = (make_questions(4), [each.model_copy(update={"question": "Another?"}) for each in make_questions(4)])
    runs = [open_run(ledger, questions, name) for questions, name in zip(asked, ("first", "second"), strict=True)]
    for run, outcome in zip(runs, (Outcome.CORRECT, Outcome.WRONG), strict=True):
        settle(ledger, run.run_id, *(f"q{n}" for n in range(4)), outcome=outcome)
    path = tmp_path / "report.html"
    path.write_text("".join(build(ledger, runs)), encoding="utf-8")

    with open_page(browser) as page:
        _show(page, path)
        page.get_by_label("only where runs differ").check()

        assert page.locator("#found").inner_text() == "0 of 8 rows, one for each question and run"


def test_a_text_from_right_to_left_ends_at_its_left(browser: Browser, tmp_path: Path) -> None:
    ledger = MemoryLedger()
    text = "\u05de\u05d4 \u05d6\u05d4 C++?"
    question = Question(id="q", question=text, choices=(text, "b"), answer="A", subject=text)
    run = open_run(ledger, [question])
    ledger.commit(run.run_id, [Verdict(question_id="q", outcome=Outcome.CORRECT, choice="A")])
    path = tmp_path / "report.html"
    path.write_text("".join(build(ledger, [run])), encoding="utf-8")
    last_and_first = """found => [found.textContent.length - 1, 0].map(at => {
        const range = document.createRange();
        range.setStart(found.firstChild, at);
        range.setEnd(found.firstChild, at + 1);
        return range.getBoundingClientRect().left;
    })"""

    with open_page(browser, viewport={"width": 1200, "height": 900}) as page:
        _show(page, path)
        page.locator(".open").click()
        for place in (".shares th", ".open", "#rows td[data-name=subject]", ".detail .text", ".choices td >> nth=1"):
            last, first = page.locator(place).filter(has_text=text).first.evaluate(last_and_first)
            assert last < first, place


def test_columns_sort_both_ways_and_what_is_missing_comes_last(page: Page) -> None:
    heading = page.get_by_role("button", name="confidence")
    heading.click()
    assert page.locator("#rows td[data-name=confidence]").first.inner_text() == "0.300"
    assert page.locator("th.confidence").get_attribute("aria-sort") == "ascending"
    heading.click()
    assert page.locator("#rows td[data-name=confidence]").first.inner_text() == f"{0.3 + (QUESTIONS - 2) / 1000:.3f}"


def test_a_row_opens_by_keyboard_and_shows_prompt_passages_choices_and_scores(page: Page) -> None:
    page.locator("#search").fill("q227")
    page.locator(".open").first.focus()
    page.keyboard.press("Enter")
    detail = page.locator(".detail")
    detail.locator("h3").first.wait_for()
    text = detail.inner_text()
    for expected in ("[1. p227, score 1.5] passage 227", "Question: What is 227 plus 227?", "-inf", "key, chosen"):
        assert expected in text
    page.keyboard.press("Enter")
    assert detail.count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_amiss_by_the_rules_of_accessibility(browser: Browser, path: Path, scheme: str) -> None:
    with open_page(browser, viewport={"width": 1200, "height": 900}, color_scheme=scheme) as page:
        _show(page, path)
        page.locator(".open").first.click()
        page.locator(".detail h3").first.wait_for()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Browser, path: Path) -> None:
    with open_page(browser, **PHONE) as page:
        _show(page, path)
        page.locator(".open").first.tap()
        page.locator(".detail h3").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_paper_gets_figures_and_no_controls(browser: Browser, path: Path) -> None:
    with open_page(browser, color_scheme="dark") as page:
        _show(page, path)
        page.emulate_media(media="print")
        assert page.locator("figure svg").first.is_visible()
        assert not page.locator("form").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_javascript_the_summary_stands_and_the_table_says_what_it_needs(browser: Browser, path: Path) -> None:
    with open_page(browser, java_script_enabled=False) as page:
        page.goto(path.as_uri())
        assert page.locator("figure svg").count() == 12
        assert "needs JavaScript" in page.locator("noscript").inner_text()
