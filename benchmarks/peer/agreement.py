"""Whether lm-evaluation-harness and mcqueue, asked the same, score and choose the same: what `peers` compares."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peer.lm_eval import TASKS, Case, Side
from benchmarks.peer.mc2 import compare_mc2
from contract.errors import McqueueError

__all__ = ["Answers", "Compared", "apart", "compare", "control_of", "logged"]

SIDES = ("lm_eval", "mcqueue")
#: A row for the table, and the disagreements.
Compared = tuple[dict[str, Any], list[dict[str, Any]]]


class Answers(NamedTuple):
    """The answers of both sides to a case."""

    case: Case
    #: The data type of the model, or what else a row is called after.
    dtype: str
    theirs: Side
    ours: Side


def apart(answers: Sequence[Answers], spaces: Mapping[str, Mapping[str, float]]) -> Iterator[Answers]:
    """Yield `answers` without the white space that lm_eval counts towards its choices."""
    for each in answers:
        theirs = each.theirs
        space = spaces.get(each.case.task, dict.fromkeys(theirs.scores, 0.0))
        scores = {name: [score - space[name] for score in of_one] for name, of_one in theirs.scores.items()}
        yield each._replace(theirs=replace(theirs, scores=scores))


def logged(answers: Sequence[Answers], spaces: Mapping[str, Any]) -> list[Answers]:
    """Return the original `answers` of those cases in which `apart` changes them."""
    return [each._replace(dtype="as logged") for each in answers if each.case.task in spaces]


def compare(answers: Answers, questions: Sequence[Mapping[str, Any]]) -> Compared:
    """Return a row for the table, and the disagreements; `questions` are those of the set, or more."""
    case, dtype, theirs, ours = answers
    asked = [each for each in questions if each["id"] in theirs.scores]
    if not theirs.scores.keys() == ours.scores.keys() == {each["id"] for each in asked}:
        raise McqueueError(f"{case.task}: the two sides were not asked the same questions.")
    same_prompt = sum(theirs.prompts[name] == ours.prompts[name] for name in theirs.prompts)
    differences = np.concatenate([difference(theirs, ours, each["id"]) for each in asked])
    row = {
        "set": case.set,
        "mode": case.mode,
        "dtype": dtype,
        "questions": len(asked),
        "same prompt": same_prompt,
        "choices": len(differences),
        "mean difference": float(differences.mean()),
        "99 % below": float(np.quantile(differences, 0.99)),
        "max difference": float(differences.max()),
    }
    if ours.mc2:
        return row | compare_mc2(theirs.mc2, ours.mc2), []
    disagreements: list[dict[str, Any]] = []
    for metric in TASKS[case.mode].metrics:
        marked = [mark(metric, each, theirs, ours) for each in asked]
        disagreed = [each for each in marked if each["lm_eval"] != each["mcqueue"]]
        row |= {
            f"{metric} agree": 1 - len(disagreed) / len(asked),
            f"{metric} lm_eval": statistics.mean(each["lm_eval"] == each["key"] for each in marked),
            f"{metric} mcqueue": statistics.mean(each["mcqueue"] == each["key"] for each in marked),
        }
        noise = float(np.quantile([gap for each in marked for gap in each["differences"]], 0.99))
        head = {"set": case.set, "mode": case.mode, "dtype": dtype, "metric": metric}
        disagreements += [head | explained(each, noise) for each in disagreed]
    return row, disagreements


def control_of(exact: Answers, ours: Side) -> Answers:
    """Return lm_eval's float32 answers with mcqueue's bfloat16 ones, for the questions that both have."""
    scores = {name: exact.theirs.scores[name] for name in ours.scores}
    prompts = {name: exact.theirs.prompts[name] for name in ours.scores}
    return Answers(exact.case, "control", replace(exact.theirs, scores=scores, prompts=prompts), ours)


def difference(theirs: Side, ours: Side, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the difference of each choice of question `name`."""
    return np.array([abs(a - b) for a, b in zip(theirs.scores[name], ours.scores[name], strict=True)])


def mark(metric: str, question: Mapping[str, Any], theirs: Side, ours: Side) -> dict[str, Any]:
    """Return the choice of each side by `metric`, and the scores behind it."""
    lengths = [len(choice) for choice in question["choices"]] if metric == "acc_norm" else 1
    scores = [np.divide(side.scores[question["id"]], lengths) for side in (theirs, ours)]
    return {
        "question": question["id"],
        "key": question["answer"],
        "lm_eval": int(np.argmax(scores[0])),
        "mcqueue": int(np.argmax(scores[1])),
        "scores": scores,
        "differences": np.abs(scores[0] - scores[1]).tolist(),
    }


def explained(marked: Mapping[str, Any], noise: float) -> dict[str, Any]:
    """Return a disagreement with both sides' scores of the two choices in question."""
    chosen = [marked["lm_eval"], marked["mcqueue"]]
    scores = {name: [float(side[i]) for i in chosen] for name, side in zip(SIDES, marked["scores"], strict=True)}
    gaps = [abs(first - second) for first, second in scores.values()]
    return {
        "question": marked["question"],
        "choices": chosen,
        "key": marked["key"],
        "lm_eval scores": scores["lm_eval"],
        "mcqueue scores": scores["mcqueue"],
        "gap": max(gaps),
        "noise": noise,
        "near-tie": max(gaps) < 2 * noise,
    }
