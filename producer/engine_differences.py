"""How the engines that answered a run differ: from what it asked for, each other, those of another run, or of today."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contract import keys
from contract.engine_info import EngineUsed, describe_differences, differing, is_simulated, left_to_model
from contract.fleet import WorkerRecord
from contract.ledger import Ledger, Run
from contract.mode import Normalization
from producer.output import Lines, optional_line

__all__ = [
    "Engines",
    "any_simulated",
    "differs_json",
    "engine_lines",
    "in_words",
    "not_those_running",
    "sampling_lines",
    "untaken",
]

#: Engine properties that differ simply because the models differ.
OF_MODEL = frozenset({"model", "weights", "tokenizer", "adapters"})
#: What an engine may have left to the model (`contract.engine_info`), in words; of `top_p`, only the default.
NOT_TAKEN = {"seed": "a seed", "temperature": "temperature 0"}
IN_16_BITS = frozenset({"bfloat16", "float16"})
Differs = dict[str, list[str]]


def any_simulated(engines: Iterable[EngineUsed | WorkerRecord]) -> bool:
    """Whether one of them is the simulated engine, whose answers are meaningless."""
    return any(is_simulated(each.engine) for each in engines)


def engine_lines(run: Run, used: Sequence[EngineUsed]) -> Lines:
    """Return warnings about the engines `used` by the run; nothing if all were alike and did as it says."""
    lines = [*sampling_lines(run, used), *_precision_lines(run, used)]
    if not (differs := differing(each.engine for each in used)):
        return lines
    workers = ", ".join(dict.fromkeys(each.worker for each in used))
    again = f"python -m workers rescore {run.run_id}     reads all its texts by the current rules"
    can_rescore = not run.spec.rescored_from and not run.spec.circular
    return [
        *lines,
        ("engines", f"not identical: they differ in {describe_differences(differs)}"),
        ("", f"environment.answered_by in summary.json lists the engine of each of {workers} over time"),
        *([("", again)] if "rules" in differs and can_rescore else []),
    ]


def sampling_lines(run: Run, used: Iterable[EngineUsed]) -> Lines:
    """Return which of the run's values the model did not sample with; nothing if it took them all."""
    return optional_line("sampling", in_words(untaken(run, used)))


def _precision_lines(run: Run, used: Iterable[EngineUsed]) -> Lines:
    """Return that the run's mutual information was computed in 16 bits, if so.

    Behind an empty prompt these can be off by nats, and the difference of two log-likelihoods no longer ranks choices.
    """
    types = sorted(IN_16_BITS & {each.engine.get("dtype") for each in used})
    if run.spec.normalization is not Normalization.MUTUAL_INFO or not types:
        return []
    told = f"computed in {' and '.join(types)}, in which mutual information can misjudge a choice by some nats"
    return [("precision", f"{told}; set vllm_args.dtype: float32 in the deploy file, and ask again")]


def not_those_running(run: Run, used: Sequence[EngineUsed], live: Iterable[WorkerRecord]) -> Differs:
    """Return in what the engines of the `live` workers that serve the run differ from those `used` by it.

    Empty if any is like one of those, or none is known. What a worker does not say of its engine, as the rules that
    read its texts, counts as the same.
    """
    running = [each.engine for each in live if each.queue == keys.route(run.spec)[-1] and each.engine]
    if not used or not running or run.spec.rescored_from:
        return {}
    pairs = ((before.engine, before.engine | now) for before in used for now in running)
    found = [differing(_with_own_adapter(each, run) for each in pair) for pair in pairs]
    return found[-1] if all(found) else {}


def _with_own_adapter(engine: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return the engine with the weights of no other adapter than the run's: more may be loaded meanwhile."""
    return {**engine, "adapters": engine.get("adapters", {}).get(run.spec.adapter)}


def untaken(run: Run, used: Iterable[EngineUsed]) -> list[str]:
    """Return the sampling parameters of which a model did not take the run's value.

    Of temperatures, only 0 is ever left out, or 1, which is what a model without a temperature of its run uses.
    """
    if run.spec.sampling is None:
        return []
    left = left_to_model(each.engine for each in used)
    return [name for name in left if name != "temperature" or run.spec.sampling.temperature == 0]


def in_words(names: Iterable[str]) -> str:
    """Return in words what it means that a model did not take these parameters; empty if it means nothing."""
    values = " or ".join(NOT_TAKEN[name] for name in names if name in NOT_TAKEN)
    effect = "it used its own, and may answer differently if asked again"
    return f"the model does not take {values}: {effect}" if values else ""


def differs_json(differs: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
    """Return the differences for `--json`: their values, which are texts of JSON, as what these say."""
    return {name: [json.loads(each) for each in values] for name, values in differs.items()}


@dataclass(frozen=True, slots=True)
class Engines:
    """Engine properties that can change an answer and differ between the engines of two runs.

    Each maps a property name to its values as JSON.
    """

    within_a: Differs = field(default_factory=dict)
    within_b: Differs = field(default_factory=dict)
    #: Further differences between the two runs, without those that follow from asking different models.
    across: Differs = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, a: Run, b: Run) -> Engines:
        """Return what differs in the engines of A and B."""
        of_a, of_b = ([each.engine for each in ledger.engines(run.run_id)] for run in (a, b))
        within_a, within_b = differing(of_a), differing(of_b)
        explained = OF_MODEL if a.spec.model != b.spec.model else frozenset()
        across = {
            name: values
            for name, values in differing([*of_a, *of_b]).items()
            if name not in explained and set(values) not in (set(within_a.get(name, ())), set(within_b.get(name, ())))
        }
        return cls(within_a, within_b, across)

    def __bool__(self) -> bool:
        return bool(self.within_a or self.within_b or self.across)

    @property
    def properties(self) -> list[str]:
        """The names of all properties that differ."""
        return sorted({*self.within_a, *self.within_b, *self.across})

    def lines(self) -> Lines:
        """Return the differences as output lines; nothing if all engines were alike."""
        places = {"of A": self.within_a, "of B": self.within_b, "of A and B": self.across}
        found = [
            f"{where} not identical: they differ in {describe_differences(values)}"
            for where, values in places.items()
            if values
        ]
        return optional_line("engines", "\n".join(found))

    def to_json(self) -> dict[str, Any]:
        """Return the content for `--json`."""
        return {where: differs_json(differs) for where, differs in asdict(self).items()}
