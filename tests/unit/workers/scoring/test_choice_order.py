"""The order of the choices: rotated, shuffled, and read back into the question's own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contract import Mode, Outcome, load_settings
from contract.choice_order import arrangements
from contract.spec import Sampling
from tests.support import make_questions, make_spec
from tests.unit.workers.ready_engine import ReadyEngine
from tests.unit.workers.writer import CAPITAL, Writer, ask
from workers.engines.base import Completion, GenerateRequest, Request, Text


def test_a_model_that_likes_the_first_place_is_caught_by_circular() -> None:
    verdict = ask(Writer(lambda _: []), mode=Mode.LETTER, circular=True)
    assert (verdict.rotations, verdict.rotations_right) == (4, 1)
    assert verdict.rotation_choices == ("A", "B", "C", "D"), "the first one shown, in the file's words"
    assert verdict.outcome is not Outcome.CORRECT


def test_a_model_that_knows_is_right_in_every_rotation() -> None:
    def knows(request: GenerateRequest) -> list[str]:
        (line,) = [line for line in request.prompt.splitlines() if line.endswith(". Rome")]
        return [f"Answer: {line[0]}"]

    verdict = ask(Writer(knows), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.outcome, verdict.choice, verdict.rotations_right, verdict.rotations) == (Outcome.CORRECT, "B", 4, 4)
    assert verdict.rotation_choices == ("B", "B", "B", "B")


def test_a_rotation_without_a_choice_has_none() -> None:
    def sometimes(request: GenerateRequest) -> list[str]:
        return ["Answer: A" if "A. Rome" in request.prompt else "No idea."]

    verdict = ask(Writer(sometimes), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.rotation_choices, verdict.rotations_right) == ((None, "B", None, None), 1)
    assert (verdict.outcome, verdict.choice) == (Outcome.WRONG, "B"), "right in one rotation is not right"


def test_of_two_rotations_the_one_with_a_choice_has_the_most_frequent_one() -> None:
    def late(request: GenerateRequest) -> list[str]:
        return ["Answer: B" if "B. Rome" in request.prompt else "No idea."]

    question = CAPITAL.model_copy(update={"choices": ("Rome", "Oslo"), "answer": "A"})
    verdict = ask(Writer(late), question, mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.rotation_choices, verdict.choice, verdict.outcome) == ((None, "A"), "A", Outcome.WRONG)


@pytest.mark.parametrize(
    ("text", "key", "outcome"), [("No idea.", "B", Outcome.UNANSWERED), ("Answer: A", None, Outcome.ANSWERED)]
)
def test_rotations_without_a_choice_or_a_key_are_not_wrong(text: str, key: str | None, outcome: Outcome) -> None:
    question = CAPITAL.model_copy(update={"answer": key})
    verdict = ask(Writer(lambda _: [text]), question, mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.outcome, verdict.rotations_right) == (outcome, 0)


def test_the_choice_of_most_rotations_stands_and_is_right_only_if_it_is_that_of_all() -> None:
    orders = arrangements(CAPITAL, make_spec(mode=Mode.LETTER, circular=True))
    meant = dict(zip((each.question.choices for each in orders), ("Oslo", "Rome", "Rome", "Bern"), strict=True))

    def changes(request: GenerateRequest) -> list[str]:
        lines = [line for line in request.prompt.splitlines() if line[1:3] == ". "]
        wanted = meant[tuple(line[3:] for line in lines)]
        return [f"Answer: {line[0]}" for line in lines if line.endswith(wanted)]

    verdict = ask(Writer(changes), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert verdict.rotation_choices == ("C", "B", "B", "D")
    assert (verdict.outcome, verdict.choice, verdict.rotations_right) == (Outcome.WRONG, "B", 2)


def test_a_rotation_that_was_cut_off_makes_the_verdict_one_that_was() -> None:
    completions = [
        Completion(texts=(Text(f"Answer: {each.question.answer}", 3, truncated=number == 2),))
        for number, each in enumerate(arrangements(CAPITAL, make_spec(mode=Mode.LETTER, circular=True)))
    ]

    class Cut(ReadyEngine):
        def generate(self, requests: Sequence[Request]) -> list[Completion]:
            return completions[: len(requests)]

    verdict = ask(Cut(load_settings()), mode=Mode.GENERATE, sampling=Sampling(), circular=True)
    assert (verdict.outcome, verdict.truncated) == (Outcome.CORRECT, True)


def test_shuffled_choices_are_read_back_into_their_original_labels() -> None:
    chosen = set()
    for number in range(40):
        question = CAPITAL.model_copy(update={"id": f"q{number}"})
        verdict = ask(Writer(lambda _: []), question, mode=Mode.LETTER, shuffle=True)
        (arrangement,) = arrangements(question, make_spec(mode=Mode.LETTER, shuffle=True))
        assert verdict.choice == arrangement.original("A")
        assert (verdict.outcome is Outcome.CORRECT) == (arrangement.question.choices[0] == "Rome")
        assert list(verdict.choice_scores) == ["A", "B", "C", "D"]
        assert verdict.choice_scores == {arrangement.original(label): -at for at, label in enumerate("ABCD")}
        chosen.add(verdict.choice)
    assert chosen == {"A", "B", "C", "D"}


def test_several_right_choices_stay_the_right_ones_in_every_order() -> None:
    question = CAPITAL.model_copy(update={"answer": "B", "also_right": ("D",)})
    right = {question.choice_text(label) for label in question.right}
    for arranged in arrangements(question, make_spec(mode=Mode.LETTER, circular=True)):
        shown = arranged.question
        assert {shown.choice_text(label) for label in shown.right} == right
        assert {arranged.original(label) for label in shown.right} == {"B", "D"}


def test_an_order_depends_on_seed_and_question_alone() -> None:
    def orders(seed: int) -> list[tuple[int, ...]]:
        spec = make_spec(mode=Mode.LETTER, shuffle=True, seed=seed)
        return [arrangements(each, spec)[0].order for each in make_questions(20)]

    assert orders(1) == orders(1) != orders(2)
