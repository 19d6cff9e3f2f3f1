"""summary.json: the figures of a run, for programs."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from contract.engine_info import EngineUsed
from contract.fleet import WorkerRecord
from producer.export.cells import iso
from producer.export.summary import Summary
from producer.result_lines import context_json
from producer.stats import Tally, cluster_interval
from producer.stats.calibration import confidence_of
from producer.stats.denominators import ALL, RESPONDED

__all__ = ["of_retrieval", "over_contexts", "over_normalizations", "summary_json", "times_json"]

PACKAGES = ("mcqueue", "celery", "redis", "pydantic")
FEW_SUBJECTS = "not available: needs at least two subjects with settled questions that have a key"
ALL_FAILED = "not available: every settled question with a key failed"


def summary_json(
    summary: Summary,
    live: Iterable[WorkerRecord] = (),
    answered_by: Iterable[EngineUsed] = (),
    weight: int = 1,
) -> dict[str, Any]:
    """Return the content of summary.json, with the engines of the `live` workers, those that answered, and the run's
    `weight`.
    """
    run, tally = summary.run, summary.tally
    return {
        "run_id": run.run_id,
        "source": run.source,
        "selection": run.taken.model_dump(mode="json") if run.taken else None,
        "created_at": iso(run.created_at),
        "priority": run.priority.name.lower(),
        "weight": weight,
        "state": summary.standing,
        "spec": run.spec.model_dump(mode="json"),
        "prompt_version": run.spec.prompt.version,
        "fingerprint": run.spec.fingerprint(),
        **tally.to_json(),
        "chance": tally.chance(run),
        **({"chance_without_failed": tally.chance(run, RESPONDED)} if tally.without_failed() else {}),
        **_constant(summary),
        **_over_subjects(summary),
        **over_contexts(summary),
        "rates": tally.rates(),
        **over_normalizations(summary),
        **_label_mass(tally),
        **_positions(summary),
        "calibration": {"confidence": confidence_of(run.spec), **tally.calibration.to_json()},
        "by_subject": _by_subject(summary),
        **_rotations(summary),
        **_judge_agreement(summary),
        **of_retrieval(summary),
        **_reused(summary),
        "tokens": summary.tokens.to_json(),
        **times_json(summary),
        "workers": sorted(summary.workers),
        "environment": _environment(live, answered_by),
        "exported_at": iso(time.time()),
    }


def over_normalizations(summary: Summary) -> dict[str, Any]:
    """Return the accuracy by normalization (`likelihood`)."""
    found = {each.value: accuracy.to_json() for each, accuracy in summary.by_normalization().items()}
    return {"accuracy_by_normalization": found} if found else {}


def _rotations(summary: Summary) -> dict[str, Any]:
    """Return the accuracy over single rotations (`circular` only), unlike the one that requires all to be correct.

    It is the mean over the questions with a key that did not fail. Rotations of one question are correlated, so the
    unit of the mean and its interval is the question.
    """
    found = summary.rotations.mean()
    return {"rotation_accuracy": {**found.to_json(), "chance": summary.rotation_chance}} if found else {}


def of_retrieval(summary: Summary) -> dict[str, Any]:
    """Return the retrieval metrics; empty for a run without retrieval."""
    return {"retrieval": summary.retrieval.to_json()} if summary.retrieval else {}


def _constant(summary: Summary) -> dict[str, Any]:
    """Return the constant-answer baseline, if there is one."""
    found = summary.tally.guessing().constant(summary.run.spec)
    return {"constant": found.to_json()} if found else {}


def _over_subjects(summary: Summary) -> dict[str, Any]:
    """Return the figures whose unit is the subject.

    The interval of the mean treats the subjects as fixed. The cluster interval is that of the accuracy over all
    questions with the subjects as a sample; like that accuracy, it counts failed questions as incorrect.
    """
    shares = [] if summary.tally.all_failed else list(summary.accuracies_over(ALL).values())
    interval = cluster_interval(shares)
    note = ALL_FAILED if summary.tally.all_failed else FEW_SUBJECTS
    between = interval.to_json() if interval else {"low": None, "high": None, "note": note}
    found, responded = summary.over_subjects(), summary.over_subjects_without_failed()
    return {
        "macro_accuracy": found.to_json() if found else None,
        **({"macro_accuracy_without_failed": responded.to_json()} if responded else {}),
        "accuracy_cluster_interval": {"clusters": len(shares), **between},
    }


def over_contexts(summary: Summary) -> dict[str, Any]:
    """Return the accuracies' intervals clustered by context, if questions share contexts; or why there are none."""
    if summary.tally.over_all() is None:
        return {}
    wanted = {"accuracy_context_interval": ALL}
    if summary.tally.without_failed():
        wanted["accuracy_without_failed_context_interval"] = RESPONDED
    found = {
        name: context_json(summary.contexts(outcomes), summary.context_interval(outcomes))
        for name, outcomes in wanted.items()
    }
    return {name: each for name, each in found.items() if each}


def _label_mass(tally: Tally) -> dict[str, Any]:
    """Return the mean probability of all labels together (`letter` only). Near zero, the choices are noise."""
    mean = tally.mean_label_mass()
    return {} if mean is None else {"label_mass": {"mean": round(mean, 6), "of": tally.label_mass.of}}


def _positions(summary: Summary) -> dict[str, Any]:
    """Return where right and chosen answers were, and which position the model prefers; empty without such answers."""
    if not summary.positions.of:
        return {}
    preferred = summary.preferred_position
    return {"positions": {**summary.positions.to_json(), "preferred": preferred.label if preferred else None}}


def _by_subject(summary: Summary) -> dict[str, Any]:
    if set(summary.subjects) <= {""}:
        return {}
    spec = summary.run.spec
    return {
        name: {**tally.to_json(), "chance": tally.guessing().chance(spec)}
        for name, tally in sorted(summary.subjects.items())
    }


def _judge_agreement(summary: Summary) -> dict[str, Any]:
    """Return how often the judge agrees with the key (`judge` only)."""
    return {"judge_agreement": summary.agreement.to_json()} if summary.run.spec.mode.judged else {}


def _reused(summary: Summary) -> dict[str, Any]:
    """Return the number of answers taken over from each earlier run, if any; tokens and times are without them."""
    return {"reused": dict(sorted(summary.reused.items()))} if summary.reused else {}


def times_json(summary: Summary) -> dict[str, Any]:
    """Return when the first and the last question were settled, and the speed; null if the run asked none itself."""
    times, speed = summary.times, summary.questions_per_s
    if times.wall_s is None:
        return dict.fromkeys(("first_settled_at", "last_settled_at", "wall_s", "questions_per_s"))
    return {
        "first_settled_at": iso(times.first_settled_at),
        "last_settled_at": iso(times.last_settled_at),
        "wall_s": round(times.wall_s, 3),
        "questions_per_s": None if speed is None else round(speed, 3),
    }


def _environment(live: Iterable[WorkerRecord], answered_by: Iterable[EngineUsed]) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "engines": [
            {"worker": each.name, "host": each.host, "gpus": each.gpus, "engine": each.engine} for each in live
        ],
        "answered_by": [
            {"worker": each.worker, "since": iso(each.since), "engine": each.engine} for each in answered_by
        ],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
