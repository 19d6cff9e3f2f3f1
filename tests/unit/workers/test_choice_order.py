"""The order of the choices: rotated, shuffled, and read back into the question's own."""

from __future__ import annotations

from contract import Mode, Outcome
from contract.choice_order import arrangements
from contract.spec import Sampling
from tests.support import make_questions, make_spec
from tests.unit.workers.writer import CAPITAL, Writer, ask
from workers.engines.base import GenerateRequest


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


def test_shuffled_choices_are_read_back_into_their_original_labels() -> None:
    chosen = set()
    for number in range(40):
        question = CAPITAL.model_copy(update={"id": f"q{number}"})
        verdict = ask(Writer(lambda _: []), question, mode=Mode.LETTER, shuffle=True)
        (arrangement,) = arrangements(question, make_spec(mode=Mode.LETTER, shuffle=True))
        assert verdict.choice == arrangement.original("A")
        assert (verdict.outcome is Outcome.CORRECT) == (arrangement.question.choices[0] == "Rome")
        assert list(verdict.choice_scores) == ["A", "B", "C", "D"]
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
