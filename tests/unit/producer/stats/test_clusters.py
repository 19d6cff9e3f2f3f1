"""Questions about one context: what they tell together, in figures and wherever a result is shown."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from benchmarks.coverage import rates
from contract.ledger import MemoryLedger, Run
from contract.verdict import Outcome, Verdict
from producer.export.summary import Summary
from producer.stats import Contexts, Pairs, Share, cluster_interval, mean_interval, share
from producer.stats.clusters import ClusterKeys, ContextValues, shared_by
from producer.stats.proportion import Interval
from tests.support import make_question, open_run, settle
from tests.unit.producer.conftest import Producer, WriteRows


def accuracy(right: int, of: int) -> Share:
    found = share(right, of)
    assert found is not None
    return found


def values(*given: tuple[str | None, int]) -> ContextValues:
    found = ContextValues()
    for context, value in given:
        found.add(ClusterKeys(context), value)
    return found


def contexts(*given: tuple[str | None, int]) -> Contexts:
    return Contexts.of([values(*given)])


def test_contexts_are_to_questions_what_subjects_are_and_a_question_without_one_stands_alone() -> None:
    found = contexts(("a", 1), ("a", 1), ("a", 0), ("b", 0), ("b", 0), (None, 1), (None, 0)).interval(accuracy(3, 7))

    shares = [share(2, 3), share(0, 2), share(1, 1), share(0, 1)]
    same = cluster_interval([each for each in shares if each])
    assert found is not None
    assert same is not None
    assert (found.low, found.high) == pytest.approx((same.low, same.high))


@pytest.mark.parametrize(
    "given",
    [[], [(None, 1), (None, 0)], [("a", 1), ("b", 0)], [("a", 1), ("a", 0)]],
    ids=["none", "no contexts", "one each", "all the same"],
)
def test_where_no_questions_share_one_of_several_contexts_there_is_nothing_to_add(
    given: list[tuple[str | None, int]],
) -> None:
    assert contexts(*given).interval(accuracy(1, 2)) is None


def test_two_contexts_say_that_they_tell_next_to_nothing() -> None:
    assert contexts(("a", 1), ("a", 1), ("b", 0), ("b", 0)).interval(accuracy(2, 4)) == Interval(0.0, 1.0)


def test_parts_of_a_run_add_up_to_the_whole() -> None:
    given = [("a", 1), ("b", -1), (None, 1), ("a", 1), ("b", 0), (None, 0)]
    found = values(*given[:3])
    found.include(values(*given[3:]))

    assert Contexts.of([found]) == contexts(*given) == Contexts.of([values(*given[::2]), values(*given[1::2])])
    assert contexts(*given).clusters == {(2, 2): 1, (-1, 2): 1, (1, 1): 1, (0, 1): 1}
    assert (contexts(*given).shared, contexts(*given).sharing) == (2, 4)


def test_a_question_without_a_context_counts_beside_one_that_is_the_only_one_of_its_context() -> None:
    assert contexts(("a", 1), (None, 1), (None, 1), (None, 0)).clusters == {(1, 1): 3, (0, 1): 1}


def test_parts_of_a_run_that_hides_its_contexts_add_up_to_the_whole() -> None:
    parts = [ContextValues(), ContextValues()]
    for at in range(40):
        parts[at // 20].add(ClusterKeys(context=str(at), text=str(at % 4)), 1)
    parts[0].include(parts[1])

    assert Contexts.of(parts[:1]) == Contexts(Counter({(10, 10): 4}), by_text=True)


def test_questions_that_a_file_repeats_are_clustered_with_their_choices_in_any_order_unless_they_have_a_context() -> (
    None
):
    first = make_question(0, choices=("a", "b"), answer="A")
    again, another = make_question(0, choices=("b", "a"), answer="B"), make_question(1, choices=("a", "b"), answer="A")
    told = make_question(0, choices=("a", "b"), answer="A", context="Text.")

    found = [shared_by(each, repeats=True, hides_contexts=False) for each in (first, again, another, told)]
    assert found[0] == found[1] != found[2]
    assert None not in (found[0].context, found[2].context)
    assert found[3] == ClusterKeys("Text.")
    assert shared_by(first, repeats=False, hides_contexts=False) == ClusterKeys(None)


def test_questions_with_contexts_of_their_own_take_eight_bytes_each() -> None:
    found = values(*((f"Text {at}.", at % 2) for at in range(100_000)))

    assert found.packed.itemsize * len(found.packed) == 800_000
    assert Contexts.of([found]).clusters == {(0, 1): 50_000, (1, 1): 50_000}


def test_of_a_hundred_samples_of_contexts_about_95_hold_the_true_accuracy_and_far_fewer_by_questions_alone() -> None:
    generator = np.random.default_rng(3)
    held = alone = 0
    for _ in range(500):
        right = generator.binomial(5, generator.beta(2, 2, size=60))
        found = contexts(*((str(context), int(at < count)) for context, count in enumerate(right) for at in range(5)))
        whole = accuracy(int(right.sum()), 300)
        within = found.interval(whole)
        assert within is not None
        held += within.low <= 0.5 <= within.high
        alone += whole.low <= 0.5 <= whole.high

    assert held > 460
    assert alone < 435


def asked_five_times(contexts_per_text: int) -> list[dict[str, Any]]:
    """Twenty questions, five times each, in that many contexts that no two questions share."""
    return [
        {
            "question": f"Which is {text}?",
            "choices": [f"{text}", f"{text} or so"],
            "answer": "A",
            "context": f"{text}, of {at % contexts_per_text}.",
        }
        for text in range(20)
        for at in range(5)
    ]


@pytest.mark.parametrize(
    ("rows", "shown", "because"),
    [
        (asked_five_times(5), (), "100 questions have 20 texts: the contexts in which they differ are not shown"),
        (asked_five_times(5), ("--set", "rag.use_context_field=true"), ""),
        (asked_five_times(1), (), "100 questions share 20 contexts, or are duplicates"),
    ],
    ids=["hidden contexts", "shown contexts", "no other contexts"],
)
def test_questions_that_only_a_hidden_context_tells_apart_are_asked_again(
    producer: Producer,
    ledger: MemoryLedger,
    write_rows: WriteRows,
    rows: list[dict[str, Any]],
    shown: tuple[str, ...],
    because: str,
) -> None:
    file = write_rows(*rows)
    runs = [producer.json("enqueue", file, "--set", f"seed={seed}", *shown)["run_id"] for seed in (0, 1)]
    for run_id in runs:
        for question, _ in ledger.results(run_id):
            right = int(question.question.split()[-1][:-1]) % 4 > 0 or run_id == runs[1]
            outcome = Outcome.CORRECT if right else Outcome.WRONG
            ledger.commit(run_id, [Verdict(question_id=question.id, outcome=outcome, choice="A")])

    told = producer("export", runs[0]).stdout
    compared = producer.json("compare", *runs)

    assert ("contexts" in told) == bool(because)
    assert because in told
    assert ("difference_context_interval" in compared) == bool(because)
    if because:
        found = contexts(*((str(text), int(text % 4 > 0)) for text in range(20) for _ in range(5)))
        interval = found.interval(accuracy(75, 100))
        assert interval is not None
        assert f"95 % interval {interval.low:.3f} to {interval.high:.3f}, as {because}" in told
        producer("report", *runs)
        page = (Path("results") / runs[0] / f"report-with-{runs[1]}.html").read_text()
        unit = "text" if " texts" in because else "context"
        assert set(re.findall(r"clustered by (\w+),? (?:the|two)", page)) == {unit}
        assert f"interval and test are clustered by {unit}. Treating" in page


def test_where_most_share_a_hidden_context_a_question_asked_twice_does_not_outweigh_it() -> None:
    hidden = [make_question(at, context=f"Text {at // 10}.", choices=("a", "b"), answer="A") for at in range(100)]
    asked = [*hidden, hidden[0].model_copy(update={"id": "again", "context": "Another."})]
    found = ContextValues()
    for each in asked:
        found.add(shared_by(each, repeats=False, hides_contexts=True), 1)

    assert (Contexts.of([found]).sharing, Contexts.of([found]).by_text) == (100, False)


def test_the_example_of_the_docstrings_has_these_numbers() -> None:
    found, whole = Contexts(Counter({(4, 4): 6, (2, 4): 4})), accuracy(32, 40)

    assert found._error(whole.variance) == pytest.approx(0.0816, abs=5e-5)
    assert found._modelled(whole.variance) == pytest.approx(10.67, abs=5e-3)
    assert found._effective(whole.variance) == pytest.approx(19.2, abs=0.05)
    within, of_these = found.clustered(whole), whole.interval_at(19.2)
    assert [round(each, 3) for each in (whole.low, whole.high)] == [0.652, 0.895]
    assert [round(each, 3) for each in (of_these.low, of_these.high)] == [0.579, 0.921]
    assert [round(each, 3) for each in (within.low, within.high)] == [0.579, 0.985]


def test_twenty_questions_that_a_file_has_five_times_each_tell_no_more_than_twenty() -> None:
    found = contexts(*((str(at % 20), 1) for at in range(100))).interval(accuracy(100, 100))

    assert found is not None
    assert (round(found.low, 3), found.high) == (0.839, 1.0), "as twenty of twenty; a hundred of a hundred have 0.963"


def test_contexts_that_are_somewhat_alike_tell_as_much_as_the_questions_that_their_design_effect_leaves() -> None:
    rights = [5] * 18 + [2, 3]
    found = Contexts(Counter((right, 5) for right in rights)).interval(accuracy(95, 100))

    squared_error = 20 / 19 * sum((right - 0.95 * 5) ** 2 for right in rights) / 100**2
    design_effect = squared_error / (0.95 * 0.05 / 100)
    left = 100 / design_effect * (student.ppf(0.975, 99) / student.ppf(0.975, 19)) ** 2
    assert 34 < left < 35
    expected = accuracy(95, 100).interval_at(left)
    assert found is not None
    assert found.low == pytest.approx(expected.low)
    assert found.high == 1.0


def test_contexts_without_a_difference_make_no_other_ones_significant() -> None:
    found = Contexts(Counter({(2, 2): 3, (0, 2): 7}))
    pairs = Pairs(14, 0, 6, 0)
    assert pairs.p_value() < 0.02
    assert found.p_value(pairs) == 1 / 8, "three contexts of one sign; by Student's t it would be 0.08"


def test_contexts_that_one_run_wins_as_a_whole_tell_no_more_than_as_many_questions() -> None:
    """Five contexts with four questions each: B is right in all of them, or all but one, and A in none."""
    alone = Pairs(0, 0, 5, 0)
    for lost in (0, 1):
        pairs = Pairs(0, 0, 20 - lost, lost)
        found = contexts(*((str(at % 5), int(at >= lost)) for at in range(20)))
        within = found.interval(pairs, lowest=-1.0)

        assert within is not None
        assert within.low < 0.75
        assert found.p_value(pairs) == alone.p_value() == 1 / 32, "as of twenty questions it is 1e-6"
        if not lost:
            assert within == alone.interval()


@pytest.mark.parametrize(
    ("count", "size", "mean", "alike"),
    [
        (20, 5, 0.95, 1.0),
        (50, 4, 0.97, 1.0),
        (100, 5, 0.99, 1.0),
        (20, 5, 0.5, 1.0),
        (20, 5, 0.95, 0.2),
        (20, 5, 0.5, 0.05),
        (20, 5, 0.5, 0.1),
        (20, 5, 0.5, 0.2),
        (5, 20, 0.9, 0.1),
        (200, 5, 0.9, 0.1),
    ],
)
def test_however_alike_the_answers_of_a_context_are_95_of_100_intervals_hold_the_accuracy_and_tell_something(
    count: int, size: int, mean: float, alike: float
) -> None:
    generator = np.random.default_rng(7)
    samples = generator.binomial(size, rates(generator, mean, alike, (400, count)))
    held, width = 0, 0.0
    for right in samples.tolist():
        found = Contexts(Counter((each, size) for each in right)).interval(accuracy(sum(right), count * size))
        assert found is not None
        held += found.low <= mean <= found.high
        width += (found.high - found.low) / len(samples)

    assert held > 0.92 * len(samples), "of those whose contexts are all alike it was 62 to 78 % if nearly all was right"
    independent = count * size / (1 + (size - 1) * alike)
    ideal = accuracy(round(mean * independent), round(independent))
    assert width < 1.5 * (ideal.high - ideal.low), "the t of five contexts alone is 1.42 times the z of Wilson"


@pytest.mark.parametrize(
    ("sizes", "mean", "alike"),
    [
        ([20] * 5 + [1] * 60, 0.9, 1.0),
        ([20] * 10 + [1] * 200, 0.9, 0.5),
        ([50] * 2 + [1] * 50, 0.5, 0.5),
        ([20] * 9 + [400], 0.6, 0.05),
        ([1] * 20 + [500], 0.9, 0.5),
        ([1] * 100 + [200], 0.9, 0.1),
        ([1] * 500 + [2] * 10, 0.8, 0.5),
    ],
)
def test_intervals_hold_the_accuracy_also_where_a_few_contexts_have_most_of_the_questions(
    sizes: list[int], mean: float, alike: float
) -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        right = generator.binomial(sizes, rates(generator, mean, alike, len(sizes))).tolist()
        found = Contexts(Counter(zip(right, sizes, strict=True))).interval(accuracy(sum(right), sum(sizes)))
        assert found is not None
        held += found.low <= mean <= found.high

    assert held > 0.92 * 400, "the usual robust standard error alone held it in 11 to 86 %, but for the last"


@pytest.fixture
def two_runs(ledger: MemoryLedger) -> tuple[Run, Run]:
    """Ten contexts with four questions each: the first run knows all about every other one, the second all about all
    but one."""
    questions = [make_question(at, context=f"Text {at // 4}.", answer="A", subject=None) for at in range(40)]
    first, second = (open_run(ledger, questions, name) for name in ("first", "second"))
    for at in range(40):
        for run, knows in ((first, at // 4 % 2 == 0), (second, at >= 4)):
            settle(ledger, run.run_id, f"q{at}", outcome=Outcome.CORRECT if knows else Outcome.WRONG)
    return first, second


def test_a_run_whose_questions_share_contexts_tells_the_wider_interval(
    producer: Producer, two_runs: tuple[Run, Run]
) -> None:
    done = producer("export", two_runs[0].run_id)

    assert "accuracy  0.500  95 % interval 0.352 to 0.648 (20 of 40)" in done.stdout
    # Ten contexts, half of them all right: 2.262 · √(10/9 · 10 · 2²) / 40 = 0.377 to either side.
    assert "contexts  95 % interval 0.123 to 0.877, as 40 questions share 10 contexts\n" in done.stdout
    summary = json.loads((Path("results") / two_runs[0].run_id / "summary.json").read_text())
    found = summary["accuracy_context_interval"]
    assert (round(found["low"], 3), round(found["high"], 3)) == (0.123, 0.877)
    assert (found["shared"], found["sharing"]) == (10, 40)


def test_where_all_questions_share_one_context_it_is_said_that_nothing_is_known_of_others(
    producer: Producer, ledger: MemoryLedger
) -> None:
    questions = [make_question(at, context="The only text.", answer="A") for at in range(20)]
    names = []
    for name in ("first", "second"):
        run = open_run(ledger, questions, name)
        settle(ledger, run.run_id, *(each.id for each in questions))
        names.append(run.run_id)
    said = "all 20 questions share one context: intervals and tests say nothing of others"
    assert f"contexts  {said}" in producer("export", names[0]).stdout
    assert f"contexts    {said}" in producer("compare", *names).stdout
    none = {"low": None, "high": None, "note": said, "shared": 1, "sharing": 20}
    summary = json.loads((Path("results") / names[0] / "summary.json").read_text())
    assert summary["accuracy_context_interval"] == none
    assert producer.json("compare", *names)["difference_context_interval"] == {**none, "p_value": None}
    producer("report", *names, "--out", "page")
    (page,) = Path("page").rglob("*.html")
    assert page.read_text().count(said.capitalize()) == 3, "of both accuracies, and of the difference"


def test_the_mean_over_subjects_is_no_surer_than_the_contexts_of_their_questions(ledger: MemoryLedger) -> None:
    """Two subjects of ten contexts with four questions each, of which a model knows all or none."""
    alone = [make_question(at, answer="A", subject="law" if at < 40 else "art") for at in range(80)]
    shared = [each.model_copy(update={"context": f"Text {at // 4}."}) for at, each in enumerate(alone)]
    outcomes = [Outcome.CORRECT if at // 4 % 2 else Outcome.WRONG for at in range(80)]
    found = []
    for name, questions in (("alone", alone), ("shared", shared)):
        summary = Summary(open_run(ledger, questions, name))
        verdicts = [Verdict(question_id=f"q{at}", outcome=each) for at, each in enumerate(outcomes)]
        for _ in summary.counting(zip(questions, verdicts, strict=True)):
            pass
        mean = summary.over_subjects()
        assert mean is not None
        found.append((mean.value, round(mean.interval.low, 3), round(mean.interval.high, 3)))

    # Each subject alone reaches 0.377 to either side, as above; two of them √2 times as far over two.
    assert found == [(0.5, 0.392, 0.608), (0.5, 0.233, 0.767)]


def test_the_mean_over_subjects_is_no_surer_on_either_side_because_questions_share_contexts() -> None:
    subjects = [accuracy(9, 10), *[accuracy(10, 10)] * 19]
    alone = mean_interval(subjects, [None] * 20)
    shared = mean_interval(subjects, [each.interval for each in subjects])
    assert shared.low <= alone.low
    assert shared.high >= alone.high


def test_in_a_mean_over_subjects_those_without_shared_contexts_keep_the_intervals_of_their_own() -> None:
    subjects = [accuracy(9, 20), accuracy(12, 20)]
    wide = Interval(0.1, 1.0)
    assert mean_interval(subjects, [None, wide]) == mean_interval(subjects, [subjects[0].interval, wide])


def test_compared_runs_whose_questions_share_contexts_tell_an_interval_and_a_p_that_agree(
    producer: Producer, two_runs: tuple[Run, Run]
) -> None:
    names = [run.run_id for run in two_runs]
    told = producer("compare", *names).stdout
    found = producer.json("compare", *names)

    # Twenty questions won and four lost are significant; five contexts won and one lost are not.
    assert found["mcnemar"]["p_value"] < 0.01
    assert found["difference"]["low"] > 0
    assert found["difference_context_interval"]["low"] < 0
    # One context lost, five won and four as before, each as a whole.
    by_hand = ttest_1samp([-1] + [1] * 5 + [0] * 4, 0).pvalue
    assert found["difference_context_interval"]["p_value"] == pytest.approx(by_hand)
    assert not found["undecided"]
    assert "contexts    p = 0.1  95 % interval -0.100 to +0.900, as 40 questions share 10 contexts; McNemar's" in told
    assert "McNemar's p and all other intervals assume independent questions" in told
    assert "discordant pairs; larger, as questions are not independent)" in told


def pairs_of(values: np.ndarray[Any, np.dtype[np.int64]]) -> Pairs:
    """Pairs with these differences."""
    return Pairs(0, int((values < 0).sum()), int((values > 0).sum()), int((values == 0).sum()))


def test_the_p_by_contexts_is_students_where_contexts_are_of_one_size() -> None:
    sums = np.random.default_rng(5).integers(-3, 5, size=12)
    values = np.sign(sums)[:, None] * (np.arange(4) < abs(sums)[:, None])
    found = Contexts(Counter((total, 4) for total in sums.tolist()))

    by_hand = ttest_1samp(sums / 4, 0).pvalue
    assert pairs_of(values).p_value() < by_hand
    assert found.p_value(pairs_of(values)) == pytest.approx(by_hand)


def test_questions_that_share_contexts_prove_no_more_than_others() -> None:
    values = np.array([[1, 0], [0, 1], [1, -1], [1, 0], [0, 1]])
    pairs = pairs_of(values)
    assert Contexts(Counter((int(each.sum()), 2) for each in values)).p_value(pairs) == pairs.p_value()
    assert contexts(("a", 1), ("b", 0)).p_value(Pairs(0, 0, 1, 1)) is None


@pytest.mark.parametrize("sizes", [[500] + [1] * 20, [60, 30, 2, 1, 1], [200, 1]])
@pytest.mark.parametrize("lowest", [-1, 0], ids=["differences", "accuracies"])
def test_the_error_of_contexts_of_different_sizes_is_that_of_means_without_one_of_them(
    sizes: list[int], lowest: int
) -> None:
    generator, count = np.random.default_rng(3), len(sizes)
    groups = [generator.integers(lowest, 2, size) for size in sizes]
    groups[1:] = [np.where(each < 1, lowest, each) for each in groups[1:]]
    every = np.concatenate(groups)
    found = Contexts(Counter((int(each.sum()), len(each)) for each in groups))

    without = np.array([np.concatenate(groups[:at] + groups[at + 1 :]).mean() for at in range(count)])
    by_hand = np.sqrt((count - 1) / count * ((without - every.mean()) ** 2).sum())

    assert found._jackknife == pytest.approx(by_hand)
    assert found._error(every.var()) >= found._jackknife


def test_where_few_contexts_have_most_questions_the_error_is_by_analysis_of_variance() -> None:
    """B wins seven of a context's eight questions, one of another's four, and as many of the single ones as A."""
    groups = [np.array([0] + [1] * 7), np.array([0, 0, 0, 1]), *np.array([[1], [-1]] * 12)]
    found = Contexts(Counter((int(each.sum()), len(each)) for each in groups))
    every = np.concatenate(groups)

    sizes = np.array([len(each) for each in groups])
    within = sum(((each - each.mean()) ** 2).sum() for each in groups) / (len(every) - len(groups))
    between = sum(len(each) * (each.mean() - every.mean()) ** 2 for each in groups) / (len(groups) - 1)
    typical_size = (len(every) - (sizes**2).sum() / len(every)) / (len(groups) - 1)
    error = np.sqrt(len(every) * within + (between - within) / typical_size * (sizes**2).sum()) / len(every)
    squares = sum((each.sum() - every.mean() * len(each)) ** 2 for each in groups)
    assert error > np.sqrt(len(groups) / (len(groups) - 1) * squares) / len(every)
    expected = 2 * student.sf(every.mean() / error, len(groups) - 1)
    assert found.p_value(pairs_of(every)) == pytest.approx(expected)


def test_the_report_tells_both(producer: Producer, two_runs: tuple[Run, Run]) -> None:
    first, second = (run.run_id for run in two_runs)
    producer("report", first, second)

    page = (Path("results") / first / f"report-with-{second}.html").read_text(encoding="utf-8")
    told = "so they are not independent: clustered by context, the accuracy's 95 % interval is 12.3 to 87.7 %"
    beside_all, *_ = page.partition('id="run-0"')
    assert f"{first}: 40 questions share 10 contexts, {told}" in html.unescape(beside_all), "the table has Wilson's"
    assert f"40 questions share 10 contexts, {told}" in html.unescape(page[len(beside_all) :])
    assert "right on 50.0 % of 40 questions" in re.sub(r"<[^>]+>", "", page)
    assert "(95 % interval 12.3 to 87.7 %)" in page
    assert "interval and test are clustered by context" in page
    assert "95 % interval -10.0 to +90.0);" in page
    assert "test clustered by context, two-sided: p = 0.1." in page
    assert "not distinguishable from chance" in page
