"""Chance, and the best constant answer."""

from __future__ import annotations

from benchmarks.made_up import LETTERED
from contract.mode import Mode
from contract.spec import Judge, Prompt, Sampling
from producer.intake.survey import Digest
from producer.stats.guessing import Guessing
from tests.support import make_question, make_spec


def test_chance_of_a_circular_run_is_a_guess_at_every_rotation() -> None:
    digest = Digest()
    digest.add([make_question(0), make_question(1, choices=("1", "2"), answer="A")])

    assert digest.keys.guessing.chance(make_spec()) == (1 / 4 + 1 / 2) / 2
    each_rotation = round(((1 / 4) ** 4 + (1 / 2) ** 2) / 2, 6)
    assert digest.keys.guessing.chance(make_spec(circular=True, prompt=LETTERED)) == each_rotation
    assert digest.keys.guessing.chance(make_spec(prompt=LETTERED)) == (1 / 4 + 1 / 2) / 2


def test_where_the_prompt_shows_no_choices_every_rotation_is_the_same_guess() -> None:
    digest = Digest()
    digest.add([make_question(0)])

    assert digest.keys.guessing.chance(make_spec(circular=True)) == 1 / 4


def test_always_the_same_is_a_position_that_is_shown_or_a_choice_that_all_questions_have() -> None:
    unlike, alike = Guessing(), Guessing()
    for number in range(4):
        key = "B" if number else "A"
        unlike.add(make_question(number, answer=key))
        alike.add(make_question(number, choices=("yes", "no"), answer=key))

    assert unlike.constant(make_spec(prompt=LETTERED)) == ("B", 0.75)
    assert unlike.constant(make_spec()) is None, "the prompt shows no choices, so that there are no positions"
    assert alike.constant(make_spec()) == ("no", 0.75)
    for moved in (make_spec(prompt=LETTERED, shuffle=True), make_spec(prompt=LETTERED, circular=True)):
        assert unlike.constant(moved) is None
        assert alike.constant(moved) == ("no", 0.75)
    alike.include(unlike)
    assert alike.constant(make_spec(prompt=LETTERED)) == ("B", 0.75)
    assert Guessing().constant(make_spec(prompt=LETTERED)) is None

    tied = Guessing()
    tied.add(make_question(0, answer="B"))
    tied.add(make_question(1, answer="A"))
    tied.add(make_question(2, answer=None))
    assert tied.constant(make_spec(prompt=LETTERED)) == ("A", 0.5), "in whatever order questions come"
    same = Guessing()
    for key in "AB":
        same.add(make_question(0, choices=("yes", "no"), answer=key))
    assert same.constant(make_spec()) == ("no", 0.5)


def test_a_choice_that_all_questions_have_is_the_same_answer_wherever_it_stands() -> None:
    even, uneven = Guessing(), Guessing()
    for number in range(10):
        # The keys are at either place in turn; "yes" is right but once.
        choices = ("yes", "no") if (number % 2 == 0) is (number > 0) else ("no", "yes")
        even.add(make_question(number, choices=choices, answer="AB"[number % 2]))
        uneven.add(make_question(number, choices=choices, answer="A"))

    assert even.constant(make_spec()) == ("yes", 0.9)
    assert even.constant(make_spec(prompt=LETTERED)) == ("yes", 0.9), "which is more than either position"
    assert uneven.constant(make_spec(prompt=LETTERED)) == ("A", 1.0)
    parts = Guessing()
    parts.include(even)
    parts.include(even)
    assert parts.constant(make_spec()) == ("yes", 0.9)


def test_where_no_choices_are_shown_and_where_no_key_is_known_there_is_no_chance() -> None:
    keyed, keyless = Digest(), Digest()
    keyed.add([make_question(0)])
    keyless.add([make_question(0, answer=None)])
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))

    free = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    assert (keyed.keys.guessing.chance(free), keyed.keys.guessing.constant(free)) == (None, None)
    assert keyless.keys.guessing.chance(make_spec()) is None
