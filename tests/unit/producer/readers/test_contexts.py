"""Which fields become a question's context, and what of lists and objects in them is text."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.layout_files import lines
from tests.unit.producer.readers.reading import questions, read


def test_contexts_of_every_kind_become_the_context(tmp_path: Path) -> None:
    rows = [
        {"question": "q1", "choices": ["x", "y"], "answer": 0, "contexts": ["one", "two"], "text": "three"},
        {"question": "q2", "choices": ["x", "y"], "answer": 0, "context": " as it is ", "source_id": "s"},
    ]

    one, two = questions(read(tmp_path, lines(*rows)))

    assert (one.context, one.metadata) == ("one\n\ntwo\n\nthree", {})
    assert (two.context, two.metadata) == (" as it is ", {"source_id": "s"})


@pytest.mark.parametrize(
    ("cell", "context"),
    [
        ('["passage one", "passage two"]', "passage one\n\npassage two"),
        (' ["only one"]\n', "only one"),
        ("['printed by', 'Python']", "printed by\n\nPython"),
        ("['printed by' 'numpy']", "printed by\n\nnumpy"),
        ('[{"title": "t", "text": "one"}, {"text": "two"}]', "one\n\ntwo"),
        ("{'contexts': array(['one', 'two'], dtype=object), 'labels': array(['a', 'b'])}", "one\n\ntwo"),
        (r"['it\'s \\beta', 'a\nb']", "it's \\beta\n\na\nb"),
        (r'["$\alpha$ decay", "$\beta$"]', None),
        ("[Applause] Thank you.", None),
        ("[1] Iron is a metal.", None),
        ("[1, 2]", None),
        ('[["year", 2004]]', None),
        ('["no end", "of the list"', None),
        ('{"title": "t"}', None),
    ],
)
def test_a_list_of_texts_in_a_tables_cell_is_a_list_of_contexts_and_any_other_text_stays_as_it_is(
    tmp_path: Path, cell: str, context: str | None
) -> None:
    """The model was shown the brackets and quotes."""
    quoted = cell.replace('"', '""')
    header = "question,choices,answer,contexts"

    (of_table,) = questions(read(tmp_path, f'{header}\nq,"[""x"", ""y""]",A,"{quoted}"\n'))
    row = {"question": "q", "choices": ["x", "y"], "answer": "A", "contexts": cell}
    (of_text,) = questions(read(tmp_path, lines(row)))

    assert of_table.context == of_text.context == (context or cell)


@pytest.mark.parametrize("name", ["text", "passage", "paragraph", "content", "page_content", "context"])
def test_the_texts_of_passages_with_titles_and_scores_are_the_context(tmp_path: Path, name: str) -> None:
    """Under another name than `text` they were dropped without a word."""
    passages = [{"title": "t", name: text, "score": 0.5} for text in ("one", "two")]
    own = {"question": "q", "choices": ["x", "y"], "answer": "A", "context": passages}
    named = {"question": "q", "options": ["x", "y"], "answer": "A", "contexts": passages}

    assert [each.context for row in (own, named) for each in questions(read(tmp_path, lines(row)))] == [
        "one\n\ntwo"
    ] * 2


def test_the_input_of_an_instruction_is_what_it_is_about(tmp_path: Path) -> None:
    """It was neither shown to the model nor kept."""
    asked = "Please answer with true or false: Do metals conduct?\n\nAnswer format: true/false"
    rows = [{"instruction": asked, "input": about, "answer": "true"} for about in ("Copper is a metal.", "", None)]

    file = read(tmp_path, lines(*rows), layout="instruction")

    assert [each.context for each in questions(file)] == ["Copper is a metal.", None, None]
    assert [each.metadata for each in questions(file)] == [{}] * 3
    assert file.fields.describe().endswith(" · context ← input")


@pytest.mark.parametrize("about", [" \n", 5, {}])
def test_the_input_of_an_instruction_that_is_no_text_changes_no_question(tmp_path: Path, about: object) -> None:
    """It became metadata, which made the same questions others, and their run another one."""
    asked = "Please answer with true or false: Do metals conduct?\n\nAnswer format: true/false"
    rows = [{"instruction": asked, "input": each, "answer": "true"} for each in ("", about)]

    without, found = questions(read(tmp_path, lines(*rows), layout="instruction"))

    assert (found.context, found.metadata) == (without.context, without.metadata) == (None, {})
