"""View of one run for the template: figures from its summary, its counters and its spec."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from contract.ledger import Run
from contract.mode import Normalization
from contract.wording import number, percent
from producer.export.summary import Summary
from producer.output import Lines
from producer.report import figures
from producer.report.figures import Figure
from producer.report.measures import NO_CHOICE, Measures
from producer.result_lines import COMPARED, doubt_lines, judge_lines, position_lines
from producer.retrieval_summary import retrieval_figures
from producer.runs.source_coverage import part_asked
from producer.stats import Contexts, Mean, Share, Tally
from producer.stats.denominators import ANSWERED, RESPONDED
from producer.stats.normalized import HOW

__all__ = ["MOST_SUBJECTS", "RunView"]

#: Number of subjects that the page lists: a table of many thousand, as where each question names its own, is read by
#: nobody, and takes 700 bytes for each.
MOST_SUBJECTS = 1000

#: Row of a table of figures: a name, its figure, and its chance level, if there is one.
Row = tuple[str, Share | Mean, float | None]


@dataclass(frozen=True)
class RunView:
    """One run with its figures."""

    run: Run
    summary: Summary
    measures: Measures
    #: summary.json's content.
    content: dict[str, Any]
    #: Warning that the engines that answered were not identical, if so.
    engines: Lines

    @property
    def tally(self) -> Tally:
        return self.summary.tally

    @cached_property
    def accuracy(self) -> Share | None:
        return self.tally.over_all()

    @property
    def against_chance(self) -> str:
        """Comparison of the accuracy over answered questions with their chance level, as text.

        Other questions lower the accuracy, but say nothing about whether the model knows the answers it gives.
        """
        chance = self.answered_chance
        answered = self.tally.over_answered()
        found = self.summary.answered_interval
        if answered is None or found is None or chance is None or self.chance is None:
            return ""
        how = found.against(chance)
        if answered.of == self.tally.keyed.total():
            return f", {how} chance"
        return f". On the {number(answered.of, 'question')} it answered, it is {how} chance"

    @property
    def against_constant(self) -> str:
        """Remark that an accuracy above chance is not above that of a constant answer, if so."""
        found = self.summary.unbeaten
        if found is None:
            return ""
        answer, value = found.constant
        return f", but it is {found.how} always answering {answer!r}, which scores {percent(value)} %"

    @property
    def chance(self) -> float | None:
        return self.tally.chance(self.run)

    @property
    def answered_chance(self) -> float | None:
        return self.summary.answered_chance

    @property
    def responded_chance(self) -> float | None:
        return self.tally.guessing(RESPONDED).chance(self.run.spec)

    @property
    def macro_chance(self) -> float | None:
        """Chance level of the mean over subjects, if it differs from the one over all questions."""
        found, chance = self.summary.over_subjects(), self.chance
        if found is None or found.chance is None or chance is None or round(found.chance, 3) == round(chance, 3):
            return None
        return found.chance

    @cached_property
    def accuracies(self) -> list[Row]:
        """Accuracies over all questions, without failed ones, over answered ones, under other normalizations, by the
        probability of the key, and over single rotations."""
        otherwise = self.summary.otherwise_normalized()
        on_key = self.tally.calibration.key_probability()
        found: list[tuple[str, Share | Mean | None, float | None]] = [
            ("all questions with a key", self.accuracy, self.chance),
            ("excluding failed questions", self.tally.without_failed(), self.responded_chance),
            ("answered questions", self.tally.over_answered(), self.answered_chance),
            *((f"all, compared {COMPARED[how]}", share, self.chance) for how, share in otherwise.items()),
            (f"mean probability of the key{self.confidence_suffix}", on_key, self.summary.one_order_chance(ANSWERED)),
            ("single rotations", self.summary.rotations.mean(), self.summary.rotation_chance),
        ]
        return [(name, figure, chance) for name, figure, chance in found if figure is not None]

    @cached_property
    def subjects(self) -> list[Row]:
        """Subjects with keys, best first; empty if the questions name none."""
        spec, subjects = self.run.spec, self.summary.subjects
        found: list[Row] = [
            (name, share, subjects[name].guessing().chance(spec)) for name, share in self.summary.accuracies().items()
        ]
        return sorted(found, key=lambda each: (-each[1].value, each[0]))

    @property
    def listed_subjects(self) -> list[Row]:
        """`subjects`, or of very many the best and the worst."""
        found, half = self.subjects, MOST_SUBJECTS // 2
        return found if len(found) <= MOST_SUBJECTS else [*found[:half], *found[-half:]]

    @cached_property
    def retrieval(self) -> list[Row]:
        """Retrieval metrics; figures over zero questions are omitted."""
        found = self.summary.retrieval
        if found is None:
            return []
        any_within, share_within = found.recall_any().items(), found.recall_share().items()
        return [
            *((f"recall@{k}: a relevant passage in the first {k}", each, None) for k, each in any_within),
            *((f"recall@{k}: share of the relevant ones there", each, None) for k, each in share_within),
            *((f"{label}: {what}" if label else what, each, None) for label, each, what in retrieval_figures(found)),
        ]

    @cached_property
    def contexts(self) -> Contexts:
        """The contexts of the questions with a key, which many of them may share."""
        return self.summary.contexts()

    @property
    def taken(self) -> str:
        """Which part of the source was asked, as text."""
        return part_asked(self.run)

    @property
    def doubts(self) -> Lines:
        """Warnings about the quality of the answers."""
        judge = judge_lines(self.run.spec.judge, self.summary.agreement)
        position = position_lines(self.summary.preferred_position, self.run.spec)
        return [*doubt_lines(self.run.spec, self.tally), *position, *judge, *self.engines]

    @cached_property
    def answers(self) -> list[Figure]:
        """Charts about the model's answers."""
        calibration, spec = self.tally.calibration, self.run.spec
        drawn = (
            figures.calibration_curve(calibration, spec),
            figures.confidence_histogram(calibration, spec),
            figures.position_bias(self.summary.positions, spec),
        )
        return list(filter(None, drawn))

    @property
    def confidence_suffix(self) -> str:
        """Suffix of the calibration figures' names: what confidence is, unless it is simply a model probability."""
        spec, suffix = self.run.spec, ""
        if spec.mode.votes:
            suffix = " of votes"
        elif spec.normalization is not Normalization.NONE:
            suffix = f" {HOW[spec.normalization]}"
        return f"{suffix} in one rotation" if spec.circular else suffix

    @cached_property
    def speed(self) -> list[Figure]:
        """Charts about the run's speed; none for a rescored run."""
        if self.run.spec.rescored_from:
            return []
        started_at = self.summary.times.started_at
        drawn = (
            None if self.summary.all_asked_failed else figures.rate_over_time(self.measures, started_at),
            figures.latency(self.measures),
            figures.batch_sizes(self.measures),
        )
        return list(filter(None, drawn))

    @cached_property
    def confusion_labels(self) -> tuple[list[str], list[str]]:
        """Labels of the confusion matrix's rows and columns."""
        keys, chosen = ({pair[side] for pair in self.measures.confusion} for side in (0, 1))
        labels = sorted((keys | chosen) - {NO_CHOICE})
        return labels, labels + ([NO_CHOICE] if NO_CHOICE in chosen else [])

    def keys_of(self, label: str) -> int:
        """Return the number of questions in the confusion matrix whose key is `label`."""
        return sum(count for (key, _), count in self.measures.confusion.items() if key == label)

    @property
    def spec(self) -> str:
        return json.dumps(self.content["spec"], ensure_ascii=False, indent=2)
