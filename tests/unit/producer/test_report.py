"""The report as a file: what is in it, that nothing in it can break out, and that it asks for nothing."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from contract.engine_info import EngineUsed
from contract.fleet import WorkerRecord, WorkerState
from contract.keys import score_queue
from contract.ledger import MemoryLedger, Run
from contract.prompts import prompts_of
from contract.question import Question
from contract.spec import ChatTemplate, IndexKind, Judge, Mode, Normalization, Prompt, Retrieval, Sampling
from contract.verdict import MAJORITY, ContextSource, Failure, Outcome, Passage, Verdict
from producer.broker import MemoryBroker
from producer.report.figures import places
from producer.report.measures import Measures, Spread, Throughput, steps, throughput
from producer.report.table import PER_PARCEL
from producer.session import Session
from tests.support import interrupted_run, make_question, make_questions, make_spec, open_run
from tests.unit.producer.conftest import Producer

HOSTILE = "</script></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;{{ 7*7 }}{% raw %}\u2028]]>"


class Page(HTMLParser):
    """Tags and texts of a page, and what it would load."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def scripts(self, kind: str) -> int:
        return sum(tag == "script" and attributes.get("type", "code") == kind for tag, attributes in self.tags)


def packed(html: str) -> list[Any]:
    """What the page carries, parcel by parcel."""
    parcels = re.findall(r'<script type="text/plain"[^>]*>([A-Za-z0-9+/=]*)</script>', html)
    return [json.loads(zlib.decompress(base64.b64decode(each))) for each in parcels]


def unpack(html: str) -> tuple[list[Any], list[Any]]:
    """The table's rows and details, as the page's script puts them together."""
    (questions, runs), *parcels = packed(html)
    details = [each for parcel in parcels for each in parcel]
    rows: list[Any] = []
    whole = []
    for run, (start, columns) in enumerate(runs):
        for place, (outcome, choice, confidence, latency) in enumerate(zip(*columns, strict=True)):
            id_, subject, key, text, choices, first = (column[start + place] for column in questions)
            common = {
                name: value for name, value in details[first].items() if name in {"context", "metadata", "prompts"}
            }
            whole.append(common | details[len(rows)])
            whole[-1]["prompts"] = [text.join(pieces) for pieces in whole[-1]["prompts"]]
            rows.append([run, id_, subject, outcome, key, choice, confidence, latency, text, choices])
    return rows, whole


def settle(ledger: MemoryLedger, run: Run, right: Callable[[int], bool] = lambda n: n % 2 == 0) -> None:
    """Verdicts for all questions of the run; question `n` is right where `right` says so."""
    questions = [question for question, _ in ledger.results(run.run_id)]
    for number, question in enumerate(questions):
        choice = question.answer if right(number) else next(x for x in question.labels if x != question.answer)
        verdict = Verdict(
            question_id=question.id,
            outcome=Outcome.CORRECT if right(number) else Outcome.WRONG,
            choice=choice,
            confidence=0.65,
            choice_scores=dict.fromkeys(question.labels, -1.0),
            batch_id=f"w/{number // 4}",
            batch_size=4,
            worker="w",
            latency_ms=100.0 + number,
            queued_ms=5.0,
            settled_at=1000.0 + number,
        )
        ledger.commit(run.run_id, [verdict])


@pytest.fixture
def report(session: Session) -> Producer:
    return Producer(session, "report")


def test_the_report_of_a_run_shows_accuracy_interval_chance_figures_and_how_it_was_asked(
    ledger: MemoryLedger, report: Producer
) -> None:
    run = open_run(ledger, make_questions(20))
    settle(ledger, run)
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


def test_a_run_that_failures_lower_is_not_called_worse_than_guessing(ledger: MemoryLedger, report: Producer) -> None:
    poor, failing = open_run(ledger, make_questions(40)), open_run(ledger, make_questions(41))
    settle(ledger, poor, right=lambda _: False)
    for question in make_questions(40):
        error = Failure(type="RequestRejected", message="too long")
        ledger.commit(failing.run_id, [Verdict(question_id=question.id, outcome=Outcome.FAILED, error=error)])
    settle(ledger, failing)  # the one that is left

    texts = []
    for run in (poor, failing):
        report(run.run_id)
        texts.append(Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text)

    assert "below chance: chance is 25.0 %" in texts[0]
    assert "right on 2.4 % of 41 questions" in texts[1]
    assert "and on 100.0 % of the 1 question that did not fail (20.7 to 100.0 %)" in texts[1]
    assert "On the 1 question it answered, it is not distinguishable from chance: chance is 25.0 %" in texts[1]
    assert "did not fail" not in texts[0]


def test_a_run_in_which_every_question_failed_is_right_on_no_share_of_them(
    ledger: MemoryLedger, report: Producer
) -> None:
    run = open_run(ledger, make_questions(8))
    error = Failure(type="APIConnectionError", message="Connection error.")
    ledger.commit(run.run_id, [Verdict(question_id=f"q{n}", outcome=Outcome.FAILED, error=error) for n in range(8)])

    report(run.run_id)
    text = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text

    assert "has no accuracy: every question with a verdict failed. An error is not a wrong answer." in text
    assert "0.0 %" not in text


def test_calibration_of_scores_per_character_is_not_shown_as_that_of_probabilities(
    ledger: MemoryLedger, report: Producer
) -> None:
    plain = open_run(ledger, make_questions(4))
    divided = open_run(ledger, make_questions(4), normalization=Normalization.CHARACTER)
    told = "the softmax of scores per character, not a model probability"
    pages, ends, summaries = [], [], []
    for run in (plain, divided):
        settle(ledger, run)
        report(run.run_id)
        pages.append(Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text)
        ends.append(Producer(report.session, "export")(run.run_id).stdout)
        summaries.append(json.loads((Path("results") / run.run_id / "summary.json").read_text())["calibration"])

    assert [told in page for page in pages] == [False, True]
    assert ["ECE per character" in page for page in pages] == [False, True]
    assert [f"; confidence is {told}\n" in end for end in ends] == [False, True]
    assert [each["confidence"] for each in summaries] == ["the softmax of the choices' log-probabilities", told]


def test_a_model_that_answers_few_questions_but_right_is_not_called_a_guesser(
    ledger: MemoryLedger, report: Producer
) -> None:
    questions = [make_question(at, choices=("yes", "no"), answer="A") for at in range(20)]
    questions += [make_question(at) for at in range(20, 60)]
    run = open_run(ledger, questions)
    settled = [Verdict(question_id=f"q{at}", outcome=Outcome.CORRECT, choice="A") for at in range(20)]
    settled += [Verdict(question_id=f"q{at}", outcome=Outcome.UNANSWERED) for at in range(20, 60)]
    ledger.commit(run.run_id, settled)

    report()

    text = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text
    assert "right on 33.3 % of 60 questions (95 % interval 22.7 to 45.9 %)" in text
    # What it answered has two choices each, what it did not has four.
    assert "On the 20 questions it answered, it is above chance: chance is 50.0 %" in text


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
    ledger: MemoryLedger, report: Producer, answered: Callable[[int], str], told: str | None
) -> None:
    asked = [
        make_question(n, choices=("yes", "no", "maybe"), answer="A" if n % 50 < 30 else "C", subject=None)
        for n in range(600)
    ]
    run = open_run(ledger, asked)
    outcomes = [Outcome.CORRECT if answered(n) == each.answer else Outcome.WRONG for n, each in enumerate(asked)]
    ledger.commit(
        run.run_id,
        [Verdict(question_id=each.id, outcome=outcomes[n], choice=answered(n)) for n, each in enumerate(asked)],
    )

    ended = Producer(report.session, "export")(run.run_id).stdout
    report(run.run_id)

    folder = Path("results") / run.run_id
    text = Page((folder / "report.html").read_text(encoding="utf-8")).text
    assert "above chance: chance is 33.3 %" in text
    for where, before, scored in ((text, ", but it", "60.0 %"), (ended, "; the accuracy", "0.600\n")):
        assert ("always answering" in where) is (told is not None)
        assert told is None or f"{before} is {told} always answering 'yes', which scores {scored}" in where
    assert json.loads((folder / "summary.json").read_text())["constant"] == {"answer": "yes", "value": 0.6}


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
    ledger: MemoryLedger, report: Producer, outcome_of: Callable[[int], Outcome], together: int, which: str | None
) -> None:
    lettered = Prompt(name="lettered", text="{{ question }}{% for each in choices %}{{ each.label }}{% endfor %}")
    asked = [
        make_question(n, answer="A" if n % 100 < 40 else "BCD"[n % 3], context=f"Text {n // together}.", subject=None)
        for n in range(400)
    ]
    run = open_run(ledger, asked, prompt=lettered)
    ledger.commit(run.run_id, [Verdict(question_id=each.id, outcome=outcome_of(n)) for n, each in enumerate(asked)])

    ended = Producer(report.session, "export")(run.run_id).stdout
    report(run.run_id)

    text = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text
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
    ledger: MemoryLedger, report: Producer, mode: Mode, unread: int, truncated: bool, said: str | None
) -> None:
    asked = make_questions(4)
    sampling = Sampling(samples=5 if mode is Mode.VOTE else 1, temperature=1.0) if mode.writes else None
    run = open_run(ledger, asked, mode=mode, sampling=sampling)
    outcomes = [Outcome.UNANSWERED] * unread + [Outcome.CORRECT] * (4 - unread)
    verdicts = [
        Verdict(question_id=each.id, outcome=outcome, truncated=truncated)
        for each, outcome in zip(asked, outcomes, strict=True)
    ]
    ledger.commit(run.run_id, verdicts)

    ended = [Producer(report.session, command)(run.run_id).stdout for command in ("export", "watch", "status")]
    report(run.run_id)

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    for where in (*ended, page.text):
        assert ("most texts name no choice" in where) == (said is not None)
    if said:
        beginning = (
            f"{unread} of 4: most texts name no choice; look at some with `show`, then try mode letter, few-shot"
        )
        assert f"unanswered  {beginning} examples, {said}\n" in ended[0]


def test_the_mean_over_subjects_has_its_own_interval_and_the_accuracy_that_of_the_subjects_as_a_sample(
    ledger: MemoryLedger, report: Producer
) -> None:
    # Four large subjects that are hard, and a small one that is easy: the mean of five is far above the accuracy.
    subjects = [*(name for name in "abcd" for _ in range(40)), *("e" * 8)]
    run = open_run(ledger, [make_question(at, subject=name) for at, name in enumerate(subjects)])
    settle(ledger, run, right=lambda at: at >= 160 or at % 4 == 0)

    report()

    text = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text
    assert "Mean over 5 subjects, each counted once: 40.0 % (95 % interval 33.5 to 45.5 %, for these subjects)." in text
    assert (
        "With each question counted once, the accuracy is 28.6 %, with an interval of 16.8 to 41.3 % "
        "if the subjects are treated as a sample." in text
    )


def test_of_several_comparisons_each_p_stands_beside_the_one_that_counts_them_all(
    ledger: MemoryLedger, report: Producer
) -> None:
    questions = make_questions(40)
    runs = [open_run(ledger, questions, seed=seed) for seed in range(3)]
    for run, lost in zip(runs, (0, 7, 0), strict=True):
        settle(ledger, run, right=lambda at, lost=lost: at >= lost)  # type: ignore[misc]

    report(*(run.run_id for run in runs[:2]))
    report(*(run.run_id for run in runs))

    two, three = (Page(path.read_text(encoding="utf-8")).text for path in _shortest_name_first(runs[0]))
    # Seven of seven discordant pairs for A: 2 · ½ / 2⁷, and twice that beside another comparison.
    assert "p = 0.0078." in two
    assert "Holm)" not in two
    assert "p = 0.0078; p = 0.016 adjusted for all comparisons here (Holm)." in three


def _shortest_name_first(run: Run) -> list[Path]:
    return sorted((Path("results") / run.run_id).glob("*.html"), key=lambda each: len(each.name))


def test_the_report_rounds_an_accuracy_as_the_terminal_does(
    ledger: MemoryLedger, producer: Producer, report: Producer
) -> None:
    # 74 of 160 are 0.4625: the terminal's 0.463 once stood beside the report's 46.2 %.
    run = open_run(ledger, make_questions(160))
    settle(ledger, run, right=lambda at: at < 74)

    report()

    told = producer("export", run.run_id).stdout
    assert "accuracy     0.463  95 % interval 0.387 to 0.540" in told
    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "is right on 46.3 % of 160 questions" in page.text
    assert "46.2 %" not in page.text


def test_a_run_that_was_only_read_again_has_no_speed(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(20), rescored_from="another", mode=Mode.GENERATE, sampling=Sampling())
    settle(ledger, run)

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "50.0 %" in page.text
    assert "Throughput" not in page.text


def test_the_report_describes_the_engines_that_serve_the_runs_model_now(
    ledger: MemoryLedger, broker: MemoryBroker, report: Producer
) -> None:
    run = open_run(ledger, make_questions(4))
    settle(ledger, run)
    for model in (run.spec.model, "another"):
        queue, engine = score_queue(model), {"engine": f"engine of {model}"}
        broker.live.append(
            WorkerRecord(
                name=model, model=model, state=WorkerState.READY, queue=queue, engine=engine, process_started=1
            )
        )

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert f"engine of {run.spec.model}" in page.text
    assert "engine of another" not in page.text


def test_the_report_says_that_unlike_engines_answered_a_run(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(4))
    settle(ledger, run)
    for dtype in ("float32", "bfloat16"):
        ledger.note_engine(run.run_id, EngineUsed(worker=dtype, since=0.0, engine={"dtype": dtype}))

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert 'not identical: they differ in dtype ("float32", "bfloat16")' in page.text


def test_the_margin_of_a_vote_is_a_share_of_the_texts_and_any_other_is_in_nats(
    ledger: MemoryLedger, report: Producer
) -> None:
    run = open_run(ledger, make_questions(3))
    for question_id, rule in (("q0", MAJORITY), ("q1", "sum"), ("q2", "per-character")):
        verdict = Verdict(question_id=question_id, outcome=Outcome.CORRECT, choice="A", margin=0.25, rule=rule)
        ledger.commit(run.run_id, [verdict])

    report()

    _, details = unpack((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert [dict(each["facts"])["margin"] for each in details] == [
        "0.2500 of the texts",
        "0.2500 nats",
        "0.2500 nats per character",
    ]


def test_where_nobody_can_guess_the_report_draws_no_chance(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(20))
    judge = Judge(prompt=Prompt(name="grade", text="{{ response }}"))
    spec = make_spec(mode=Mode.JUDGE, sampling=Sampling(), judge=judge)
    free = run.model_copy(update={"run_id": "free", "chance": None, "spec": spec})
    ledger.open_run(free)
    ledger.add_questions(free.run_id, make_questions(20))
    settle(ledger, free)

    report(free.run_id)

    page = Page((Path("results") / free.run_id / "report.html").read_text(encoding="utf-8"))
    assert "95 % interval 29.9 to 70.1 %)." in page.text
    assert "guessing" not in page.text
    assert "dashed line is chance" not in page.text
    assert "Confusion matrix" not in page.text, "a free answer chooses no label"
    assert "Position bias" not in page.text
    assert not any(attributes.get("class") == "chance" for _, attributes in page.tags)


def test_a_circular_run_is_also_told_by_single_rotations_beside_one_guess(
    ledger: MemoryLedger, report: Producer
) -> None:
    shown = Prompt(name="lettered", text="{{ question }}{% for each in choices %}{{ each.label }}{% endfor %}")
    run = open_run(ledger, make_questions(4), circular=True, prompt=shown)
    for number in range(4):
        question_id, scores = f"q{number}", dict.fromkeys("ABCD", -1.0)
        verdict = Verdict(question_id=question_id, outcome=Outcome.WRONG, choice="A", confidence=0.9)
        rotated = {"rotations": 4, "rotations_right": 2, "choice_scores": scores}
        ledger.commit(run.run_id, [verdict.model_copy(update=rotated)])

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "single rotations 50.0 %" in page.text
    guess = [attributes["x1"] for _, attributes in page.tags if attributes.get("class") == "chance"]
    assert "25.00" in guess, "one rotation is guessed like any question"
    assert "the run's accuracy requires all rotations to be right" in page.text
    assert "An answer is right if the majority choice is" in page.text


def test_where_a_circular_runs_choices_stood_is_counted_rotation_by_rotation(ledger: MemoryLedger) -> None:
    run = open_run(ledger, make_questions(2), circular=True)
    rotated: dict[str, Any] = {"outcome": Outcome.WRONG, "rotations": 4, "rotations_right": 1}
    # Of q0 the first one shown is chosen whatever it is; of q1 nothing is told, as before this was kept.
    first_shown = Verdict(question_id="q0", choice="A", rotation_choices=tuple("ABCD"), **rotated)
    ledger.commit(run.run_id, [first_shown, Verdict(question_id="q1", choice="A", **rotated)])
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)

    assert measures.chosen_places == {0: 4}
    assert measures.key_places == {0: 1, 1: 1, 2: 1, 3: 1}
    figure = places(measures)
    assert figure is not None
    assert figure.caption.startswith("4 answered rotations of questions with a key.")


def test_a_position_that_the_model_was_not_shown_is_called_so(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(8))
    settle(ledger, run)

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "position, which the model was not shown" in page.text
    assert "as shown to the model" not in page.text


def test_each_subject_is_seen_against_a_guess_among_its_own_choices(ledger: MemoryLedger, report: Producer) -> None:
    two = make_question(0, subject="yes or no", choices=("yes", "no"), answer="A")
    five = make_question(1, subject="of five", choices=tuple("vwxyz"), answer="A")
    run = open_run(ledger, [two, five])
    settle(ledger, run)

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    lines = [attributes["x1"] for _, attributes in page.tags if attributes.get("class") == "chance"]
    # Of all, of those answered, of all compared in two other ways, and by the probability of the key.
    accuracies = ["25.00", "35.00", "25.00", "25.00", "35.00"]
    assert lines == [*accuracies, "50.00", "20.00"], "and then the better subject first"


def test_the_report_tells_ties_label_mass_made_up_answers_and_texts_that_were_cut_off(
    ledger: MemoryLedger, report: Producer
) -> None:
    run = open_run(ledger, make_questions(2))
    doubtful = Verdict(
        question_id="q0",
        outcome=Outcome.CORRECT,
        choice="A",
        margin=0.0,
        label_mass=1.125,
        truncated=True,
        simulated=True,
    )
    ledger.commit(run.run_id, [doubtful])

    report()

    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "1.125 is the mean probability that a label comes next" in page.text, "an engine that only simulates"
    assert "1 of 1: two choices score the same, the first was chosen" in page.text
    assert "1 of 1: the text was cut off at max_tokens" in page.text
    assert "1 of 1: made up by the simulated engine" in page.text
    assert f"The simulated engine answered 1 question of {run.run_id}: its figures are meaningless." in page.text


def test_the_report_asks_for_nothing_outside_itself(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(4))
    settle(ledger, run)
    report()
    html = (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")
    loading = {name for _, attributes in Page(html).tags for name in attributes} & {"src", "srcset", "action"}
    assert loading == set()
    assert all(attributes["href"].startswith("#") for _, attributes in Page(html).tags if attributes.get("href"))  # type: ignore[union-attr]
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_no_text_of_a_run_can_break_the_page(ledger: MemoryLedger, report: Producer) -> None:
    question = Question(
        id=f"q {HOSTILE}",
        question=HOSTILE,
        choices=(HOSTILE, "b"),
        answer="A",
        subject=HOSTILE,
        context=HOSTILE,
        metadata={HOSTILE: HOSTILE},
    )
    run = open_run(ledger, [question, make_questions(2)[1]]).model_copy(update={"source": HOSTILE})
    verdict = Verdict(
        question_id=question.id,
        outcome=Outcome.FAILED,
        raw_text=HOSTILE,
        worker=HOSTILE,
        batch_id=HOSTILE,
        batch_size=1,
        passages=(Passage(id=HOSTILE, score=float("nan"), text=HOSTILE),),
        choice_scores={"A": float("-inf")},
        error=Failure(type=HOSTILE, message=HOSTILE),
    )
    ledger.commit(run.run_id, [verdict])
    report()
    html = (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert (page.scripts("code"), page.scripts("text/plain")) == (1, 2)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert HOSTILE.replace("\u2028", " ") in page.text, "shown as it is"
    rows, details = unpack(html)
    assert rows[0][1:3] == [question.id, HOSTILE]
    assert details[0]["passages"] == [[f"1. {HOSTILE}, score nan", HOSTILE]]
    assert details[0]["prompts"] == [f"Question: {HOSTILE}\nAnswer:"]
    assert details[0]["scores"] == {"A": "-inf"}


def test_the_table_holds_every_question_with_prompt_and_scores(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(PER_PARCEL + 3))
    settle(ledger, run)
    report()
    html = (Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")
    rows, details = unpack(html)
    assert [row[1] for row in rows] == [f"q{n}" for n in range(PER_PARCEL + 3)]
    assert len(details) == len(rows)
    assert details[PER_PARCEL + 1]["prompts"][0].startswith(f"Question: {rows[PER_PARCEL + 1][8]}")


def test_what_several_runs_asked_stands_there_once(ledger: MemoryLedger, report: Producer) -> None:
    questions = [make_question(n, context=f"Context {n}.", metadata={"level": n}) for n in range(PER_PARCEL + 3)]
    same, otherwise = open_run(ledger, questions, "same"), open_run(ledger, questions, "same", seed=7)
    words = Prompt(name="words", text="Say: {{ question }}")
    other_words, other_questions = open_run(ledger, questions, "words", prompt=words), open_run(ledger, questions[:2])
    chat = open_run(ledger, questions, "chat", chat_template=ChatTemplate.TURNS, description="Say.")
    runs = [same, otherwise, other_words, other_questions, chat]
    for run in runs[1:]:
        settle(ledger, run)
    report(*(run.run_id for run in runs))

    html = next((Path("results") / same.run_id).glob("report-with-*.html")).read_text(encoding="utf-8")
    (texts, _), *_ = packed(html)
    assert len(texts[0]) == len(questions) + 2, "each set of questions once"
    rows, details = unpack(html)
    for number, run in enumerate(runs):
        asked = questions if run is not other_questions else questions[:2]
        mine = [(row, each) for row, each in zip(rows, details, strict=True) if row[0] == number]
        assert [(row[1], row[8], row[9]) for row, _ in mine] == [(q.id, q.question, list(q.choices)) for q in asked]
        assert [each["context"] for _, each in mine] == [q.context for q in asked]
        assert [each["metadata"] for _, each in mine] == [q.metadata for q in asked]
        assert [each["prompts"] for _, each in mine] == [prompts_of(q, run.spec) for q in asked]


def test_a_run_whose_questions_were_not_all_written_is_told_to_be_unsettled(
    ledger: MemoryLedger, report: Producer
) -> None:
    run = interrupted_run(ledger, make_questions(5), written=2)
    settle(ledger, run)

    report()

    text = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8")).text
    assert "This run is not settled: 3 of 5 questions without a verdict yet, excluded from all figures." in text


def test_beside_a_run_whose_questions_were_not_all_written_every_row_shows_its_own_question(
    ledger: MemoryLedger, report: Producer
) -> None:
    asked, others = make_questions(5), [make_question(n, id=f"other{n}") for n in range(5)]
    begun, between = interrupted_run(ledger, asked, 2, "begun"), open_run(ledger, others, "between")
    whole, again = open_run(ledger, asked, "whole", seed=7), open_run(ledger, asked, "again", seed=8)
    runs = [begun, between, whole, again]

    report(*(run.run_id for run in runs))

    html = next((Path("results") / begun.run_id).glob("report-with-*.html")).read_text(encoding="utf-8")
    rows, _ = unpack(html)
    ids = [[row[1] for row in rows if row[0] == number] for number in range(len(runs))]
    assert ids == [["q0", "q1"], [each.id for each in others], *[[each.id for each in asked]] * 2]
    (texts, _), *_ = packed(html)
    assert len(texts[0]) == 2 + 5 + 5, "the last run shares the questions of the one before it"


def test_several_runs_stand_beside_the_first_one_paired(ledger: MemoryLedger, report: Producer) -> None:
    questions = make_questions(20)
    a, b = open_run(ledger, questions, "a"), open_run(ledger, questions, "b", seed=7)
    settle(ledger, a)
    settle(ledger, b, right=lambda n: n % 4 != 1)
    done = report(a.run_id, b.run_id, "--json")
    (path,) = json.loads(done.stdout)["files"]
    assert path == f"results/{a.run_id}/report-with-{b.run_id}.html"
    page = Page(Path(path).read_text(encoding="utf-8"))
    assert "Difference +25.0 percentage points" in page.text
    assert "20 pairs" in page.text
    assert "1 field" in page.text, "they differ in the seed"
    assert "By subject: 2 subjects" in page.text
    assert "odd 10 0.000 0.500 +0.500" in page.text


@pytest.mark.parametrize(("flipped", "told"), [(30, "30 questions, the first 20"), (3, "3 questions")])
def test_of_many_flipped_questions_a_report_lists_the_first_and_tells_how_many_there_are(
    ledger: MemoryLedger, report: Producer, flipped: int, told: str
) -> None:
    a, b = open_run(ledger, make_questions(40), "a"), open_run(ledger, make_questions(40), "b", seed=7)
    settle(ledger, a)
    settle(ledger, b, right=lambda n: (n % 2 == 0) != (n < flipped))

    (path,) = json.loads(report(a.run_id, b.run_id, "--json").stdout)["files"]

    above, _, below = Path(path).read_text(encoding="utf-8").partition('aria-label="Flipped questions"')
    assert f"<summary>Flipped: {told}</summary>" in above
    assert re.findall(r'<th scope="row" class="wrap">(q\d+)</th>', below) == [f"q{n}" for n in range(min(flipped, 20))]


def test_reports_of_other_runs_do_not_overwrite_each_other_however_long_their_names_are(
    ledger: MemoryLedger, report: Producer
) -> None:
    names = [f"nightly-{'x' * 50}-{model}" for model in ("1b", "3b", "8b", "70b", "405b", "405b-base")]
    first, *others = (open_run(ledger, make_questions(1), name).run_id for name in names)
    paths: set[str] = set()
    for left_out in (0, -2, -1, -1):
        words = [each for each in others if each != others[left_out]]
        paths |= set(json.loads(report(first, *words, "--json").stdout)["files"])

    assert set(map(str, Path("results").rglob("*.html"))) == paths
    assert len(paths) == 3, "one for each set of runs, also for one that is reported twice"


def test_each_run_of_a_report_is_read_once(
    ledger: MemoryLedger, report: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = make_questions(8)
    runs = [open_run(ledger, questions, f"seed {seed}", seed=seed) for seed in range(4)]
    for run in runs:
        settle(ledger, run)
    read: list[str] = []
    results = ledger.results

    def noted(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        read.append(run_id)
        return results(run_id, start, stop)

    monkeypatch.setattr(ledger, "results", noted)

    report(*(run.run_id for run in runs))
    assert sorted(read) == sorted(run.run_id for run in runs)


def test_a_run_that_is_reopened_while_it_is_read_is_one_line(
    ledger: MemoryLedger, report: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (open_run(ledger, make_questions(4), name, seed=seed) for seed, name in enumerate("ab"))
    for run in (a, b):
        settle(ledger, run)
    results = ledger.results

    def reopened(run_id: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[Question, Verdict | None]]:
        for question, verdict in results(run_id, start, stop):
            yield question, None if (run_id, question.id) == (b.run_id, "q2") else verdict

    monkeypatch.setattr(ledger, "results", reopened)

    done = report(a.run_id, b.run_id, exit_code=1)
    assert f"Run {b.run_id} is no longer settled: question 'q2' is being asked again." in done.output
    assert not list(Path("results").rglob("*.html"))


def test_without_questions_the_page_has_the_figures_alone(ledger: MemoryLedger, report: Producer) -> None:
    questions = [make_question(n, question=f"Only the table says so, {n}.") for n in range(20)]
    a, b = open_run(ledger, questions, "a"), open_run(ledger, questions, "b", seed=7)
    settle(ledger, a)
    settle(ledger, b, right=lambda n: n % 4 != 1)

    report(a.run_id, b.run_id, "--no-questions")

    html = Path(f"results/{a.run_id}/report-with-{b.run_id}.html").read_text(encoding="utf-8")
    page = Page(html)
    assert "Difference +25.0 percentage points" in page.text
    assert "Calibration" in page.text
    assert (packed(html), page.scripts("code")) == ([], 0)
    assert "Only the table" not in html
    assert not any(attributes.get("href") == "#questions" for _, attributes in page.tags)


def test_the_prompts_of_another_model_are_told_once_and_those_of_another_template_each(
    ledger: MemoryLedger, report: Producer
) -> None:
    questions = make_questions(3)
    first, model = open_run(ledger, questions, "first"), open_run(ledger, questions, "model", model="another")
    words = open_run(ledger, questions, "words", prompt=Prompt(name="words", text="Say: {{ question }}"))
    report(first.run_id, model.run_id, words.run_id)
    html = next((Path("results") / first.run_id).glob("report-with-*.html")).read_text(encoding="utf-8")
    _, *parcels = packed(html)
    assert ["prompts" in each for parcel in parcels for each in parcel] == [True] * 3 + [False] * 3 + [True] * 3
    _, details = unpack(html)
    assert [each["prompts"] for each in details[3:]] == [
        prompts_of(q, run.spec) for run in (model, words) for q in questions
    ]


def test_with_retrieval_it_shows_what_was_found_and_what_passages_changed(
    ledger: MemoryLedger, report: Producer
) -> None:
    questions = [
        each.model_copy(update={"metadata": {"source_id": f"p{n}"}}) for n, each in enumerate(make_questions(20))
    ]
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=3)
    closed, opened = open_run(ledger, questions, "closed"), open_run(ledger, questions, "open", rag=rag)
    settle(ledger, closed)
    for number, question in enumerate(questions):
        right = number % 4 != 1
        verdict = Verdict(
            question_id=question.id,
            outcome=Outcome.CORRECT if right else Outcome.WRONG,
            choice=question.answer if right else "ABCD"[(number + 1) % 4],
            context_source=ContextSource.RETRIEVED,
            passages=(Passage(id=f"p{number}" if right else "other", score=2.0, text="a passage"),),
            retrieval_hit=right,
        )
        ledger.commit(opened.run_id, [verdict])
    report(closed.run_id, opened.run_id)
    page = Page(Path(f"results/{closed.run_id}/report-with-{opened.run_id}.html").read_text(encoding="utf-8"))
    assert "recall@1: a relevant passage in the first 1 75.0 %" in page.text
    assert "accuracy with a relevant passage shown 100.0 %" in page.text
    assert "accuracy without one shown 0.0 %" in page.text
    assert "repaired 5 of 10 incorrect" in page.text
    assert "broken 0 of 10 correct" in page.text
    assert "Effect of retrieval" in page.text


def test_two_runs_have_the_same_two_names_throughout_their_comparison(ledger: MemoryLedger, report: Producer) -> None:
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25)
    a, b = (open_run(ledger, make_questions(4), name, rag=each) for name, each in (("closed", None), ("open", rag)))
    for run, right in ((a, 1), (b, 3)):
        ledger.commit(run.run_id, [_verdict(number, right) for number in range(4)])
    report(a.run_id, b.run_id)
    page = Page(Path(f"results/{a.run_id}/report-with-{b.run_id}.html").read_text(encoding="utf-8"))
    begin = page.text.index(f"{b.run_id} compared with {a.run_id}")
    comparison = page.text[begin : page.text.index("is right on", begin)]
    assert f"A is {a.run_id}, B is {b.run_id}. Differences are B minus A." in comparison
    assert "B correct B incorrect A correct" in comparison
    assert "question subject key A B q" in comparison
    assert "field A B" in comparison
    assert "incorrect in A, correct in B" in comparison
    assert not {"first", "second"} & set(comparison.split())


def _verdict(number: int, right: int) -> Verdict:
    """Of question `number`; the first ones up to `right` are."""
    outcome = Outcome.CORRECT if number < right else Outcome.WRONG
    return Verdict(question_id=f"q{number}", outcome=outcome, choice="A", context_source=ContextSource.RETRIEVED)


def test_of_two_runs_with_retrieval_it_shows_which_found_more(ledger: MemoryLedger, report: Producer) -> None:
    questions = [make_question(n, gold_passages=[f"p{n}"]) for n in range(4)]
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25, retrieval_top_k=3)
    runs = [open_run(ledger, questions, f"seed {seed}", rag=rag, seed=seed) for seed in (1, 2)]
    for run, reached in zip(runs, (1, 3), strict=True):
        for number, question in enumerate(questions):
            passage = Passage(id=f"p{number}" if number < reached else "other", score=2.0, text="a passage")
            found: dict[str, Any] = {"context_source": ContextSource.RETRIEVED, "passages": (passage,)}
            ledger.commit(run.run_id, [Verdict(question_id=question.id, outcome=Outcome.WRONG, **found)])
    report(*(run.run_id for run in runs))
    page = Page(Path(f"results/{runs[0].run_id}/report-with-{runs[1].run_id}.html").read_text(encoding="utf-8"))
    assert "Recall of retrieval recall@3 A 0.250 · B 0.750 relevant passage found, of 4 questions" in page.text


def test_an_opened_row_shows_the_prompt_with_the_passages_in_it(ledger: MemoryLedger, report: Producer) -> None:
    rag = Retrieval(index="elements", index_digest="0" * 64, kind=IndexKind.BM25)
    template = Prompt(name="with context", text="{{ context }} {{ question }}")
    run = open_run(ledger, make_questions(1), rag=rag, prompt=template)
    shown = Passage(id="p", score=2.0, text="Sums are even.")
    ledger.commit(run.run_id, [Verdict(question_id="q0", outcome=Outcome.WRONG, passages=(shown,))])
    report()
    _, details = unpack((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert details[0]["prompts"] == ["Sums are even. What is 0 plus 0?"]


def test_runs_that_cannot_be_paired_are_reported_with_the_reason(ledger: MemoryLedger, report: Producer) -> None:
    a, b = open_run(ledger, make_questions(4), "a"), open_run(ledger, make_questions(6), "b")
    report(a.run_id, b.run_id)
    text = Path(f"results/{a.run_id}/report-with-{b.run_id}.html").read_text(encoding="utf-8")
    assert "asked different questions" in text


def test_a_run_without_any_verdict_says_so_and_draws_nothing(ledger: MemoryLedger, report: Producer) -> None:
    run = open_run(ledger, make_questions(3))
    report()
    page = Page((Path("results") / run.run_id / "report.html").read_text(encoding="utf-8"))
    assert "3 of 3 questions without a verdict yet" in page.text
    assert not any(tag == "figure" for tag, _ in page.tags)


def test_a_folder_that_cannot_be_written_is_one_line(ledger: MemoryLedger, report: Producer, tmp_path: Path) -> None:
    open_run(ledger, make_questions(3))
    (tmp_path / "file").write_text("")
    done = report("--out", "file", exit_code=2)
    assert "Traceback" not in done.output


def test_positions_are_those_that_the_model_was_shown(ledger: MemoryLedger) -> None:
    questions = make_questions(40)
    run = open_run(ledger, questions, shuffle=True)
    settle(ledger, run, right=lambda _: True)
    measures = Measures(run)
    for question, verdict in ledger.results(run.run_id):
        measures.add(question, verdict)
    assert measures.key_places == measures.chosen_places
    assert [measures.key_places[at] for at in range(4)] != [10, 10, 10, 10], "in the file the key walks"
    assert measures.confusion == {(label, label): 10 for label in "ABCD"}


def test_a_spread_is_by_nearest_rank() -> None:
    assert Spread.of_values([float(n) for n in range(1, 101)]) == Spread(50.0, 90.0, 99.0, 100.0)
    assert Spread.of_values([3.0]) == Spread(3.0, 3.0, 3.0, 3.0)
    assert Spread.of_values([]) is None


@pytest.mark.parametrize(
    ("low", "high", "most", "width"), [(0, 1, 6, 0.2), (0, 97, 10, 10), (0, 1, 1, 1), (5, 5, 3, 1)]
)
def test_steps_are_round(low: float, high: float, most: int, width: float) -> None:
    assert steps(low, high, most) == pytest.approx(width)


def test_throughput_counts_every_verdict_once_from_the_first_call() -> None:
    found = throughput([10.0, 10.2, 14.9, 15.0], started_at=9.0, batches=50)

    assert found is not None
    assert found.unit == "s"
    assert found.edges == pytest.approx([0, 1, 2, 3, 4, 5, 6])
    assert found.verdicts == [0, 2, 0, 0, 0, 2]
    assert throughput([], started_at=9.0, batches=0) is None


def steady(batches: int, each_s: float, size: int = 32) -> Throughput:
    """Of a run whose batches take equally long."""
    ends = [1_000.0 + each_s * (at + 1) for at in range(batches) for _ in range(size)]
    found = throughput(ends, 1_000.0, batches)
    assert found is not None
    assert sum(found.verdicts) == batches * size
    return found


@pytest.mark.parametrize(
    ("batches", "each_s", "unit", "width", "pieces"),
    [
        (1, 0.2, "s", 0.2, 1),
        (12, 0.17, "s", 2.04, 1),
        (60, 0.034, "s", 0.2, 10),
        (1_000, 0.2, "s", 5, 40),
        (3_000, 0.2, "min", 0.5, 20),
        (20_000, 1.8, "h", 0.5, 20),
        (20_000, 18.0, "h", 5, 20),
    ],
)
def test_a_steady_run_is_shown_as_steady_however_long_it_takes(
    batches: int, each_s: float, unit: str, width: float, pieces: int
) -> None:
    """Of 2 s, half of the columns were empty; of 10 h, one was a quarter of an hour and 1,000 s, and the last empty."""
    found = steady(batches, each_s)

    assert (found.unit, len(found.verdicts)) == (unit, pieces)
    assert found.edges[1] == pytest.approx(width)
    assert found.edges[-1] * found.unit_s == pytest.approx(batches * each_s)
    assert found.rates == pytest.approx([32 / each_s] * pieces, rel=0.25)
