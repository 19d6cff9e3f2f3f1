"""From runs to the page: gathers each run in one pass, then fills the template."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from contract.errors import InputError
from contract.fleet import WorkerRecord
from contract.ledger import Ledger, Run
from contract.question import Question
from contract.spec import Mode
from contract.verdict import Outcome, Verdict
from producer.answered import engine_lines
from producer.compare import MANY, UNDECIDED
from producer.export.columns import iso
from producer.export.summary import Summary
from producer.pairing import Comparison, Pairing, differences, refuse_incomparable, side
from producer.present import COMPARED, Lines, difference, doubt_lines, judge_lines, p_value, sharing
from producer.report import figures
from producer.report.figures import Figure
from producer.report.measures import NO_CHOICE, Measures
from producer.report.table import PER_PARCEL, Table
from producer.retrieved import effect_lines, recall_lines, retrieval_lines
from producer.runs.taken import taken_lines
from producer.stats import Mean, Pairs, Share, Tally
from producer.stats.calibration import PROBABILITIES, confidence_of
from producer.stats.counted import ANSWERED, HEARD
from producer.stats.paired import ALPHA, POWER, holm
from producer.stats.side import Side

__all__ = ["Against", "Part", "build"]

#: Flipped questions that a comparison lists; all are found by the table's filter.
MOST_FLIPS = 20

#: What streams by of a run.
Results = Iterator[tuple[Question, Verdict | None]]
#: Of a table of figures: a name, its figure, and what guessing scores there, where one can guess.
Row = tuple[str, Share | Mean, float | None]


@dataclass(frozen=True)
class Part:
    """One run, counted."""

    run: Run
    summary: Summary
    measures: Measures
    #: summary.json's content.
    content: dict[str, Any]
    #: That the engines which answered were not all alike, if so.
    engines: Lines

    @property
    def tally(self) -> Tally:
        return self.summary.tally

    @cached_property
    def accuracy(self) -> Share | None:
        return self.tally.over_all()

    @property
    def against_chance(self) -> str:
        """What the interval of the answered questions says about guessing at these.

        The others lower the accuracy, and say nothing of whether the model knows what it answers.
        """
        chance = self.answered_chance
        answered = self.tally.over_answered()
        found = self.summary.context_interval(ANSWERED) or answered
        if answered is None or found is None or chance is None or self.run.chance is None:
            return ""
        how = "above" if found.low > chance else "below" if found.high < chance else "not distinguishable from"
        if answered.of == self.tally.keyed.total():
            return f", {how} guessing"
        return f". At the {answered.of:,} that it answered, it is {how} guessing"

    @property
    def answered_chance(self) -> float | None:
        """What guessing scores at the questions that were answered."""
        return self.tally.guessing(ANSWERED).chance(self.run.spec)

    @property
    def macro_chance(self) -> float | None:
        """What guessing scores in the mean over subjects, where that is not what it scores over all questions."""
        found, chance = self.summary.over_subjects(), self.run.chance
        if found is None or found.chance is None or chance is None or round(found.chance, 3) == round(chance, 3):
            return None
        return found.chance

    @cached_property
    def accuracies(self) -> list[Row]:
        """Over all and over the answered questions; over all, had choices been compared otherwise; and over single
        rotations, which one guess may get right."""
        otherwise = self.summary.otherwise_normalized()
        found: list[tuple[str, Share | Mean | None, float | None]] = [
            ("all questions with a key", self.accuracy, self.run.chance),
            ("those that did not fail", self.tally.without_failed(), self.run.chance),
            ("those answered", self.tally.over_answered(), self.answered_chance),
            *((f"all, compared {COMPARED[how]}", found, self.run.chance) for how, found in otherwise.items()),
            ("single rotations", self.summary.rotations.mean(), self.summary.rotation_chance),
        ]
        return [(name, figure, chance) for name, figure, chance in found if figure is not None]

    @cached_property
    def subjects(self) -> list[Row]:
        """Subjects with keys, the best first; empty where the questions name none."""
        if set(self.summary.subjects) <= {""}:
            return []
        spec = self.run.spec
        found: list[Row] = [
            (name, share, tally.guessing().chance(spec))
            for name, tally in self.summary.subjects.items()
            if (share := tally.over_all()) is not None
        ]
        return sorted(found, key=lambda each: (-each[1].value, each[0]))

    @cached_property
    def retrieval(self) -> list[Row]:
        """What retrieval found and what it was worth; figures of no question at all are left out."""
        found = self.summary.retrieval
        if found is None:
            return []
        figures_of: list[tuple[str, Share | Mean | None]] = [
            *((f"recall@{k}: a right passage in the first {k}", each) for k, each in found.recall_any().items()),
            *((f"recall@{k}: share of the right ones there", each) for k, each in found.recall_share().items()),
            (f"MRR@{found.depths[-1]} of the first right passage", found.mrr()),
            ("context precision", found.context_precision()),
            ("accuracy where a right passage was shown", found.accuracy(hit=True)),
            ("accuracy where none was", found.accuracy(hit=False)),
            ("right choice's text in a passage shown", found.answer_in_context()),
            ("wrong choice's text in one", found.wrong_choice_in_context()),
        ]
        return [(name, each, None) for name, each in figures_of if each is not None]

    @property
    def retrieval_extent(self) -> Lines:
        """How much was retrieved, in words."""
        return retrieval_lines(self.summary.retrieval)[:1]

    @property
    def sharing(self) -> str:
        """How many questions go together, and why."""
        return sharing(self.summary.contexts(), self.run)

    @property
    def taken(self) -> str:
        """What of its source was asked, in words."""
        return " ".join(told for _, told in taken_lines(self.run))

    @property
    def doubts(self) -> Lines:
        """What makes its answers worth less than they look."""
        judge = judge_lines(self.run.spec.judge, self.summary.judge_agrees, self.summary.judged_and_read)
        return [*doubt_lines(self.tally), *judge, *self.engines]

    @cached_property
    def answers(self) -> list[Figure]:
        """What the model's answers are like."""
        calibration, spec = self.tally.calibration, self.run.spec
        drawn = (
            figures.calibration_curve(calibration, spec),
            figures.confidence_histogram(calibration, spec),
            figures.places(self.measures),
        )
        return list(filter(None, drawn))

    @property
    def calibrated(self) -> str:
        """What stands behind the names of its calibration figures where confidence is no probability."""
        spec = self.run.spec
        if confidence_of(spec) == PROBABILITIES:
            return ""
        return " of votes" if spec.mode is Mode.VOTE else f" per {spec.normalization}"

    @cached_property
    def speed(self) -> list[Figure]:
        """How the run went; of one that was only read again, nothing."""
        if self.run.spec.rescored_from:
            return []
        started_at = self.summary.started_at
        drawn = (
            figures.rate_over_time(self.measures, started_at),
            figures.latency(self.measures),
            figures.batch_sizes(self.measures),
        )
        return list(filter(None, drawn))

    @cached_property
    def confusion_labels(self) -> tuple[list[str], list[str]]:
        """Labels of the confusion's rows and of its columns."""
        keys, chosen = ({pair[side] for pair in self.measures.confusion} for side in (0, 1))
        labels = sorted((keys | chosen) - {NO_CHOICE})
        return labels, labels + ([NO_CHOICE] if NO_CHOICE in chosen else [])

    def keys_of(self, label: str) -> int:
        """Questions in the confusion whose key is `label`."""
        return sum(count for (key, _), count in self.measures.confusion.items() if key == label)

    @property
    def spec(self) -> str:
        return json.dumps(self.content["spec"], ensure_ascii=False, indent=2)


@dataclass(frozen=True)
class Against:
    """The first run beside another one: the pairs, or why there are none."""

    a: Run
    b: Run
    found: Comparison | None
    refusal: str = ""
    #: The p where all comparisons of the report are looked at together; None of a single one.
    together: float | None = None

    @property
    def effect(self) -> Lines:
        """What passages repaired and broke, where exactly one of the runs had them; where both had, who found more."""
        found = self.found
        if found and found.recall:
            return recall_lines(found.recall)
        if found and found.retrieval:
            return effect_lines(found.retrieval, *found.names, found.besides_retrieval)
        return []

    @property
    def p_value(self) -> str:
        """Of no difference, in words."""
        alone = p_value(self.found.p_value) if self.found else ""
        return (
            alone if self.together is None else f"{alone}; {p_value(self.together)} among all comparisons here (Holm)"
        )

    @property
    def sharing(self) -> str:
        """How many questions go together, and why."""
        return sharing(self.found.contexts, self.a) if self.found else ""

    @property
    def alone(self) -> str:
        """McNemar's p, which takes each question for its own, in words."""
        return p_value(self.found.pairs.p_value()) if self.found else ""

    @property
    def subjects(self) -> list[tuple[str, Pairs, str]]:
        """The same pairs by subject, with their difference in words."""
        by_subject = self.found.by_subject if self.found else {}
        return [(name or "none named", pairs, difference(pairs)) for name, pairs in by_subject.items()]

    @property
    def changes(self) -> list[tuple[str, Any, Any]]:
        return [(name, *both) for name, both in differences(self.a.spec, self.b.spec).items()]


def build(
    ledger: Ledger, runs: Sequence[Run], live: Sequence[WorkerRecord] = (), *, questions: bool = True
) -> Iterator[str]:
    """The whole page, piece by piece; with its table of all questions, or without.

    Each run is read once, and all of them before the first piece. Of the workers `live`, those that serve a run's model
    have their engines described in it.
    """
    table = Table() if questions else None
    beside = _Beside(ledger, runs)
    parts = [_part(ledger, run, table, beside, live) for run in runs]
    if table:
        table.close()
    script = _asset("table.js")
    environment = Environment(
        loader=PackageLoader("producer.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.lstrip_blocks = True
    return environment.get_template("report.html.j2").generate(
        parts=parts,
        comparisons=beside.comparisons(),
        table=table,
        per_parcel=PER_PARCEL,
        run_ids=[run.run_id for run in runs],
        style=_asset("style.css"),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        outcomes=list(Outcome),
        alpha=ALPHA,
        power=POWER,
        most_flips=MOST_FLIPS,
        many=MANY,
        undecided=UNDECIDED,
        heard_outcomes=HEARD,
        iso=iso,
        now=time.time(),
    )


class _Beside:
    """The first run paired with each other one, while each run passes by once."""

    def __init__(self, ledger: Ledger, runs: Sequence[Run]) -> None:
        self._runs = runs
        #: By the other run's id: the pairs so far, or why there can be none.
        self._pairings: dict[str, Pairing | InputError] = {}
        for other in runs[1:]:
            try:
                refuse_incomparable(ledger, runs[0], other)
                self._pairings[other.run_id] = Pairing(runs[0], other)
            except InputError as trouble:
                self._pairings[other.run_id] = trouble
        self._wanted = any(isinstance(each, Pairing) for each in self._pairings.values())
        #: The first run's side of each question, and each kind of side once: there are few.
        self._sides: list[Side] = []
        self._kinds: dict[Side, Side] = {}

    def watching(self, run: Run, results: Results) -> Results:
        """`results` of `run`, each paired as it passes. The first run comes first."""
        if run is self._runs[0]:
            return self._noting(run, results) if self._wanted else results
        pairing = self._pairings[run.run_id]
        return self._pairing(pairing, results) if isinstance(pairing, Pairing) else results

    def _noting(self, run: Run, results: Results) -> Results:
        for question, verdict in results:
            mine = side(run, question, verdict)
            self._sides.append(self._kinds.setdefault(mine, mine))
            yield question, verdict

    def _pairing(self, pairing: Pairing, results: Results) -> Results:
        for of_a, (question, verdict) in zip(self._sides, results, strict=True):
            pairing.add(question, of_a, side(pairing.b, question, verdict))
            yield question, verdict

    def comparisons(self) -> list[Against]:
        """The first run beside each other one, in their order."""
        found = [_against(self._runs[0], other, self._pairings[other.run_id]) for other in self._runs[1:]]
        made = {at: each.found.p_value for at, each in enumerate(found) if each.found}
        if len(made) > 1:
            for at, together in zip(made, holm(list(made.values())), strict=True):
                found[at] = replace(found[at], together=together)
        return found


def _against(a: Run, b: Run, pairing: Pairing | InputError) -> Against:
    try:
        if isinstance(pairing, InputError):
            raise pairing
        return Against(a, b, pairing.comparison())
    except InputError as trouble:
        return Against(a, b, None, str(trouble))


def _part(ledger: Ledger, run: Run, table: Table | None, beside: _Beside, live: Sequence[WorkerRecord]) -> Part:
    if table:
        table.begin(run)
    summary, measures = Summary(run, ledger.counts(run.run_id).state), Measures(run)
    for question, verdict in beside.watching(run, summary.watching(ledger.results(run.run_id))):
        measures.add(question, verdict)
        if table:
            table.add(question, verdict)
    here = [each for each in live if each.model == run.spec.model]
    content = summary.to_json(here, ledger.engines(run.run_id))
    return Part(run, summary, measures, content, engine_lines(ledger, run))


def _asset(name: str) -> str:
    return resources.files("producer.report").joinpath("templates", name).read_text(encoding="utf-8")
