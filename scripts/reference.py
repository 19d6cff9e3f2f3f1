"""Generates docs/reference/: every command, setting, metric and column, from the code itself.

    python -m scripts.reference [--check]

With --check nothing is written, and the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click
from prometheus_client.metrics_core import Metric
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from redis import Redis

from contract import MemoryLedger
from contract.metrics import RedisMetrics
from contract.settings import PREFIX, Settings
from producer.cli import main as producer
from producer.export.columns import MEANINGS
from producer.runs.runconfig import RunConfig
from producer.suite.config import Entry, Suite
from workers.cli import main as workers
from workers.monitoring.hardware import Hardware
from workers.monitoring.metrics import HardwareMetrics, WorkerMetrics

__all__ = ["FOLDER", "metric_families", "pages"]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
READING = """
## Reading it

A CSV says of no cell whether it is a text, and pandas makes a number of the id `007` and nothing of the choices `None`
and `NA`. `results.parquet` has types. Of a CSV, say what is text:

```python
pandas.read_csv("results.csv", dtype=str, keep_default_na=False)
```

A text that a spreadsheet would take for a formula has an apostrophe before it in the CSV, ids too; Parquet and JSON
Lines have it as it was. JSON Lines name infinities, which JSON has no number for: `"-inf"`.

The mean of `correct` leaves out failed questions. `accuracy_all` in `summary.json` counts them, and unanswered ones, as
not right; `accuracy_answered` leaves out both. Where questions failed, `accuracy_without_failed` leaves out these
alone: it is the mean of `correct`, and what `compare` goes by. `selection` says what of the source was asked.

To cite a result, give from `summary.json` the accuracy with its interval, `chance`, `constant`, `fingerprint`,
`prompt_version`, `selection`, `environment.packages`, and `environment.answered_by` (weights, number type, version of
vLLM).

`chance` is what guessing scores. `constant` is what always giving the same answer scores at best: the same position,
where the prompt shows the choices in the file's order, or the same choice, as "yes", where all questions have the same
ones. A model above chance, and not above that, need not know anything: a run's end and the report say so, a suite's
table does not.

## What the intervals are

All are of 95 %. An interval is about what would be drawn anew: other questions like these, other subjects, other texts.
Questions that the file has twice, word for word, share a context, also with their choices in another order: asked
again, they tell nothing new. The mean over subjects has a `chance` of its own: where subjects differ in their numbers
of choices, it is not that of all questions. Its interval takes subjects for independent, even if they share contexts. A
suite's mean has no interval where entries share questions or contexts.

| in summary.json, or `compare --json` | is | of |
|---|---|---|
| `accuracy_all`, `accuracy_without_failed`, `accuracy_answered` | Wilson's (1927), each question alone | the accuracy |
| `by_subject` | the same of each subject, each question alone | the accuracy |
| `accuracy_by_normalization`: of a `likelihood` run, whatever its own | the same | the accuracy by each |
| `accuracy_context_interval` | by contexts, where questions share them (Miller 2024, arXiv:2411.00640) | the accuracy |
| `accuracy_without_failed_context_interval` | the same, without failed questions | the accuracy |
| `accuracy_cluster_interval` | by subjects, as if they were drawn, too | the accuracy |
| `macro_accuracy` | Price and Bonett's (2004), for these subjects; wider by contexts | the subjects' mean, each once |
| `rotation_accuracy`, retrieval's means | Wilson's with the mean for the share: rather too wide | a mean of shares |
| `difference`, also `by_subject` | Bonett and Price's (2012), in pairs, each alone | B minus A |
| `difference_context_interval` | by contexts, where questions share them | B minus A |

`mcnemar.p_value` is of McNemar's test with mid-p, two-sided (Fagerland and others 2013), which belongs to the interval
of `difference`: the exact test is more cautious than that. It takes each question for itself; where questions share
contexts, go by `difference_context_interval`, which has a `p_value` of its own. `undecided` says that test and
interval, both approximations, disagree on there being a difference. A report of several runs tells Holm's p beside it,
for looking at all of them together. Nothing is adjusted for looking at many subjects, nor for comparing again and
again."""
MADE = "<!-- Written by `python -m scripts.reference`; a test compares it with the code. -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [name for name, text in pages().items() if _read(FOLDER / name) != text]
    if check:
        print(*(f"docs/reference/{name} is out of date: python -m scripts.reference" for name in stale), sep="\n")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def pages() -> dict[str, str]:
    """Return file name → content."""
    found = {"commands.md": _commands(), "settings.md": _settings(), "metrics.md": _metrics(), "results.md": _results()}
    return {name: "\n".join([*lines, ""]) for name, lines in found.items()}


def metric_families() -> list[Metric]:
    """Return every metric of ours, with its documentation and type."""
    redis = RedisMetrics(MemoryLedger(), cast("Redis", _EmptyRedis()))
    own = WorkerMetrics(Settings(engine="simulated"), "w", "score.m").registry
    found: Iterable[Metric] = [*own.collect(), *redis.collect(), *HardwareMetrics(Hardware()).collect()]
    return sorted(found, key=lambda each: each.name)


class _EmptyRedis:
    """Just enough of a Redis to describe its metrics."""

    def register_script(self, _: str) -> None: ...
    def smembers(self, _: str) -> set[str]:
        return set()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _commands() -> Iterator[str]:
    yield from ("# Commands", "", MADE, "", "Each tells the same with `--help`.")
    for name, group in (("producer", producer), ("workers", workers)):
        yield from _command(f"python -m {name}", group, "##")
        for each in sorted(group.commands):
            yield from _command(f"python -m {name} {each}", group.commands[each], "###")


def _command(name: str, command: click.Command, level: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("", f"{level} `{name}`", "", f"`{name} {usage}`", "", _flowing(command.help or ""))
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        yield from ("", "| option | |", "|---|---|")
    for option in options:
        record = option.get_help_record(context)
        if record:
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |"


def _settings() -> Iterator[str]:
    yield from ("# Settings", "", MADE, "")
    yield "Where and how fast: a file of `configs/deploy/`, `--set NAME=VALUE`, or the variable in the environment,"
    yield "which wins. Names with a dot are nested: `simulated: {call_ms: 5}` in a file."
    yield from ("", "| name | default | | variable |", "|---|---|---|---|")
    for name, field, comment in _fields(Settings):
        variable = PREFIX + name.upper().replace(".", "__")
        yield f"| `{name}` | {_default(field)} | {_about(field, comment)} | `{variable}` |"
    yield from ("", "# Runs", "")
    yield "What is asked: a file of `configs/runs/`, or `enqueue --set NAME=VALUE`. All of it can change an answer, so"
    yield "all of it is in the run's fingerprint, and none comes from the environment."
    yield from ("", "| name | default | |", "|---|---|---|")
    for name, field, comment in _fields(RunConfig):
        yield f"| `{name}` | {_default(field)} | {_about(field, comment)} |"
    yield from ("", "# Suites", "")
    yield "Which question sets and models belong into one table: a file of `configs/suites/`."
    yield from ("", "| name | default | |", "|---|---|---|")
    for name, field, comment in (*_fields(Suite), *_fields(Entry, "entries[].")):
        yield f"| `{name}` | {_default(field)} | {_about(field, comment)} |"


def _fields(model: type[BaseModel], start: str = "") -> Iterator[tuple[str, FieldInfo, str]]:
    comments = _comments(model)
    for name, field in model.model_fields.items():
        inner = field.annotation
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            yield from _fields(inner, f"{start}{name}.")
        else:
            yield f"{start}{name}", field, comments.get(name, "")


def _comments(model: type[BaseModel]) -> dict[str, str]:
    """Return field → the `#:` comment above it."""
    found, above = {}, list[str]()
    for line in inspect.getsource(model).splitlines():
        comment, field = re.fullmatch(r"\s*#: ?(.*)", line), re.match(r"    (\w+): ", line)
        if comment:
            above.append(comment.group(1))
            continue
        if field:
            found[field.group(1)] = " ".join(above)
        above = []
    return found


def _default(field: FieldInfo) -> str:
    default: Any = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return "must be given"
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    plain = getattr(default, "value", default)
    if plain == " ":
        return "one space"
    return f"`{_cell(repr(plain) if not isinstance(plain, str) else plain)}`" if plain not in ("", None) else "–"


def _about(field: FieldInfo, comment: str) -> str:
    bounds = {"Ge": "ge", "Gt": "gt", "Le": "le", "Lt": "lt"}
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [
        f"{signs[bounds[type(each).__name__]]} {getattr(each, bounds[type(each).__name__]):g}"
        for each in field.metadata
        if type(each).__name__ in bounds
    ]
    return _cell(" ".join(filter(None, (field.description or comment, f"({', '.join(limits)})" if limits else ""))))


def _metrics() -> Iterator[str]:
    yield from ("# Metrics", "", MADE, "")
    yield "On `http://<metrics_address>:<metrics_port>/metrics` of every worker, with what vLLM (`vllm:…`) and Python"
    yield "(`process_…`) say of themselves. `/targets` there lists all live workers for Prometheus' `http_sd_configs`,"
    yield "which adds the labels `worker` and `queue`. `configs/prometheus/rules.yml` derives rates and alerts,"
    yield "`configs/grafana/dashboards/mcqueue.json` shows them."
    yield from ("", "| metric | type | labels | |", "|---|---|---|---|")
    for each in metric_families():
        labels = {name for sample in each.samples for name in sample.labels} - {"le"} or _labels_of(each)
        name = f"{each.name}_total" if each.type == "counter" else each.name
        shown = ", ".join(f"`{label}`" for label in sorted(labels))
        yield f"| `{name}` | {each.type} | {shown} | {_cell(each.documentation)} |"


def _results() -> Iterator[str]:
    yield from ("# Results", "", MADE, "")
    yield "A row per question, in the order of the file: `results.csv`, and with types `results.parquet`."
    yield "What a CSV cell has as JSON is a map or a list there, and `settled_at` a time; only `metadata` stays JSON."
    yield "`summary.json` names under `files` what was written with it; other files beside it are of another export."
    yield from ("", "| column | |", "|---|---|")
    for column, meaning in MEANINGS.items():
        yield f"| `{column}` | {_cell(meaning)} |"
    yield READING


def _labels_of(metric: Metric) -> set[str]:
    return set(getattr(metric, "_labelnames", ()))


def _flowing(text: str) -> str:
    return "\n".join(line.strip() for line in inspect.cleandoc(text).replace("\b", "").splitlines()).strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
