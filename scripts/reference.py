"""Generates docs/reference/ from the code (`python -m scripts.reference`): commands, settings, metrics and columns."""

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
from producer.export.columns import COLUMNS
from producer.runs.runconfig import RunConfig
from producer.suite.config import Entry, Suite
from workers.cli import main as workers
from workers.monitoring.hardware import Hardware
from workers.monitoring.metrics import HardwareMetrics, WorkerMetrics

__all__ = ["FOLDER", "metric_families", "pages"]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = "<!-- Written by `python -m scripts.reference`; a test compares it with the code. -->"


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
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

    def hgetall(self, _: str) -> dict[str, str]:
        return {}


def _commands() -> Iterator[str]:
    yield from ("# Commands", "", MADE, "", "`--help` shows the same for each command.")
    for name, group in (("producer", producer), ("workers", workers)):
        yield from _command(f"python -m {name}", group, "##")
        for each, command in group.all_commands().items():
            yield from _command(f"python -m {name} {each}", command, "###")


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
    yield "Settings of a deployment: a file in `configs/deploy/`, `--set NAME=VALUE`, or the environment variable,"
    yield "which takes precedence. Names with a dot are nested: `simulated: {call_ms: 5}` in a file."
    yield from ("", "| name | default | | variable |", "|---|---|---|---|")
    for name, field, comment in _fields(Settings):
        variable = PREFIX + name.upper().replace(".", "__")
        yield f"| `{name}` | {_default(field)} | {_about(field, comment)} | `{variable}` |"
    yield from ("", "# Runs", "")
    yield "What is asked: a file in `configs/runs/`, or `enqueue --set NAME=VALUE`. All of these can change an answer,"
    yield "so all are in the run's fingerprint, and none comes from the environment."
    yield from ("", "| name | default | |", "|---|---|---|")
    for name, field, comment in _fields(RunConfig):
        yield f"| `{name}` | {_default(field)} | {_about(field, comment)} |"
    yield from ("", "# Suites", "")
    yield "Which question sets and models belong in one table: a file in `configs/suites/`."
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
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [
        f"{sign} {getattr(each, name):,}"
        for each in field.metadata
        for name, sign in signs.items()
        if hasattr(each, name)
    ]
    return _cell(" ".join(filter(None, (field.description or comment, f"({', '.join(limits)})" if limits else ""))))


def _metrics() -> Iterator[str]:
    yield from ("# Metrics", "", MADE, "")
    yield "At `http://<metrics_address>:<metrics_port>/metrics` of every worker, with the metrics of vLLM (`vllm:…`)"
    yield "and Python (`process_…`). `/targets` there lists all workers for Prometheus' `http_sd_configs`, with the"
    yield "labels `worker` and `queue`; for an hour, also those that vanished. `configs/prometheus/rules.yml` defines"
    yield "rates and alerts, `configs/grafana/dashboards/mcqueue.json` shows them."
    yield from ("", "| metric | type | labels | |", "|---|---|---|---|")
    for each in metric_families():
        labels = {name for sample in each.samples for name in sample.labels} - {"le"} or _labels_of(each)
        name = f"{each.name}_total" if each.type == "counter" else each.name
        shown = ", ".join(f"`{label}`" for label in sorted(labels))
        yield f"| `{name}` | {each.type} | {shown} | {_cell(each.documentation)} |"


def _results() -> Iterator[str]:
    yield from ("# Results", "", MADE, "")
    yield "One row per question, in the order of the file: `results.csv`, and with types `results.parquet`."
    yield "JSON cells of the CSV are maps or lists there, and `settled_at` is a timestamp; only `metadata` stays JSON."
    yield "The questions' texts are in `results.jsonl` (`export --format jsonl`); `show RUN ID` shows one."
    yield "`summary.json` lists under `files` what was written with it; any other files are from a different export."
    yield "[statistics.md](../statistics.md) explains how to read and cite them, and what the intervals are."
    yield from ("", "| column | |", "|---|---|")
    for column in COLUMNS:
        yield f"| `{column.name}` | {_cell(column.meaning)} |"


def _labels_of(metric: Metric) -> set[str]:
    return set(getattr(metric, "_labelnames", ()))


def _flowing(text: str) -> str:
    return "\n".join(line.strip() for line in inspect.cleandoc(text).replace("\b", "").splitlines()).strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
