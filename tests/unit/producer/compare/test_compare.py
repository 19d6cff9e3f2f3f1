"""`compare` as a person meets it, and what it refuses."""

from __future__ import annotations

import pytest

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger, RunState
from contract.question import Question
from contract.spec import Judge, Mode, Normalization, Prompt, Sampling
from contract.verdict import Outcome, Verdict
from producer.compare.spec_differences import differences
from producer.runs.templates import load_prompt
from tests.support import make_question
from tests.unit.producer.compare.conftest import QUESTIONS, RAG, SPEC, Ran, keyed
from tests.unit.producer.conftest import Producer


def test_the_figures_are_those_of_the_pairs_with_a_key(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    found = compare.json("one", "two")

    # q0 both, q1 only A, q2 to q4 only B, q5 in no pair (it failed in A); q6 has no key.
    assert found["contingency"] == {"both": 1, "only_a": 1, "only_b": 3, "neither": 0}
    assert (found["pairs"], found["without_key"], found["either_failed"]) == (5, 1, 1)
    assert found["failed"] == {"only_a": 1, "only_b": 0, "both": 0}
    assert (found["a"]["accuracy_pairs"]["right"], found["b"]["accuracy_pairs"]["right"]) == (2, 4)
    assert found["difference"]["value"] == pytest.approx(2 / 5, abs=1e-6)
    # Four discordant pairs, one of them for A: 2 · (1 + 4 / 2) / 16.
    assert found["mcnemar"] == {"p_value": pytest.approx(6 / 16), "test": "mid-p", "discordant": 4}
    assert found["minimum_detectable_effect"]["power"] == 0.8
    assert found["spec_differences"] == {"model": {"a": "small", "b": "large"}}
    assert [each["id"] for each in found["flips"]] == ["q1", "q2", "q3", "q4"]
    assert found["flips"][3] == {
        "id": "q4",
        "subject": "red",
        "answer": "A",
        "outcome_a": "unanswered",
        "choice_a": None,
        "outcome_b": "correct",
        "choice_b": "A",
        "retrieval": None,
        "retrieval_hit": None,
    }
    assert "retrieval" not in found, "neither run had it"


def test_an_error_is_not_a_wrong_answer(ran: Ran, compare: Producer) -> None:
    # A worker that failed three questions looked like a model that had got worse.
    ran("one", "cccwwfffcc", keyed(10))
    ran("two", "cccwwccwff", keyed(10), seed=1)

    found = compare.json("one", "two")

    assert found["contingency"] == {"both": 3, "only_a": 0, "only_b": 0, "neither": 2}
    assert found["failed"] == {"only_a": 3, "only_b": 2, "both": 0}
    assert (found["difference"]["value"], found["mcnemar"]) == (0.0, {"p_value": 1.0, "test": "mid-p", "discordant": 0})
    assert found["flips"] == []
    assert "failed      5 questions: 3 only in A · 2 only in B; excluded" in compare("one", "two").stdout


def test_runs_that_answered_no_question_both_are_told_so(ran: Ran, compare: Producer) -> None:
    ran("one", "ffc", keyed(3))
    ran("two", "fcf", keyed(3), seed=1)

    trouble = compare("one", "two", exit_code=1).stderr

    assert "No question with a key was answered in both runs; failed: 3 questions:" in trouble
    assert "1 only in A · 1 only in B · 1 in both" in trouble
    assert "requeue RUN --failed" in trouble


def test_runs_whose_guesses_are_worth_different_amounts_are_each_told_with_their_own(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "ccwwuca")
    ran("two", "cwcccwa", circular=True, prompt=load_prompt("lettered", Mode.LETTER))
    ran("three", "cwcccwa", mode=Mode.JUDGE, sampling=Sampling(), judge=Judge(prompt=SPEC.prompt))

    found = compare.json("one", "two")

    assert (found["chance"], found["a"]["chance"], found["b"]["chance"]) == (None, 0.5, 0.25)
    assert "chance      A 0.500 · B 0.250\n" in compare("one", "two").stdout
    assert "chance      A 0.500 · B -\n" in compare("one", "three").stdout


def test_the_chance_level_is_over_the_same_questions_as_the_accuracies(ran: Ran, compare: Producer) -> None:
    """Many failed questions of five choices made guesses among two look better than chance."""
    two, five = (make_question(n, choices=tuple("vwxyz"[:of]), answer="A") for n, of in enumerate((2, 5)))
    ran("one", "cf", [two, five], chance=0.35)
    ran("two", "wf", [two, five], chance=0.35)

    found = compare.json("one", "two")

    assert (found["chance"], found["a"]["accuracy_pairs"]["of"]) == (0.5, 1)


def test_that_a_circular_run_was_wrong_although_its_choice_is_the_key_is_explained(ran: Ran, compare: Producer) -> None:
    """A row of the flipped questions was `q1  red  A  A correct  A wrong`."""
    ran("one", "ccwwuca")
    ran("two", "cwcccwa", circular=True)
    ran("three", "ccwwuca", circular=True, seed=1)

    meant = "a choice is the most frequent one of a question's rotations, and correct only if all of them are"
    assert f"rotations   in B, {meant}\n" in compare("one", "two").stdout
    assert f"rotations   in A and B, {meant}\n" in compare("two", "three").stdout
    assert "rotations" not in compare("one", "three").stdout, "no question flipped, so no choice is shown"


def test_a_person_sees_the_same_and_the_first_questions_that_flipped(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    text = compare("one", "two", "--flips", 2).stdout

    assert "A           0.400  95 % interval 0.118 to 0.769 (2 of 5)  one" in text
    assert 'differ in   model: "small" → "large"' in text
    assert "pairs       5: both right 1 · only A 1 · only B 3 · neither 0" in text
    # 2/7 only A, 4/7 only B: 2/7 ± 1.95996 · √((6/7 - (2/7)²) / 7) = 0.28571 ± 0.65237.
    assert "difference  +0.400  95 % interval -0.367 to +0.938 (B minus A)" in text
    assert "McNemar     p = 0.38 (mid-p, two-sided, 4 discordant pairs)" in text
    assert "failed      1 question: 1 only in A; excluded, as an error is not a wrong answer" in text
    assert "no key      1 question, excluded" in text
    assert "flipped     4, shown 2" in text
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["question", "subject", "key", "A", "B"],
        ["q1", "red", "A", "A", "correct", "B", "wrong"],
        ["q2", "red", "A", "B", "wrong", "A", "correct"],
    ]


def test_a_setting_is_told_by_the_word_that_sets_it(ran: Ran, compare: Producer) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "cc", keyed(2), mode=Mode.LIKELIHOOD)

    assert 'differ in   mode: "letter" → "likelihood"\n' in compare("one", "two").stdout


def test_how_many_of_the_pairs_each_run_left_without_an_answer_stands_beside_the_difference(
    ran: Ran, compare: Producer
) -> None:
    # B lost by not answering, not by answering otherwise; the last question failed in B and is in no pair.
    ran("one", "cccwu", keyed(5))
    ran("two", "cuuuf", keyed(5), seed=1)

    found = compare.json("one", "two")

    assert (found["a"]["unanswered"], found["b"]["unanswered"]) == (0, 3)
    assert "unanswered  A 0 · B 3 of the pairs, counted as incorrect" in compare("one", "two").stdout
    ran("three", "ccccw", keyed(5), seed=2)
    ran("four", "cccww", keyed(5), seed=3)
    told = compare("three", "four").stdout
    assert "unanswered" not in told
    assert "no key" not in told


def test_runs_that_the_simulated_engine_answered_are_not_compared_without_a_word(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "--", keyed(2), seed=1)
    for question in keyed(2):
        made_up = Verdict(question_id=question.id, outcome=Outcome.WRONG, choice="B", simulated=True)
        ledger.commit("two", [made_up])

    assert "simulated   A 0 · B 2 of the pairs, so these figures are meaningless" in compare("one", "two").stdout


def test_a_difference_that_only_one_of_test_and_interval_finds_is_called_undecided(ran: Ran, compare: Producer) -> None:
    # None won by A alone and five by B: p = 0.031, and an interval that reaches below zero.
    ran("one", "w" * 5 + "c" * 95, keyed(100))
    ran("two", "c" * 100, keyed(100), seed=1)
    ran("three", "w" * 20 + "c" * 80, keyed(100), seed=2)

    found = compare.json("one", "two")

    assert found["mcnemar"]["p_value"] < 0.05
    assert found["difference"]["low"] < 0
    assert found["undecided"]
    told = "undecided   interval and test are approximations, and only one of them shows a difference"
    assert told in compare("one", "two").stdout
    assert "undecided" not in compare("three", "two").stdout
    assert "undecided" not in compare("two", "three").stdout


def test_a_p_value_too_small_for_a_number_is_not_told_as_zero(ran: Ran, compare: Producer) -> None:
    ran("one", "w" * 1200, keyed(1200))
    ran("two", "c" * 1200, keyed(1200), seed=1)

    assert "McNemar     p < 1e-300 (mid-p, two-sided, 1,200 discordant pairs)" in compare("one", "two").stdout


def test_ten_flips_are_shown_where_nobody_says_how_many(ran: Ran, compare: Producer) -> None:
    many = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A") for n in range(12)]
    ran("one", "c" * 12, many)
    ran("two", "w" * 12, many, seed=1)

    text = compare("one", "two").stdout

    assert "flipped     12, shown 10" in text
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["q8", "q9"]
    assert "q0" not in compare("one", "two", "--flips", 0).stdout


def test_a_run_against_itself_differs_in_nothing(ran: Ran, compare: Producer) -> None:
    ran("one", "ccwwwwa")

    text = compare("one", "last").stdout

    assert "differ in   nothing: both runs asked the same thing" in text
    assert "difference  +0.000  95 % interval -0.346 to +0.346" in text, "six pairs are too few to say more"
    assert "detectable  no difference: too few discordant pairs" in text
    assert "flipped     0, shown 0" in text
    assert "failed" not in text


def test_the_same_asked_twice_of_unlike_engines_is_told_to_differ_in_them(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, dtype in (("one", "float32"), ("other", "bfloat16")):
        run = ran(run_id, "ccwwwwa")
        told = "engines     of A and B not identical"
        assert told not in compare("one", "last").stdout
        ledger.note_engine(run.run_id, EngineUsed(worker=f"gpu0@{run_id}", since=0.0, engine={"dtype": dtype}))

    assert f'{told}: they differ in dtype ("float32", "bfloat16")' in compare("one", "other").stdout
    found = compare.json("one", "other")
    differing = {"within_a": {}, "within_b": {}, "across": {"dtype": ["float32", "bfloat16"]}}
    assert found["engine_differences"] == differing


def test_engines_of_two_models_are_told_to_differ_in_what_the_models_do_not_explain(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, model, weights in (("one", "small", "aa"), ("other", "large", "bb")):
        run = ran(run_id, "ccwwwwa", model=model)
        engine = {"weights": weights, "adapters": {weights: "cc"}, "dtype": "float32"}
        ledger.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=engine))
    assert "engines" not in compare("one", "other").stdout

    ledger.note_engine("other", EngineUsed(worker="gpu1", since=0.0, engine=engine | {"dtype": "bfloat16"}))
    told = compare("one", "other").stdout
    assert 'engines     of B not identical: they differ in dtype ("float32", "bfloat16")\n' in told
    assert told.count("not identical") == 1, "A differs from B in nothing besides"

    ledger.note_engine("one", EngineUsed(worker="gpu1", since=0.0, engine={"weights": "aa", "vllm": "1"}))
    told = compare("one", "other").stdout
    assert 'of A not identical: they differ in vllm (null, "1"), dtype ("float32", null)' in told
    assert 'of A and B not identical: they differ in dtype ("float32", null, "bfloat16")' in told


def test_a_model_that_samples_at_its_own_temperature_is_told_to_differ_in_that_from_one_that_does_not(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, left in (("one", {}), ("other", {"left_to_model": ["temperature"]})):
        run = ran(run_id, "ccwwwwa", model=run_id)
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine={"engine": "openai", **left}))

    told = compare("one", "other").stdout
    assert 'of A and B not identical: they differ in left_to_model (null, ["temperature"])' in told


def test_what_could_have_been_found_is_said(ran: Ran, compare: Producer) -> None:
    many = [Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A") for n in range(100)]
    ran("one", "c" * 60 + "w" * 40, many)
    ran("two", "c" * 50 + "w" * 30 + "c" * 20, many, seed=1)

    # ψ = 0.3, n = 100: √0.3 · (1.95996 · 10 + 0.84162 · √(100 + 0.70833 - 3.84146)) / 100.70833 = 0.15165
    told = "0.152 or more (about 80 % power at level 0.05, given these numbers of pairs and discordant pairs)"
    assert f"detectable  {told}\n" in compare("one", "two").stdout
    found = compare.json("one", "two")
    assert round(found["minimum_detectable_effect"]["value"], 3) == 0.152


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [
        (
            ["q0", "q1", "x2"],
            "they have 7 and 3 question ids, with 2 in common, of which 2 differ, first in question and subject of q0. "
            "Enqueue the same file",
        ),
        (
            [f"q{n}" for n in range(7)],
            "they have 7 and 7 question ids, with 7 in common, but they differ, first in question and subject of q0.",
        ),
        (["x"], "they have 7 and 1 question id, with 0 in common."),
    ],
    ids=["some", "all", "none"],
)
def test_runs_over_different_questions_are_refused(ran: Ran, compare: Producer, ids: list[str], wanted: str) -> None:
    others = [Question(id=each, question="other", choices=("a", "b"), answer="A") for each in ids]
    ran("one", "ccccccc")
    ran("two", "c" * len(others), others, questions_digest="1" * 64)

    result = compare("one", "two", exit_code=1)

    assert "error: Runs one and two asked different questions: " in result.stderr
    assert wanted in result.stderr
    assert "--shared" not in result.stderr, "they have nothing to compare"
    assert result.stdout == ""


def test_runs_that_share_some_questions_are_compared_by_these_alone_if_asked(ran: Ran, compare: Producer) -> None:
    """A run of a file and one of its first questions, or of a repaired version, could not be compared at all."""
    many = keyed(6)
    repaired = many[2].model_copy(update={"answer": "B"})
    renamed = many[3].model_copy(update={"subject": "law", "metadata": {"level": 1}})
    new = many[0].model_copy(update={"id": "new"})
    ran("one", "cwccww", many)
    # In another order.
    ran("two", "ccwcc", [new, many[1], repaired, renamed, many[0]], questions_digest="1" * 64, model="large")

    refused = compare("one", "two", exit_code=1).stderr
    text = compare("one", "two", "--shared").stdout
    found = compare.json("one", "two", "--shared")

    assert "6 and 5 question ids, with 4 in common, of which 1 differ, first in answer of q2." in refused
    assert "Add --shared to compare the 3 that are the same in both, or enqueue the same file for both, with" in refused
    assert "pairs       3: both right 2 · only A 0 · only B 1 · neither 0\n" in text
    assert "left out    4 questions: 2 only in A · 1 only in B · 1 changed between A and B; the figures are" in text
    assert found["left_out"] == {"only_a": 2, "only_b": 1, "changed": 1}
    assert (found["pairs"], [each["id"] for each in found["flips"]]) == (3, ["q1"])
    assert found["spec_differences"] == {"model": {"a": "small", "b": "large"}}
    mirrored = compare.json("two", "one", "--shared")
    assert mirrored["left_out"] == {"only_a": 1, "only_b": 2, "changed": 1}
    assert mirrored["contingency"] == {"both": 2, "only_a": 1, "only_b": 0, "neither": 0}


def test_runs_of_which_one_question_was_changed_do_not_differ_in_nothing(ran: Ran, compare: Producer) -> None:
    many = keyed(3)
    ran("one", "ccw", many)
    changed = many[2].model_copy(update={"question": "Another one?"})
    ran("two", "cc", [many[0], changed], questions_digest="1" * 64)

    text = compare("one", "two", "--shared").stdout

    assert "differ in   nothing but the questions: those of both runs were asked in the same way\n" in text
    assert "left out    2 questions: 1 only in A · 1 changed between A and B" in text


def test_runs_over_the_same_questions_are_compared_alike_with_and_without_the_option(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "ccwwufa")
    ran("two", "cwcccwa", model="large")

    assert compare("one", "two", "--shared").stdout == compare("one", "two").stdout
    assert "left out" not in compare("one", "two").stdout
    assert compare.json("one", "two")["left_out"] == {"only_a": 0, "only_b": 0, "changed": 0}


def test_of_shared_questions_chance_is_that_of_these_alone(ran: Ran, compare: Producer) -> None:
    hard = [
        Question(id=f"h{at}", question="q", choices=("a", "b", "c", "d"), answer="A", subject="hard") for at in range(4)
    ]
    ran("one", "cccccc", [*keyed(2), *hard], chance=0.333)
    ran("two", "cc", keyed(2), questions_digest="1" * 64)

    found = compare.json("one", "two", "--shared")

    assert (found["chance"], found["a"]["chance"], found["b"]["chance"]) == (0.5, 0.5, 0.5)
    assert "chance      0.500\n" in compare("one", "two", "--shared").stdout


def test_runs_that_share_no_question_or_of_which_one_is_not_settled_are_refused_also_with_the_option(
    ran: Ran, compare: Producer
) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "c", [keyed(1)[0].model_copy(update={"id": "x"})], questions_digest="1" * 64)
    ran("three", "-", keyed(1), questions_digest="2" * 64)

    told = compare("one", "two", "--shared", exit_code=1).stderr
    assert "Runs one and two share no question: 3 questions: 2 only in A · 1 only in B." in told
    assert "Run three is not settled" in compare("one", "three", "--shared", exit_code=1).stderr


def test_runs_of_which_one_has_relevance_judgements_are_refused_with_the_option(ran: Ran, compare: Producer) -> None:
    ran("closed-book", "cc", keyed(2))
    judged = [each.model_copy(update={"gold_passages": ("p1",)}) for each in keyed(2)]
    ran("retrieved", "cc", judged, questions_digest="1" * 64)

    told = compare("closed-book", "retrieved", exit_code=1).stderr

    assert "with 2 in common, but they differ, first in gold_passages of q0. Enqueue the same file, and give" in told
    assert "give --qrels to both" in told


def test_questions_whose_sources_differ_are_not_shared(ran: Ran, compare: Producer) -> None:
    for name, source in (("one", "7"), ("two", "8")):
        asked = [each.model_copy(update={"metadata": {"source_id": source}}) for each in keyed(2)]
        ran(name, "cc", asked, questions_digest=source * 64)

    told = compare("one", "two", exit_code=1).stderr
    assert "they differ, first in metadata of q0" in told
    assert "--shared" not in told


def test_runs_over_the_same_questions_in_another_order_are_refused(ran: Ran, compare: Producer) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "cc", keyed(2)[::-1], questions_digest="1" * 64)

    told = compare("one", "two", exit_code=1).stderr
    assert "with 2 in common, but in another order. Add --shared to compare the 2 that are the same in both" in told
    assert "difference  +0.000" in compare("one", "two", "--shared").stdout


@pytest.mark.parametrize(("one", "two", "culprit"), [("ccccc-c", "ccccccc", "one"), ("ccccccc", "ccccc-c", "two")])
def test_a_run_that_is_not_settled_is_refused(ran: Ran, compare: Producer, one: str, two: str, culprit: str) -> None:
    ran("one", one)
    ran("two", two)

    result = compare("one", "two", exit_code=1)

    assert f"Run {culprit} is not settled: 6 of 7 questions settled." in result.stderr
    assert f"python -m producer watch {culprit}" in result.stderr


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_nobody_is_told_to_wait_for_a_run_that_is_halted(
    ran: Ran, compare: Producer, ledger: MemoryLedger, state: RunState
) -> None:
    ran("one", "ccccc-c")
    ran("two", "ccccccc")
    ledger.halt("one", state)
    told = compare("one", "two", exit_code=1).stderr
    assert f"6 of 7 questions settled. It is {state}; resume it first: python -m producer resume one" in told
    assert "or export both as they are and join their results.csv by question_id" in told


def test_questions_without_any_key_cannot_be_compared(ran: Ran, compare: Producer) -> None:
    ran("one", "a", QUESTIONS[6:])
    ran("two", "a", QUESTIONS[6:], seed=1)

    assert "None of the 1 question has a key" in compare("one", "two", exit_code=1).stderr


@pytest.mark.parametrize("other", ["prompts", "two"])
def test_texts_to_prompts_cannot_be_compared_as_none_is_right_or_wrong(ran: Ran, compare: Producer, other: str) -> None:
    """A key was asked for, and the field of the file that has it."""
    prompts = [Question(id="0", question="Tell me a story.", choices=())]
    ran("prompts", "a", prompts, mode=Mode.FREE, sampling=Sampling())
    ran("two", "c", QUESTIONS[:1], questions_digest="1" * 64)

    assert compare(other, "prompts", exit_code=1).stderr == (
        "error: Run prompts (mode free) has no right or wrong answers: its texts are the result. "
        "Export both runs, and join their results.csv by question_id.\n"
    )


def test_an_unknown_run_is_one_line(ran: Ran, compare: Producer) -> None:
    ran("one", "ccccccc")

    assert "error: No run 'three'" in compare("one", "three", exit_code=1).stderr


def test_specs_differ_by_their_nested_fields() -> None:
    other = SPEC.model_copy(
        update={
            "mode": Mode.LIKELIHOOD,
            "normalization": Normalization.BYTE,
            "prompt": Prompt(name="plain", text="Q: {{ question }}"),
        }
    )

    assert differences(SPEC, other) == {
        "mode": ("letter", "likelihood"),
        "normalization": ("none", "byte"),
        "prompt.text": ("{{ question }}", "Q: {{ question }}"),
        "prompt.version": (SPEC.prompt.version, other.prompt.version),
    }
    assert differences(SPEC, SPEC) == {}


def test_of_a_part_that_one_run_lacks_what_is_not_set_in_the_other_is_no_difference() -> None:
    retrieving = SPEC.model_copy(update={"rag": RAG})
    found = differences(SPEC, retrieving)
    assert found["rag.index"] == (None, RAG.index)
    assert not found.keys() & {"rag", "rag.reranker", "rag.rerank_from", "rag.question_hashes"}
    reranking = SPEC.model_copy(update={"rag": RAG.model_copy(update={"reranker": "small"})})
    assert differences(retrieving, reranking) == {"rag.reranker": ("", "small"), "rag.rerank_from": (None, 50)}
    writing = SPEC.model_copy(update={"sampling": Sampling()})
    assert differences(SPEC, writing)["sampling.temperature"] == (None, 0.0)


def test_a_long_value_is_shown_by_its_beginning(ran: Ran, compare: Producer) -> None:
    ran("one", "ccccccc")
    ran("two", "ccccccc", prompt=Prompt(name="plain", text="long " * 50))

    text = compare("one", "two").stdout

    assert "prompt.version: " in text
    assert "long long…" in text
    assert "long " * 50 in compare.json("one", "two")["spec_differences"]["prompt.text"]["b"]


def test_long_values_are_shown_where_they_begin_to_differ(ran: Ran, compare: Producer) -> None:
    for name, end in ("one", "Answer:"), ("two", "The answer is"):
        ran(name, "ccccccc", prompt=Prompt(name="plain", text=f"{'long ' * 50}{end}"))

    text = " ".join(compare("one", "two").stdout.split())

    assert 'prompt.text: …long long long long Answer:" → …long long long long The answer is"' in text


def in_subjects(*subjects: str | None) -> list[Question]:
    return [
        Question(id=f"q{n}", question="q", choices=("a", "b"), answer="A", subject=each)
        for n, each in enumerate(subjects)
    ]


def test_a_difference_is_told_for_each_subject(ran: Ran, compare: Producer) -> None:
    asked = in_subjects("law", "law", "art", None)
    ran("one", "cwwc", asked)
    ran("two", "cccw", asked, seed=1)

    lines = [line.strip() for line in compare("one", "two").stdout.splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("by subject"))
    assert [line.removeprefix("by subject").strip().split(", ")[0] for line in lines[at : at + 3]] == [
        "none named: 1.000 → 0.000",
        "art: 0.000 → 1.000",
        "law: 0.500 → 1.000",
    ]
    assert (
        lines[at + 3]
        .strip()
        .startswith("not adjusted for multiple comparisons: without any true difference, one interval in twenty")
    )
    by_subject = compare.json("one", "two")["by_subject"]
    assert {name: (each["pairs"], each["difference"]["value"]) for name, each in by_subject.items()} == {
        "": (1, -1.0),
        "art": (1, 1.0),
        "law": (2, 0.5),
    }


def test_many_subjects_are_only_counted_and_a_single_one_is_not_told_apart(ran: Ran, compare: Producer) -> None:
    many = in_subjects(*(f"s{n}" for n in range(13)))
    ran("one", "c" * 13, many)
    ran("two", "w" * 13, many, seed=1)
    assert "by subject  13 subjects; --json and `report` list them" in compare("one", "two").stdout
    ran("three", "cc", in_subjects("law", "law"))
    ran("four", "wc", in_subjects("law", "law"), seed=1)
    assert "by subject" not in compare("three", "four").stdout
