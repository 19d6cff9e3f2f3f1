"""The scoring modes, without an engine: what is asked, and what is read."""

from __future__ import annotations

import math

import pytest

from contract import Mode, Normalization, Prompt, Question, RunSpec
from contract.spec import Chat, ChatTemplate
from contract.turns import one_turn
from tests.support import make_question, make_spec
from workers.engines.base import Completion, ScoreRequest
from workers.scoring import MODES, Reading
from workers.scoring.base import compare

BARE = Prompt(name="bare", text="{{ question }}")


def reading(mode: Mode, *logprobs: float, normalization: Normalization = Normalization.NONE) -> Reading:
    question = make_question(1, choices=("a", "bb", "cccc", "dddddddd"))
    spec = make_spec(mode=mode, normalization=normalization)
    return read(mode, question, spec, *logprobs)


def read(mode: Mode, question: Question, spec: RunSpec, *logprobs: float) -> Reading:
    found = MODES[mode].read(question, [Completion(logprobs=logprobs, token_counts=(1,) * len(logprobs))], spec)
    assert isinstance(found, Reading)
    return found


def test_likelihood_asks_for_every_choice_behind_one_space() -> None:
    question = make_question(1, choices=("Paris", "Rome"))
    (request,) = MODES[Mode.LIKELIHOOD].ask(question, one_turn("Answer:"), make_spec())
    assert isinstance(request, ScoreRequest)
    assert request.prompt == "Answer:"
    assert request.continuations == (" Paris", " Rome")


def test_letter_asks_for_the_labels_and_for_no_more_than_there_are_choices() -> None:
    question = make_question(1, choices=("Paris", "Rome", "Oslo"), answer="C")
    (request,) = MODES[Mode.LETTER].ask(question, one_turn("Answer:"), make_spec(mode=Mode.LETTER))
    assert isinstance(request, ScoreRequest)
    assert request.continuations == (" A", " B", " C")
    assert request.keeps_space, "a space at the prompt's end would make two tokens of each label"


@pytest.mark.parametrize(
    ("normalization", "chosen", "rule"),
    [(Normalization.NONE, "A", "sum"), (Normalization.CHARACTER, "D", "per-character")],
)
def test_normalisation_divides_by_the_length_of_the_choice(
    normalization: Normalization, chosen: str, rule: str
) -> None:
    found = reading(Mode.LIKELIHOOD, -2.0, -4.0, -6.0, -8.0, normalization=normalization)
    assert (found.choice, found.rule) == (chosen, rule)


def test_mutual_information_asks_for_the_choices_also_without_question_examples_and_chat_template() -> None:
    question = make_question(1, choices=("Paris", "Rome"))
    spec = make_spec(
        normalization=Normalization.MUTUAL_INFO,
        unconditional_prompt="Answer:",
        chat_template=ChatTemplate.ALWAYS,
        adapter="law",
    )
    with_question, without = MODES[Mode.LIKELIHOOD].ask(question, one_turn("Which? Answer:"), spec)
    in_chat = Chat(ChatTemplate.ALWAYS)
    assert with_question == ScoreRequest(one_turn("Which? Answer:"), (" Paris", " Rome"), in_chat, "law")
    assert without == ScoreRequest(one_turn("Answer:"), (" Paris", " Rome"), Chat(ChatTemplate.NEVER), "law")


@pytest.mark.parametrize("template", ChatTemplate)
def test_behind_nothing_mutual_information_weighs_the_very_choices_that_follow_the_question_in_the_same_chat(
    template: ChatTemplate,
) -> None:
    spec = make_spec(normalization=Normalization.MUTUAL_INFO, chat_template=template)
    with_question, without = MODES[Mode.LIKELIHOOD].ask(make_question(1), one_turn("Which?"), spec)
    assert isinstance(with_question, ScoreRequest)
    assert without == with_question._replace(turns=one_turn(""))


def test_mutual_information_chooses_what_the_question_makes_likelier_and_keeps_both_sums() -> None:
    question = make_question(1, choices=("the", "osmium"))
    spec = make_spec(normalization=Normalization.MUTUAL_INFO)
    sums = [Completion((-2.0, -6.0), (1, 3)), Completion((-1.0, -9.0), (1, 3))]
    found = MODES[Mode.LIKELIHOOD].read(question, sums, spec)
    assert isinstance(found, Reading)
    assert (found.choice, found.rule) == ("B", "mutual-information")
    assert found.choice_scores == {"A": -1.0, "B": 3.0}
    assert found.unconditional_scores == {"A": -1.0, "B": -9.0}
    assert found.choice_tokens == {"A": 1, "B": 3}


def test_per_token_a_choice_of_several_is_divided_by_their_number_which_is_kept() -> None:
    question = make_question(1, choices=("the", "osmium"))
    spec = make_spec(normalization=Normalization.TOKEN)
    found = MODES[Mode.LIKELIHOOD].read(question, [Completion((-2.0, -6.0), (1, 4))], spec)
    assert isinstance(found, Reading)
    assert (found.choice, found.rule, found.choice_scores) == ("B", "per-token", {"A": -2.0, "B": -1.5})
    assert found.choice_tokens == {"A": 1, "B": 4}


def test_bytes_and_characters_differ_where_text_is_not_ascii() -> None:
    question = make_question(1, choices=("ää", "xxx"), answer="A")
    spec = make_spec(normalization=Normalization.BYTE)
    found = read(Mode.LIKELIHOOD, question, spec, -4.0, -3.0)
    assert found.choice_scores == {"A": -1.0, "B": -1.0}


def test_the_letters_mass_tells_how_much_the_model_meant_a_label() -> None:
    found = reading(Mode.LETTER, *(math.log(share) for share in (0.4, 0.2, 0.1, 0.05)))
    assert found.choice == "A"
    assert found.label_mass == pytest.approx(0.75)
    assert found.confidence == pytest.approx(0.4 / 0.75)
    assert found.margin == pytest.approx(math.log(2))
    assert found.rule == "next-token"


def test_a_label_of_several_tokens_is_weighed_whole_and_the_rule_says_so() -> None:
    question, spec = make_question(1), make_spec(mode=Mode.LETTER)
    completion = Completion(logprobs=(-1.0, -2.0, -3.0, -4.0), token_counts=(1, 2, 1, 1))
    found = MODES[Mode.LETTER].read(question, [completion], spec)
    assert isinstance(found, Reading)
    assert (found.choice, found.rule) == ("A", "label-likelihood")


def test_of_equal_scores_the_first_label_wins() -> None:
    assert compare({"A": -1.0, "B": -1.0}, rule="sum").choice == "A"


def test_very_unlikely_choices_still_have_a_confidence() -> None:
    assert compare({"A": -1000.0, "B": -1001.0}, rule="sum").confidence == pytest.approx(1 / (1 + math.exp(-1)))


def test_where_no_choice_is_possible_the_first_one_is_not_taken() -> None:
    with pytest.raises(ValueError, match="no choice possible"):
        reading(Mode.LETTER, *[-math.inf] * 4)

    assert reading(Mode.LETTER, -math.inf, -math.inf, -3.0, -math.inf).choice == "C"
    with pytest.raises(ValueError, match="a choice cannot be compared"):
        compare({"A": math.inf, "B": -1.0}, rule="sum")


def test_an_engine_that_answers_nan_has_not_answered() -> None:
    with pytest.raises(ValueError, match="NaN"):
        reading(Mode.LIKELIHOOD, -1.0, math.nan, -2.0, -3.0)
