"""The report's figures of one run, and what they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.made_up import LETTERED
from contract.engine_info import EngineUsed
from contract.keys import score_queue
from contract.ledger import MemoryLedger
from contract.mode import Mode, Normalization
from contract.spec import FewShot, Judge, Prompt, Sampling
from contract.verdict import Failure, Outcome, Verdict
from producer.broker import MemoryBroker
from tests.support import interrupted_run, make_question, make_questions, make_spec, open_run, settle
from tests.unit.producer.conftest import Producer, live_worker
from tests.unit.producer.report.conftest import Page, Reporter, answer_all


def test_the_report_of_a_run_shows_accuracy_interval_chance_figures_and_how_it_was_asked(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(20))
    answer_all(ledger, run)
    done = report()
    path = Path("results") / run.run_id / "report.html"
    assert done.stdout == f"report  {path}\n"
    page = Page(path.read_text(encoding="utf-8"))
    assert "50.0 %" in page.text
    assert "95 % interval 29.9 to 70.1 %" in page.text
    assert "above chance: chance is 25.0 %" in page.text
    for title in ("Calibration", "Confidence", "Position bias", "Confusion matrix", "Throughput", "Latency"):
        assert title in page.text
    assert {"even", "odd"} <= set(page.words)
    assert run.spec.fingerprint() in page.text
    assert sum(tag == "svg" and "aria-label" in attributes for tag, attributes in page.tags) == 6


def test_a_run_that_failures_lower_is_not_called_worse_than_guessing(ledger: MemoryLedger, report: Reporter) -> None:
    poor, failing = open_run(ledger, make_questions(40)), open_run(ledger, make_questions(41))
    answer_all(ledger, poor, right=lambda _: False)
    settle(ledger, failing.run_id, *(f"q{n}" for n in range(40)), outcome=Outcome.FAILED)
    answer_all(ledger, failing)  # the one that is left

    texts = [report.page(run).text for run in (poor, failing)]

    assert "below chance: chance is 25.0 %" in texts[0]
    assert "right on 2.4 % of 41 questions" in texts[1]
    assert "and on 100.0 % of the 1 question that did not fail (20.7 to 100.0 %)" in texts[1]
    assert "On the 1 question it answered, it is not distinguishable from chance: chance is 25.0 %" in texts[1]
    assert "did not fail" not in texts[0]


def test_a_run_in_which_every_question_failed_is_right_on_no_share_of_them(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(8))
    error = Failure(type="APIConnectionError", message="Connection error.")
    failed = [Verdict(question_id=f"q{n}", outcome=Outcome.FAILED, error=error, settled_at=1 + n) for n in range(8)]
    ledger.commit(run.run_id, failed)

    text = report.page(run).text

    assert "questions/s 1.1" not in text
    assert "has no accuracy: every settled question with a key failed. An error is not a wrong answer." in text
    assert "0.0 %" not in text


def test_failures_of_one_type_have_a_row_for_each_reason(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(4))
    for n, why in enumerate(("needs 900 tokens", "needs 901 tokens", "no such adapter")):
        error = Failure(type="RequestRejected", message=why)
        settle(ledger, run.run_id, f"q{n}", outcome=Outcome.FAILED, error=error)

    assert "RequestRejected 3 q0 needs 900 tokens q2 no such adapter" in report.page(run).text


def test_calibration_over_fewer_questions_than_the_figure_before_it_says_over_how_many(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = make_questions(4)
    several = questions[3].model_copy(update={"answer": "A", "also_right": ("B",)})
    alike, mixed = open_run(ledger, questions), open_run(ledger, [*questions[:3], several], "mixed")
    pages, ends = [], []
    for run in (alike, mixed):
        answer_all(ledger, run)
        pages.append(report.page(run).text)
        ends.append(Producer(report.session, "export")(run.run_id).stdout)

    lines = [next(line for line in end.splitlines() if "Brier" in line) for end in ends]
    assert [line.count("(of ") for line in lines] == [0, 1]
    assert "(of 3) · probability of the key" in lines[1]
    assert ["(of 3)" in page for page in pages] == [False, True]


def test_calibration_of_scores_per_character_is_not_shown_as_that_of_probabilities(
    ledger: MemoryLedger, report: Reporter
) -> None:
    plain = open_run(ledger, make_questions(4))
    divided = open_run(ledger, make_questions(4), normalization=Normalization.CHARACTER)
    told = "the softmax of scores per character, not a model probability"
    pages, ends, summaries = [], [], []
    for run in (plain, divided):
        answer_all(ledger, run)
        pages.append(report.page(run).text)
        ends.append(Producer(report.session, "export")(run.run_id).stdout)
        summaries.append(json.loads((Path("results") / run.run_id / "summary.json").read_text())["calibration"])

    assert [told in page for page in pages] == [False, True]
    assert ["ECE per character" in page for page in pages] == [False, True]
    assert [f"; confidence is {told}\n" in end for end in ends] == [False, True]
    assert [each["confidence"] for each in summaries] == ["the softmax of the choices' log-probabilities", told]


def test_a_model_that_answers_few_questions_but_right_is_not_called_a_guesser(
    ledger: MemoryLedger, report: Reporter
) -> None:
    questions = [make_question(at, choices=("yes", "no"), answer="A") for at in range(20)]
    questions += [make_question(at) for at in range(20, 60)]
    run = open_run(ledger, questions)
    settle(ledger, run.run_id, *(f"q{at}" for at in range(20)), choice="A")
    settle(ledger, run.run_id, *(f"q{at}" for at in range(20, 60)), outcome=Outcome.UNANSWERED)

    text = report.page(run).text
    assert "right on 33.3 % of 60 questions (95 % interval 22.7 to 45.9 %)" in text
    # What it answered has two choices each, what it did not has four.
    assert "On the 20 questions it answered, it is above chance: chance is 50.0 %" in text


def test_a_report_does_not_round_the_same_share_in_two_ways(ledger: MemoryLedger, report: Reporter) -> None:
    """An accuracy of 63 of 80 was 78.7 %, and the same of always answering 'yes' was 78.8 %."""
    asked = [make_question(n, choices=("yes", "no"), answer="A" if n < 63 else "B", subject=None) for n in range(80)]
    run = open_run(ledger, asked)
    settle(ledger, run.run_id, *(f"q{n}" for n in range(63)), choice="A")
    settle(ledger, run.run_id, *(f"q{n}" for n in range(63, 80)), outcome=Outcome.WRONG, choice="A")

    text = report.page(run).text
    assert "right on 78.7 % of 80 questions" in text
    assert "always answering 'yes', which scores 78.7 %" in text


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (lambda _: "A", "not distinguishable from"),
        (lambda n: "A" if n % 50 < 21 else "B", "below"),
        (lambda n: "A" if n % 50 < 30 else "C", None),
    ],
    ids=["always yes", "less than that", "what is right"],
)
def test_a_model_that_always_says_the_same_is_not_taken_for_one_that_knows(
    ledger: MemoryLedger, report: Reporter, answered: Callable[[int], str], told: str | None
) -> None:
    asked = [
        make_question(n, choices=("yes", "no", "maybe"), answer="A" if n % 50 < 30 else "C", subject=None)
        for n in range(600)
    ]
    run = open_run(ledger, asked)
    for n, each in enumerate(asked):
        outcome = Outcome.CORRECT if answered(n) == each.answer else Outcome.WRONG
        settle(ledger, run.run_id, each.id, outcome=outcome, choice=answered(n))

    ended = Producer(report.session, "export")(run.run_id).stdout
    text = report.page(run).text
    assert "above chance: chance is 33.3 %" in text
    for where, before, scored in ((text, ", but it", "60.0 %"), (ended, "; the accuracy", "0.600\n")):
        assert ("always answering" in where) is (told is not None)
        assert told is None or f"{before} is {told} always answering 'yes', which scores {scored}" in where
    summary = json.loads(Path("results", run.run_id, "summary.json").read_text())
    assert summary["constant"] == {"answer": "yes", "value": 0.6}


def always_a(n: int) -> Outcome:
    """The outcome of answering "A" where it is right for the first 40 of every 100 questions."""
    return Outcome.CORRECT if n % 100 < 40 else Outcome.WRONG


@pytest.mark.parametrize(
    ("outcome_of", "together", "which"),
    [
        # 47.5 %, right or wrong by text: from 40 %, 400 independent questions would tell it, 40 texts do not.
        (lambda n: Outcome.CORRECT if n // 10 < 19 else Outcome.WRONG, 10, ""),
        # Of what is answered, 40 % is right. So it would be with "A" alone.
        (lambda n: Outcome.UNANSWERED if n % 5 == 4 else always_a(n), 1, " over answered questions"),
        # Of all, 40 % is right, and of what is answered, 67 %.
        (lambda n: Outcome.UNANSWERED if n % 5 > 2 else Outcome.WRONG if n % 10 > 5 else Outcome.CORRECT, 1, None),
    ],
    ids=["shared texts", "some unanswered", "many unanswered"],
)
def test_the_end_of_a_run_and_the_report_agree_on_whether_it_beats_always_answering_the_same(
    ledger: MemoryLedger, report: Reporter, outcome_of: Callable[[int], Outcome], together: int, which: str | None
) -> None:
    asked = [
        make_question(n, answer="A" if n % 100 < 40 else "BCD"[n % 3], context=f"Text {n // together}.", subject=None)
        for n in range(400)
    ]
    run = open_run(ledger, asked, prompt=LETTERED)
    ledger.commit(run.run_id, [Verdict(question_id=each.id, outcome=outcome_of(n)) for n, each in enumerate(asked)])

    ended = Producer(report.session, "export")(run.run_id).stdout
    text = report.page(run).text
    for where, before in ((ended, f"; the accuracy{which}"), (text, "above chance: chance is 25.0 %, but it")):
        assert ("always answering" in where) is (which is not None)
        assert which is None or f"{before} is not distinguishable from always answering 'A', which scores" in where


@pytest.mark.parametrize(
    ("mode", "unread", "truncated", "said"),
    [
        (Mode.GENERATE, 3, False, "or a prompt that asks for a letter only"),
        (Mode.GENERATE, 3, True, "or a prompt that asks for a letter only, or a larger sampling.max_tokens"),
        (Mode.VOTE, 4, False, "or a prompt that asks for a letter only"),
        (Mode.GENERATE, 2, True, None),
        (Mode.LETTER, 3, False, None),
    ],
)
def test_where_most_texts_name_no_choice_the_end_of_a_run_its_status_and_the_report_say_what_to_do(
    ledger: MemoryLedger, report: Reporter, mode: Mode, unread: int, truncated: bool, said: str | None
) -> None:
    sampling = Sampling(samples=5 if mode is Mode.VOTE else 1, temperature=1.0) if mode.writes else None
    run = open_run(ledger, make_questions(4), mode=mode, sampling=sampling, prompt=LETTERED)
    settle(ledger, run.run_id, *(f"q{n}" for n in range(unread)), outcome=Outcome.UNANSWERED, truncated=truncated)
    settle(ledger, run.run_id, *(f"q{n}" for n in range(unread, 4)), truncated=truncated)

    ended = [Producer(report.session, command)(run.run_id).stdout for command in ("export", "watch", "status")]
    page = report.page(run)
    for where in (*ended, page.text):
        assert ("most texts name no choice" in where) == (said is not None)
    if said:
        beginning = f"{unread} of 4: most texts name no choice; look at some with `show`, then try mode letter"
        assert f"unanswered  {beginning}, few-shot examples, answer_prefix, {said}\n" in ended[0]


@pytest.mark.parametrize(
    ("shots", "begun", "shown", "said"),
    [
        (1, "So", True, "then try mode letter, or a"),
        (1, "So", False, "then try a prompt that shows the choices, or a"),
        (1, "", True, "then try mode letter, answer_prefix, or a"),
        (0, "So", False, "then try a prompt that shows the choices, few-shot examples, or a"),
    ],
)
def test_what_to_do_where_most_texts_name_no_choice_fits_the_run(
    ledger: MemoryLedger, report: Reporter, shots: int, begun: str, shown: bool, said: str
) -> None:
    """A run with examples was told to try some, and one that shows no choices the mode letter, which refuses that."""
    few_shot = FewShot(k=shots, pool=tuple(make_questions(1))) if shots else None
    prompt = LETTERED if shown else Prompt(name="hidden", text="{{ question }}")
    how: dict[str, Any] = {
        "sampling": Sampling(),
        "few_shot": few_shot,
        "prompt": prompt,
        "answer_prefix": begun,
    }
    run = open_run(ledger, make_questions(1), mode=Mode.GENERATE, **how)
    settle(ledger, run.run_id, "q0", outcome=Outcome.UNANSWERED)

    told = f"{said} prompt that asks for a letter only\n"
    assert told in Producer(report.session, "export")(run.run_id).stdout


def test_the_mode_letter_is_advised_without_the_reasoning_of_examples_that_it_refuses(
    ledger: MemoryLedger, report: Reporter
) -> None:
    few_shot = FewShot(k=1, rationale="why", pool=(make_question(9, metadata={"why": "Because."}),))
    how: dict[str, Any] = {"sampling": Sampling(), "few_shot": few_shot, "prompt": LETTERED}
    run = open_run(ledger, make_questions(1), mode=Mode.GENERATE, **how)
    settle(ledger, run.run_id, "q0", outcome=Outcome.UNANSWERED)

    told = "then try mode letter without few_shot.rationale, answer_prefix, or a"
    assert told in Producer(report.session, "export")(run.run_id).stdout


def test_the_mean_over_subjects_has_its_own_interval_and_the_accuracy_that_of_the_subjects_as_a_sample(
    ledger: MemoryLedger, report: Reporter
) -> None:
    # Four large subjects that are hard, and a small one that is easy: the mean of five is far above the accuracy.
    subjects = [*(name for name in "abcd" for _ in range(40)), *("e" * 8)]
    run = open_run(ledger, [make_question(at, subject=name) for at, name in enumerate(subjects)])
    answer_all(ledger, run, right=lambda at: at >= 160 or at % 4 == 0)

    text = report.page(run).text
    assert "Mean over 5 subjects, each counted once: 40.0 % (95 % interval 33.3 to 45.6 %, for these subjects)." in text
    assert (
        "With each question counted once, the accuracy is 28.6 %, with an interval of 4.7 to 54.7 % "
        "if the subjects are treated as a sample." in text
    )


def test_of_one_subject_there_is_no_mean_over_subjects(ledger: MemoryLedger, report: Reporter) -> None:
    """It was the accuracy once more, with another interval."""
    run = open_run(ledger, [make_question(at, subject="only") for at in range(8)])
    answer_all(ledger, run)

    text = report.page(run).text
    assert "only 50.0 %" in text
    assert "Mean over" not in text


def test_the_report_rounds_an_accuracy_as_the_terminal_does(
    ledger: MemoryLedger, producer: Producer, report: Reporter
) -> None:
    # 74 of 160 are 0.4625: the terminal's 0.463 once stood beside the report's 46.2 %.
    run = open_run(ledger, make_questions(160))
    answer_all(ledger, run, right=lambda at: at < 74)

    told = producer("export", run.run_id).stdout
    assert "accuracy     0.463  95 % interval 0.387 to 0.540" in told
    text = report.page(run).text
    assert "is right on 46.3 % of 160 questions" in text
    assert "46.2 %" not in text


def test_a_run_that_was_only_read_again_has_no_speed(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(20), rescored_from="another", mode=Mode.GENERATE, sampling=Sampling())
    answer_all(ledger, run)

    page = report.page(run)
    assert "50.0 %" in page.text
    assert "Throughput" not in page.text


def test_the_report_describes_the_engines_that_serve_the_runs_model_now(
    ledger: MemoryLedger, broker: MemoryBroker, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(4))
    answer_all(ledger, run)
    for model in (run.spec.model.upper(), "another"):  # as another host's deploy file may spell the same queue's name
        engine = {"engine": f"engine of {model}"}
        broker.live.append(live_worker(score_queue(model), model, model=model, engine=engine, process_started=1))

    page = report.page(run)
    assert f"engine of {run.spec.model.upper()}" in page.text
    assert "engine of another" not in page.text


def test_the_report_says_that_unlike_engines_answered_a_run(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(4))
    answer_all(ledger, run)
    for dtype in ("float32", "bfloat16"):
        ledger.note_engine(run.run_id, EngineUsed(worker=dtype, since=0.0, engine={"dtype": dtype}))

    page = report.page(run)
    assert 'not identical: they differ in dtype ("float32", "bfloat16")' in page.text


def test_where_nobody_can_guess_the_report_draws_no_chance(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(20))
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    free = run.model_copy(update={"run_id": "free", "chance": None, "spec": spec})
    ledger.open_run(free)
    ledger.add_questions(free.run_id, make_questions(20))
    answer_all(ledger, free)

    page = report.page(free)
    assert "95 % interval 29.9 to 70.1 %)." in page.text
    assert "guessing" not in page.text
    assert "dashed line is chance" not in page.text
    assert "Confusion matrix" not in page.text, "a free answer chooses no label"
    assert "Position bias" not in page.text
    assert not any(attributes.get("class") == "chance" for _, attributes in page.tags)


def test_a_circular_run_is_also_told_by_single_rotations_beside_one_guess(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(4), circular=True, prompt=LETTERED)
    rotated = {"rotations": 4, "rotations_right": 2, "choice_scores": dict.fromkeys("ABCD", -1.0)}
    ids = [f"q{number}" for number in range(4)]
    settle(ledger, run.run_id, *ids, outcome=Outcome.WRONG, choice="A", confidence=0.9, **rotated)

    page = report.page(run)
    assert "single rotations 50.0 %" in page.text
    guess = [attributes["x1"] for _, attributes in page.tags if attributes.get("class") == "chance"]
    # Of answered questions, which all rotations must get right; of the key's share in one; of one alone.
    assert guess[1:4] == ["0.39", "25.00", "25.00"], "one rotation is guessed like any question"
    assert "mean probability of the key in one rotation 25.0 %" in page.text
    assert "the run's accuracy requires all rotations to be right" in page.text
    assert "An answer is right if the majority choice is" in page.text
    told = "the softmax of the choices' log-probabilities, in the first rotation with the majority choice"
    assert f"Confidence is {told}." in page.text
    assert f"; confidence is {told}\n" in Producer(report.session, "export")(run.run_id).stdout


def test_a_position_that_the_model_was_not_shown_is_called_so(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(8))
    answer_all(ledger, run)

    page = report.page(run)
    assert "position, which the model was not shown" in page.text
    assert "as shown to the model" not in page.text


def test_each_subject_is_seen_against_a_guess_among_its_own_choices(ledger: MemoryLedger, report: Reporter) -> None:
    two = make_question(0, subject="yes or no", choices=("yes", "no"), answer="A")
    five = make_question(1, subject="of five", choices=tuple("vwxyz"), answer="A")
    run = open_run(ledger, [two, five])
    answer_all(ledger, run)

    page = report.page(run)
    lines = [attributes["x1"] for _, attributes in page.tags if attributes.get("class") == "chance"]
    # Of all, of those answered, of all compared in two other ways, and by the probability of the key.
    accuracies = ["35.00"] * 5
    assert lines == [*accuracies, "50.00", "20.00"], "and then the better subject first"


def test_without_failed_questions_a_guess_is_one_at_the_others(ledger: MemoryLedger, report: Reporter) -> None:
    two, five = (make_question(n, choices=tuple("vwxyz"[:of]), answer="A") for n, of in enumerate((2, 5)))
    run = open_run(ledger, [two, five])
    settle(ledger, run.run_id, "q0", choice="A")
    settle(ledger, run.run_id, "q1", outcome=Outcome.FAILED)

    lines = [attributes["x1"] for _, attributes in report.page(run).tags if attributes.get("class") == "chance"]
    assert lines[:2] == ["35.00", "50.00"]


def test_the_report_tells_ties_label_mass_made_up_answers_and_texts_that_were_cut_off(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = open_run(ledger, make_questions(2))
    settle(ledger, run.run_id, "q0", choice="A", margin=0.0, label_mass=1.125, truncated=True, simulated=True)

    page = report.page(run)
    assert "1.125 is the mean probability that a label comes next" in page.text, "an engine that only simulates"
    assert "1 of 1: two choices score the same, the first was chosen" in page.text
    assert "1 of 1: the text was cut off at max_tokens" in page.text
    assert "1 of 1: made up by the simulated engine" in page.text
    assert "<code>purge</code> the run" in page.html, "it stood between backticks, as in the terminal"
    assert f"The simulated engine answered 1 question of {run.run_id}: its figures are meaningless." in page.text


def test_a_run_whose_questions_were_not_all_written_is_told_to_be_unsettled(
    ledger: MemoryLedger, report: Reporter
) -> None:
    run = interrupted_run(ledger, make_questions(5), written=2)
    answer_all(ledger, run)

    text = report.page(run).text
    assert "This run is not settled: 3 of 5 questions without a verdict yet, excluded from all figures." in text


def test_a_run_without_any_verdict_says_so_and_draws_nothing(ledger: MemoryLedger, report: Reporter) -> None:
    run = open_run(ledger, make_questions(3))
    page = report.page(run)
    assert "3 of 3 questions without a verdict yet" in page.text
    assert not any(tag == "figure" for tag, _ in page.tags)


def test_a_file_where_the_results_folder_should_be_is_named(
    ledger: MemoryLedger, report: Reporter, tmp_path: Path
) -> None:
    open_run(ledger, make_questions(3))
    (tmp_path / "file").write_text("")
    assert "Directory 'file' is a file." in report("--out", "file", exit_code=2).stderr
