"""The files that lm-evaluation-harness writes with --log_samples, for tools that read those.

`lm-eval/` corresponds to its `--output_path`: it has a folder named after the model, with
`samples_<task>_<date>.jsonl`, a line per question that did not fail, and `results_<date>.json`. The task is the
question file (with its subset and split), the date that of the run's creation: exporting again replaces the files, and
runs of the same file count as one task for comparisons. Layout: lm-evaluation-harness of 2026-08,
`lm_eval/evaluator.py`, `lm_eval/result_schema.py` and `lm_eval/loggers/evaluation_tracker.py`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from contract.choice_order import arrangements
from contract.ledger import Run, Taken
from contract.mode import Answer, Normalization
from contract.names import slug
from contract.prompts import BETWEEN, turns_of
from contract.question import Question
from contract.spec import ChatTemplate, RunSpec
from contract.turns import as_text, begun, messages
from contract.verdict import Outcome, Verdict
from contract.wording import number
from producer.export.columns import UNSETTLED
from producer.export.files import Drafts
from producer.export.formats.base import Sink
from producer.export.parts import Part
from producer.runs.source_coverage import part_asked
from producer.stats.normalized import METRIC, right_by, sums

__all__ = ["lm_eval_files"]

FOLDER = "lm-eval"
#: A task's name is part of a file's, and file systems limit these to 255 bytes.
LONGEST_TASK = 150
NO_FILTER = "none"
#: How the harness's own filters write an answer that names no choice.
INVALID = "[invalid]"


@contextmanager
def lm_eval_files(drafts: Drafts, directory: Path, run: Run) -> Iterator[Sink]:
    """Write a sample per question that did not fail; the others are only counted, in the results."""
    # The harness's tools split these names at underscores, so only the task may contain one.
    folder = directory / FOLDER / _model_folder(run.spec.model)
    date = datetime.fromtimestamp(run.created_at, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    task = _task(run)
    paths = (folder / f"samples_{task}_{date}.jsonl", folder / f"results_{date}.json")
    samples = _Samples(run.spec, drafts.text(paths[0]))
    results = drafts.text(paths[1])
    sink = Sink(paths, list, samples.write_all)
    yield sink
    missing = [*_missing(run), *samples.left_out(run.questions)]
    json.dump(_results(run, task, samples, missing), results, ensure_ascii=False, indent=2)
    results.write("\n")
    sink.remarks.extend(f"lm-eval: {each}" for each in missing)


def _task(run: Run) -> str:
    """Return the task's name: that of the question file, with the subset and split of it that were asked."""
    taken = run.taken or Taken()
    file = run.source.removesuffix(f", split {taken.split}").removesuffix(f", subset {taken.subset}")
    return slug("-".join(filter(None, (Path(file).stem, taken.subset, taken.split))))[:LONGEST_TASK]


class _Scored(NamedTuple):
    """A question in the harness's terms. `arguments`, `resps` and `filtered` have an item per request."""

    target: str
    arguments: list[tuple[str, Any]]
    resps: list[list[Any]]
    filtered: list[Any]
    #: None without a key: every line has the same fields, as the lines are read as a table.
    metrics: dict[str, float | None]


@dataclass(slots=True)
class _Samples:
    """Writes the samples and accumulates the counts for the results."""

    spec: RunSpec
    file: TextIO
    questions: int = 0
    written: int = 0
    #: Metric → number of questions for which it is 1, and of questions that have it.
    right: Counter[str] = field(default_factory=Counter)
    of: Counter[str] = field(default_factory=Counter)
    #: Outcome → number of questions without a sample.
    without_sample: Counter[str] = field(default_factory=Counter)
    without_key: int = 0
    hashes: Any = field(default_factory=hashlib.sha256)

    def write_all(self, part: Part) -> None:
        """Write the samples of the questions that did not fail."""
        for question, verdict in part:
            self.write(question, verdict)

    def write(self, question: Question, verdict: Verdict | None) -> None:
        """Write the question's sample, unless it failed or is unsettled."""
        doc_id = self.questions
        self.questions += 1
        if verdict is None or verdict.outcome is Outcome.FAILED:
            self.without_sample[verdict.outcome.value if verdict else UNSETTLED] += 1
            return
        scored = (
            _written(question, verdict, self.spec) if self.spec.mode.writes else _weighed(question, verdict, self.spec)
        )
        doc = question.model_dump(mode="json")
        hashes = {
            "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": _hash(scored.arguments[0][0]),
            "target_hash": _hash(scored.target),
        }
        sample = {
            "doc_id": doc_id,
            "doc": doc,
            "target": scored.target,
            "arguments": {
                f"gen_args_{at}": {"arg_0": prompt, "arg_1": rest} for at, (prompt, rest) in enumerate(scored.arguments)
            },
            "resps": scored.resps,
            "filtered_resps": scored.filtered,
            "filter": _filter(self.spec),
            "metrics": list(scored.metrics),
            **hashes,
            **scored.metrics,
        }
        self.file.write(json.dumps(sample, ensure_ascii=False) + "\n")
        self.written += 1
        self.without_key += question.answer is None
        self.hashes.update("".join(hashes.values()).encode())
        for metric, value in scored.metrics.items():
            if value is not None:
                self.right[metric] += value == 1.0
                self.of[metric] += 1

    def metrics(self) -> dict[str, float | str]:
        """Return the mean and standard error of each metric, under the harness's names."""
        found: dict[str, float | str] = {}
        for metric, of in self.of.items():
            mean = self.right[metric] / of
            found[f"{metric},{_filter(self.spec)}"] = mean
            error = math.sqrt(mean * (1 - mean) / (of - 1)) if of > 1 else "N/A"
            found[f"{metric}_stderr,{_filter(self.spec)}"] = error
        return found

    def left_out(self, questions: int) -> Iterator[str]:
        """Yield notes on which of the run's `questions` are missing from the samples or their metrics.

        Of a run that is still being written, those are unsettled that are not in the ledger yet.
        """
        for outcome, count in (self.without_sample + Counter({UNSETTLED: questions - self.questions})).items():
            yield f"{count:,} of {number(questions, 'question')} {outcome}: no sample, not in any metric."
        if self.without_key and self.spec.mode.answer is not Answer.NONE:
            yield f"{number(self.without_key, 'question')} without a key: the target is empty and every metric is null."


def _weighed(question: Question, verdict: Verdict, spec: RunSpec) -> _Scored:
    """Return log-likelihoods per choice in the file's order, summed over its tokens."""
    arrangement = arrangements(question, spec)[0]
    prompt = _prompt(arrangement.question, spec, verdict)
    shown_as = {arrangement.original(label): label for label in question.labels}
    metrics: dict[str, float | None] = {
        METRIC[each]: float(right)
        for each, right in right_by(question, verdict, spec).items()
        if each is not Normalization.TOKEN  # the harness has no such metric
    }
    metrics[METRIC[spec.normalization]] = float(verdict.outcome is Outcome.CORRECT)
    arguments = [
        (prompt, _continuation(shown_as[label] if spec.mode.scores_labels else question.choice_text(label), spec))
        for label in question.labels
    ]
    logprobs = sums(question, verdict, spec)
    if spec.normalization is Normalization.MUTUAL_INFO:
        arguments += [(spec.unconditional_prompt, _without_question(choice, spec)) for choice in question.choices]
        logprobs += [verdict.unconditional_scores.get(label, math.nan) for label in question.labels]
    # The harness has True or False here for whether greedy decoding gives this choice; that is not measured.
    pairs = [[str(each), str(None)] for each in logprobs]
    return _Scored(
        target=_listed([question.labels.index(label) for label in question.right]),
        arguments=arguments,
        resps=[[pair] for pair in pairs],
        filtered=pairs,
        metrics=metrics if question.answer is not None else dict.fromkeys(metrics),
    )


def _written(question: Question, verdict: Verdict, spec: RunSpec) -> _Scored:
    """Return generated texts: one request, with as many responses as there were samples."""
    prompt = _prompt(arrangements(question, spec)[0].question, spec, verdict)
    texts = json.loads(verdict.raw_text) if spec.mode.votes else [verdict.raw_text]
    right = float(verdict.outcome is Outcome.CORRECT)
    if spec.mode.read_by_rules:
        targets, answer, metric = list(question.right), verdict.choice or INVALID, "exact_match"
    else:
        targets, answer, metric = [question.choice_text(label) for label in question.right], verdict.raw_text, "acc"
    return _Scored(
        target=_listed(targets),
        arguments=[(prompt, _generation(spec))],
        resps=[texts],
        filtered=[answer],
        metrics={} if spec.mode.answer is Answer.NONE else {metric: right if targets else None},
    )


def _prompt(shown: Question, spec: RunSpec, verdict: Verdict) -> str:
    """Return the prompt text; for turns, JSON, as the harness writes its chat completion requests."""
    turns = turns_of(shown, spec, verdict.passages)
    return json.dumps(messages(turns), ensure_ascii=False) if _in_turns(spec) else as_text(turns)


def _continuation(answer: str, spec: RunSpec) -> str:
    begins_turn = _in_turns(spec) and not spec.answer_prefix
    return begun(spec.delimiter + answer) if begins_turn else spec.delimiter + answer


def _without_question(choice: str, spec: RunSpec) -> str:
    return spec.delimiter + choice if spec.unconditional_prompt else _continuation(choice, spec)


def _in_turns(spec: RunSpec) -> bool:
    return spec.chat_template is ChatTemplate.TURNS


def _listed(targets: list[Any]) -> str:
    """Return a single target as is, several as a Python list, none as an empty string."""
    return str(targets) if len(targets) > 1 else "".join(map(str, targets))


def _generation(spec: RunSpec) -> dict[str, Any] | None:
    if spec.sampling is None:
        return None
    return {
        "until": list(spec.sampling.stop),
        "max_gen_toks": spec.sampling.max_tokens,
        "do_sample": spec.sampling.temperature > 0,
        "temperature": spec.sampling.temperature,
        "top_p": spec.sampling.top_p,
        **spec.sampling.chosen(),
    }


def _shots(spec: RunSpec) -> int:
    return spec.few_shot.k if spec.few_shot else 0


def _filter(spec: RunSpec) -> str:
    """Return the name of the filter that extracted an answer from the generated text, if any."""
    if not spec.mode.read_by_rules:
        return NO_FILTER
    return "majority" if spec.mode.votes else "extract"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _model_folder(model: str) -> str:
    """Return the harness's folder name for a model."""
    return re.sub(r'["<>:/|\\?*\[\]]+', "__", model)


def _missing(run: Run) -> Iterator[str]:
    """Yield notes on what this run cannot provide, and on what has a different meaning here."""
    spec = run.spec
    if spec.mode.judged:
        yield f"mode {spec.mode} has no log-likelihoods; acc is the judge's grade for the text in resps."
    elif spec.mode.writes:
        yield f"mode {spec.mode} has no log-likelihoods: resps are texts, and there is neither acc nor acc_norm."
    else:
        yield 'is_greedy, after each log-likelihood, is "None": it was not measured.'
    if spec.mode.scores_labels:
        yield f"mode {spec.mode} has no acc_norm: it compares the labels, which are equally long."
    if spec.circular:
        yield (
            "a circular run's metric requires every rotation to be correct; arguments are from the first rotation, "
            "resps from one with the most frequent choice."
        )
    if spec.shuffle:
        yield "choices were shuffled: target and filtered_resps are in doc's order, the prompt is in the order shown."
    if spec.chat_template is not ChatTemplate.NEVER:
        yield "arguments are the prompts before they are put into the model's chat template."
    if part := part_asked(run):
        yield f"asked: {part}."


def _results(run: Run, task: str, samples: _Samples, missing: list[str]) -> dict[str, Any]:
    spec, taken = run.spec, run.taken or Taken()
    return {
        "results": {task: {"name": task, "alias": task, "sample_len": samples.written, **samples.metrics()}},
        "group_subtasks": {task: []},
        "configs": {task: _config(run, task, samples, missing)},
        "versions": {task: spec.prompt.version},
        "n-shot": {task: _shots(spec)},
        "higher_is_better": {task: dict.fromkeys(samples.of, True)},
        "n-samples": {task: {"original": max(taken.rows, samples.questions), "effective": samples.written}},
        "config": {
            "model": "mcqueue",
            "model_args": {"pretrained": spec.model},
            "batch_size": None,
            "limit": taken.limit,
            "bootstrap_iters": 0,
            "gen_kwargs": _generation(spec),
            "random_seed": spec.seed,
            "fewshot_seed": spec.seed,
        },
        "fewshot_as_multiturn": _in_turns(spec),
        "date": run.created_at,
        "task_hashes": {task: samples.hashes.hexdigest()},
        "model_source": "mcqueue",
        "model_name": spec.model,
        "model_name_sanitized": _model_folder(spec.model),
    }


def _config(run: Run, task: str, samples: _Samples, missing: list[str]) -> dict[str, Any]:
    """Return the task as its YAML would describe it, with our own fields under `metadata`."""
    spec, chosen = run.spec, _filter(run.spec)
    return {
        "task": task,
        "dataset_path": run.source,
        "output_type": "generate_until" if spec.mode.writes else "multiple_choice",
        "description": spec.description + BETWEEN if spec.description else "",
        "doc_to_text": spec.prompt.text,
        "target_delimiter": spec.delimiter,
        "gen_prefix": spec.answer_prefix or None,
        "fewshot_delimiter": BETWEEN,
        "num_fewshot": _shots(spec),
        "repeats": spec.sampling.samples if spec.sampling else 1,
        "generation_kwargs": _generation(spec),
        "metric_list": [{"metric": each, "aggregation": "mean", "higher_is_better": True} for each in samples.of],
        "filter_list": [] if chosen == NO_FILTER else [{"name": chosen, "filter": [{"function": chosen}]}],
        "metadata": {
            "version": spec.prompt.version,
            "run_id": run.run_id,
            "fingerprint": spec.fingerprint(),
            "mode": spec.mode.value,
            "normalization": spec.normalization.value,
            "missing": missing,
        },
    }
