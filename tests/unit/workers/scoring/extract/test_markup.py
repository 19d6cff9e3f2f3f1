"""Answers in HTML, in LaTeX's boxes and in other languages' brackets."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import BLOOD, CITIES, label
from workers.scoring.extract import Extraction, extract


@pytest.mark.parametrize(
    "text",
    [
        "Answer: C<br>Explanation: it lies on the Seine.",
        "The answer is C<br/>It lies on the Seine.",
        "<p>The answer is C</p><p>because it lies on the Seine.</p>",
        "<h3>Answer</h3><p>C</p>",
        "<ol><li>It lies on the Seine.</li></ol><b>C</b>",
        '<div class="answer">The answer is C</div>It lies on the Seine.',
        "<span style='color: red'>C</span>",
        "The answer is <mark>C</mark>.",
        "<table><tr><td>Answer</td><td>C</td></tr></table>",
    ],
)
def test_an_answer_in_html_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize("text", ["A<br>B", "<li>A</li><li>B</li>", "<p>A</p><p>B</p>", "<td>A</td><td>B</td>"])
def test_letters_in_lines_of_html_are_no_word(text: str) -> None:
    assert extract(text, BLOOD).label is None
    assert label("Group <b>A</b><b>B</b>", BLOOD) is None


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        ([("A", "no"), ("B", "no"), ("C", "yes"), ("D", "no")], "C"),
        ([("A. Berlin", "wrong"), ("B. Madrid", "wrong"), ("C. Paris", "correct"), ("D. Rome", "wrong")], "C"),
        ([("A", "Berlin"), ("B", "Madrid"), ("C", "Paris"), ("D", "Rome")], None),
        ([("A", "no"), ("C", "yes")], None),
        ([("Answer", "C")], "C"),
    ],
)
def test_a_table_in_html_is_read_like_one_in_markdown(cells: list[tuple[str, ...]], read: str | None) -> None:
    markdown = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    rows = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    html = f"<table><tbody>{''.join(rows)}</tbody></table>"
    assert (label(markdown), label(html)) == (read, read)


def test_a_break_in_a_table_ends_no_row() -> None:
    table = "| A | Berlin<br>on the Spree | wrong |\n| B | Madrid | wrong |\n| C | Paris<br>on the Seine | correct |\n"
    assert label(f"{table}| D | Rome | wrong |") == "C"


def test_what_is_less_than_something_is_no_html() -> None:
    numbers = ("a <b and c> d", "a <i = 5> d", "a", "d")
    assert label("The answer is a <b and c> d.", numbers) == "A"
    assert label("The answer is d.", numbers) == "D"


@pytest.mark.parametrize(
    "content",
    [
        "\n C\n",
        "\n\\text{C}\n",
        "\\boxed{C}",
        "\\textsf{C}",
        "\\texttt{C}",
        "\\mathcal{C}",
        "\\underline{C}",
        "{\\bf C}",
        "\\large C",
        "\\bf (C)\\ Paris",
    ],
)
def test_a_box_is_read_whatever_its_font_and_lines(content: str) -> None:
    boxed = f"$\\boxed{{{content}}}$"
    assert extract(boxed, CITIES) == Extraction("C", "boxed")
    assert extract(f"The answer is A. Wait, no: {boxed}", CITIES).label == "C"


def test_a_box_that_was_left_open_does_not_reach_to_the_next_one() -> None:
    assert label("\\boxed{A\n\nNo, wait.\n\n\\boxed{C}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "C。",
        "【C】",
        "《C》",
        "答案：【C】",
        "答：C",
        "选项C",
        "选项：C。",
        "正确答案C",
        "本题答案为 C 。",
        "Alternativa C",
    ],
)
def test_a_label_among_the_signs_and_nouns_of_other_languages_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "选项A：柏林是德国首都。\n选项B：马德里是西班牙首都。",
        "选项A：柏林是德国的首都，所以排除。",
        "选项A：柏林在德国。\n选项B：马德里在西班牙。\n选项C",
        "Alternativa A: Berlin\nAlternativa B: Madrid",
        "Alternativa A: Berlin fica na Alemanha.\nAlternativa B",
    ],
)
def test_an_option_under_discussion_there_is_not_read(text: str) -> None:
    assert label(text) is None


@pytest.mark.parametrize("text", ["选项C错误。", "答案C是错的。", "【C】错误", "答案不是C 。", "选项C和选项D"])
def test_a_label_that_is_denied_or_one_of_several_there_is_not_read(text: str) -> None:
    assert label(text) is None
