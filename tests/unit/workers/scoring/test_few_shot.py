"""Solved examples before the question."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from contract import Mode, Prompt, Question, Verdict
from contract.prompts import examples
from contract.spec import ChatTemplate, ExampleSelection, FewShot, Sampling
from tests.support import build_prompt, make_question, make_questions, make_spec
from tests.unit.workers.ready_engine import LETTERED
from tests.unit.workers.writer import WRITES, Writer, ask

POOL = tuple(make_questions(6))


def test_examples_come_solved_before_the_question() -> None:
    spec = make_spec(few_shot=FewShot(k=2, pool=POOL))
    prompt = build_prompt(make_question(50), spec)
    assert prompt == (
        "Question: What is 0 plus 0?\nAnswer: 0\n\nQuestion: What is 1 plus 1?\nAnswer: 3\n\n"
        "Question: What is 50 plus 50?\nAnswer:"
    )


def test_examples_of_a_lettered_prompt_are_solved_by_their_letter() -> None:
    spec = make_spec(mode=Mode.LETTER, prompt=LETTERED, few_shot=FewShot(k=1, pool=POOL))
    assert "Answer: A\n\n" in build_prompt(make_question(50), spec)


def of_subject(subject: str | None, *numbers: int) -> tuple[Question, ...]:
    return tuple(make_question(number, subject=subject) for number in numbers)


def test_examples_by_subject_are_the_first_of_the_questions_own() -> None:
    pool = (*of_subject("law", 0, 1, 2), *of_subject("art", 3, 4), *of_subject(None, 5, 6))
    few_shot = FewShot(k=2, selection=ExampleSelection.SUBJECT, pool=pool)

    def shown(subject: str | None) -> list[str]:
        return [each.id for each in examples(make_question(50, subject=subject), few_shot, seed=1)]

    assert (shown("law"), shown("art"), shown(None)) == (["q0", "q1"], ["q3", "q4"], ["q5", "q6"])


def test_a_description_stands_once_before_the_examples_and_names_the_questions_subject() -> None:
    spec = make_spec(few_shot=FewShot(k=1, pool=POOL), description='On {{ subject | replace("_", " ") }}.')

    asked = build_prompt(make_question(50, subject="world_history"), spec)

    assert asked.startswith("On world history.\n\nQuestion: What is 0 plus 0?\nAnswer: 0\n\nQuestion: What is 50")
    assert build_prompt(make_question(50), spec).count("On ") == 1


@pytest.mark.parametrize("spec", WRITES[:2], ids=lambda spec: spec["mode"])
@pytest.mark.parametrize("reasoning", ["", "\nIt lies on the Tiber.\nAnswer:"], ids=["label", "reasoned"])
def test_questions_that_a_model_makes_up_behind_its_answer_are_not_read_for_one(
    reasoning: str, spec: dict[str, Any]
) -> None:
    """A model that was shown examples goes on with more of them until `max_tokens` ends it."""
    few_shot = FewShot(k=1, pool=POOL)
    text = f"{reasoning} B\n\nCapital of Spain?\nA. Lima\nB. Quito\nC. Madrid\nD. Bern\nAnswer: C\n\nCapital of"

    def read(text: str, **more: Any) -> Verdict:
        samples = 2 if spec["mode"] is Mode.VOTE else 1
        return ask(Writer(lambda _: samples * [text]), **{**spec, "few_shot": few_shot, **more})

    assert read(text).choice == "B"
    assert read(text).raw_text.count("Spain"), "what was written is kept"
    assert read(text, chat_template=ChatTemplate.TURNS).choice == "C", "a turn has one answer, the last one"
    second_thoughts = f"{reasoning} B\n\nA. Paris is in France.\nB. Rome is in Italy, but wait.\n\nThe answer is C."
    assert read(second_thoughts).choice == "C"
    assert read(f"<think>{text}</think>The answer is D.").choice == "D"


def test_examples_with_reasoning_are_solved_as_the_model_is_told_to_end() -> None:
    pool = tuple(make_question(number, metadata={"cot": f"Twice {number}."}) for number in range(2))
    spec = make_spec(
        mode=Mode.GENERATE,
        sampling=Sampling(),
        prompt=Prompt(name="t", text="{{ question }} {{ choices[0].text }}"),
        few_shot=FewShot(k=2, rationale="cot", pool=pool),
    )
    blind = spec.model_copy(update={"prompt": Prompt(name="t", text="{{ question }}")})

    assert build_prompt(make_question(50), spec) == (
        "What is 0 plus 0? 0\nTwice 0.\nAnswer: A\n\nWhat is 1 plus 1? 2\nTwice 1.\nAnswer: B\n\n"
        "What is 50 plus 50? 100"
    )
    assert build_prompt(make_question(50), blind) == (
        "What is 0 plus 0?\nTwice 0.\nAnswer: 0\n\nWhat is 1 plus 1?\nTwice 1.\nAnswer: 3\n\nWhat is 50 plus 50?"
    ), "a label would mean nothing"


def test_a_template_may_name_the_subject() -> None:
    spec = make_spec(prompt=Prompt(name="t", text="{{ subject }}: {{ question }}"))

    assert build_prompt(make_question(1, subject="sums"), spec) == "sums: What is 1 plus 1?"
    assert build_prompt(make_question(1, subject=None), spec) == ": What is 1 plus 1?"


@pytest.mark.parametrize("selection", [ExampleSelection.FIXED, ExampleSelection.SEEDED])
def test_a_question_is_never_shown_to_itself(selection: ExampleSelection) -> None:
    few_shot = FewShot(k=5, selection=selection, pool=POOL)
    for seed, question in enumerate(POOL):
        shown = examples(question, few_shot, seed)
        assert len(shown) == 5
        assert question not in shown
    twin = POOL[0].model_copy(update={"id": "under another id"})
    assert POOL[0] not in examples(twin, few_shot, 1)


@pytest.mark.parametrize("selection", ExampleSelection)
def test_white_space_case_and_order_that_another_file_has_make_no_other_question_of_it(
    selection: ExampleSelection,
) -> None:
    few_shot = FewShot(k=len(POOL) - 1, selection=selection, pool=POOL)
    spaced = POOL[0].model_copy(update={"question": f" {POOL[0].question.replace(' ', '  ', 1)}\n"})
    louder = POOL[0].model_copy(update={"question": POOL[0].question.upper(), "choices": POOL[0].choices[::-1]})

    assert POOL[0] not in examples(spaced, few_shot, seed=1)
    assert POOL[0] not in examples(louder, few_shot, seed=1)


@pytest.mark.parametrize("selection", ExampleSelection)
def test_questions_that_read_alike_about_different_contexts_or_choices_are_examples_of_each_other(
    selection: ExampleSelection,
) -> None:
    said, verdicts = "Is the claim supported?", ("yes", "no")
    by_context = [make_question(n, question=said, choices=verdicts, context=f"Text {n}.", answer="A") for n in range(4)]
    by_choices = [make_question(n, question=said, choices=(f"claim {n}", "none"), answer="A") for n in range(4, 8)]
    pool = tuple(each.model_copy(update={"subject": "facts"}) for each in (*by_context, *by_choices))
    few_shot = FewShot(k=7, selection=selection, pool=pool)

    for seed, question in enumerate(pool):
        shown = examples(question, few_shot, seed)
        assert sorted(each.id for each in shown) == [each.id for each in pool if each.id != question.id]


@pytest.mark.parametrize("selection", ExampleSelection)
@pytest.mark.parametrize("size", [2, 40, 500])
def test_examples_are_those_of_a_list_of_all_others(selection: ExampleSelection, size: int) -> None:
    choices = ("a", "b", "c", "d")
    asked = [f"What is {n * n % (size // 2)}?" for n in range(size)]  # some come twice
    pool = tuple(make_question(n, question=each, choices=choices) for n, each in enumerate(asked))
    for k in {1, 2, min(size, 30)}:
        few_shot = FewShot(k=k, selection=selection, pool=pool)
        for seed, question in enumerate((*pool, make_question(size))):
            others = [each for each in pool if each.question != question.question]
            if selection is ExampleSelection.SUBJECT:
                others = [each for each in others if each.subject == question.subject]
            drawn = Random(seed).sample(others, min(k, len(others)))
            expected = drawn if selection is ExampleSelection.SEEDED else others[:k]
            assert list(examples(question, few_shot, seed)) == expected


class Steps(tuple[Question, ...]):
    """Counts how often one of them is looked at on a walk through them."""

    taken = 0

    def __iter__(self) -> Iterator[Question]:
        for each in super().__iter__():
            self.taken += 1
            yield each


@pytest.mark.parametrize("selection", ExampleSelection)
def test_the_pool_is_read_through_once_at_most_and_not_for_every_question(selection: ExampleSelection) -> None:
    pool = Steps(make_question(number) for number in range(1000))
    few_shot = FewShot.model_construct(k=2, selection=selection, pool=pool)
    for number in range(1000, 1100):
        assert len(examples(make_question(number), few_shot, seed=number)) == 2
    assert pool.taken <= 1000


def test_an_example_that_only_has_the_questions_id_is_another_question() -> None:
    question = make_question(50, id=POOL[0].id)

    assert POOL[0] in examples(question, FewShot(k=1, pool=POOL), seed=0)


def test_seeded_examples_differ_from_question_to_question_and_repeat_for_one() -> None:
    spec = make_spec(few_shot=FewShot(k=2, selection=ExampleSelection.SEEDED, pool=POOL))
    prompts = [build_prompt(make_question(number), spec).rpartition("Question:")[0] for number in range(50, 60)]
    assert len(set(prompts)) > 1
    assert prompts == [build_prompt(make_question(n), spec).rpartition("Question:")[0] for n in range(50, 60)]


def test_a_description_that_says_nothing_of_a_question_leaves_no_empty_lines_before_it() -> None:
    description = "{% if subject %}About {{ subject }}.{% endif %}"
    spec = make_spec(prompt=Prompt(name="t", text="{{ question }}"), description=description)

    assert build_prompt(make_question(1, subject=None), spec) == "What is 1 plus 1?"
    assert build_prompt(make_question(1, subject="sums"), spec) == "About sums.\n\nWhat is 1 plus 1?"
