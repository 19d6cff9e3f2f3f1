"""The suite file, configs/suites/*.yaml: which question sets are asked, how, and of which models.

A suite is not stored in the ledger. Its runs' ids follow from what is asked, so the same file finds the same runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from contract.errors import RunConfigError
from contract.explain import explain
from contract.layers import merge, nest
from contract.names import slug
from contract.yaml_files import LONGEST, read_yaml
from producer.intake.options import how_to_read, selection_of
from producer.intake.selection import Selection
from producer.readers import HowToRead
from producer.readers.source import STDIN
from producer.runs.parts import FileName
from producer.runs.runconfig import RunConfig, run_config

__all__ = ["Entry", "Suite", "load_suite"]

#: Maximum length of a name, which is part of its runs' ids and labels a row.
LONGEST_NAME = 60


def _is_a_name(value: str) -> str:
    if not any(each.isalnum() for each in slug(value)) or slug(value) == slug(""):
        raise ValueError("a name needs a letter a to z or a digit, as runs and folders are named after it")
    if value.splitlines() != [value]:
        raise ValueError("a name is one line, as it labels a row of the table")
    return value


def _can_be_read_again(value: str) -> str:
    if value == STDIN:
        raise ValueError("standard input cannot be read again when the suite is resumed: name a file")
    return value


Name = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(_is_a_name)]
ModelName = Annotated[str, Field(min_length=1)]
#: A field's name; that of a column without one, and `base`, are numbers in YAML.
FieldName = Annotated[str, Field(coerce_numbers_to_str=True)]
Count = Annotated[int, Field(ge=1)]


class Entry(BaseModel):
    """One question set, asked in one way: a row of the table."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Name of the row.
    name: Name
    #: The questions: anything that `enqueue` accepts except standard input.
    file: Annotated[FileName, Field(min_length=1), AfterValidator(_can_be_read_again)]
    #: Run configuration, a file as in `configs/runs/`; empty: the suite's.
    config: FileName = ""
    #: Values that override `config` and the suite's `set`, as with `enqueue --set`: `{mode: letter, rag.index: x}`.
    set: dict[str, Any] = {}
    #: Models to run this entry on; empty: the suite's.
    models: list[ModelName] = []
    #: As `enqueue --layout`.
    layout: str = ""
    #: As `enqueue --map`: `{question: stem, choices: a+b+c}`.
    map: dict[str, FieldName] = {}
    #: As `enqueue --encoding`.
    encoding: str = ""
    #: As `enqueue --subset`.
    subset: str = ""
    #: As `enqueue --split`.
    split: str = ""
    #: As `enqueue --answers`: a file with one answer per line.
    answers: FileName = ""
    #: As `enqueue --qrels`: a file with the passages that are relevant to each question.
    qrels: FileName = ""
    #: As `enqueue --limit`: only this many questions from the start.
    limit: Count | None = None
    #: As `enqueue --sample`: only this many questions, drawn at random.
    sample: Count | None = None
    #: As `enqueue --stratified`.
    stratified: bool = False
    #: Seed of `sample`; null: the configuration's. The run's own seed is set with `set: {seed: N}`.
    seed: Annotated[int, Field(ge=0)] | None = None
    #: As `enqueue --subject`: only questions of these subjects.
    subjects: list[str] = []
    #: As `enqueue --skip-bad`: skip bad rows.
    skip_bad: bool = False

    def how_to_read(self) -> HowToRead:
        """Return how to read the file. Raises InputError, UsageError."""
        mapping = tuple(f"{part}={field}" for part, field in self.map.items())
        if self.answers and not Path(self.answers).is_file():
            raise RunConfigError(
                f"answers: {self.answers}: no such file.", hint="The path is relative to the current folder."
            )
        answers = Path(self.answers) if self.answers else None
        return how_to_read({**dict(self), "mapping": mapping, "answers": answers})

    def selection(self, seed: int) -> Selection:
        """Return which of its questions are asked; `seed` is the configuration's. Raises UsageError."""
        return selection_of(dict(self), seed)


class Suite(BaseModel):
    """Question sets and models whose results form one table."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=LONGEST)

    #: Name of the suite, used for its runs and its results folder. Another name asks everything again.
    name: Name
    #: Models to run each entry on, by the names that workers serve them under; empty: the configuration's.
    models: list[ModelName] = []
    #: Default run configuration of the entries, a file as in `configs/runs/`.
    config: FileName = ""
    #: Values that override every entry's configuration file.
    set: dict[str, Any] = {}
    #: The rows of the table.
    entries: Annotated[list[Entry], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_and_models_are_different(self) -> Self:
        rows = Counter(slug(each.name) for each in self.entries)
        twice = [each.name for each in self.entries if rows[slug(each.name)] > 1]
        if twice:
            counts = "only a to z, of either case, digits, dots and underscores count, as in the names of runs"
            raise ValueError(f"entries have the same name: {', '.join(map(repr, twice))}; {counts}")
        for models in (self.models, *(each.models for each in self.entries)):
            if again := [name for name, times in Counter(models).items() if times > 1]:
                raise ValueError(f"models: {again[0]!r} is listed twice")
        return self

    def models_of(self, entry: Entry) -> Sequence[str]:
        """Return the models to run `entry` on; empty: the one in its configuration."""
        return entry.models or self.models

    def run_config(self, entry: Entry) -> RunConfig:
        """Return the run configuration of `entry`: its own values override the suite's, which override the file.

        Raises RunConfigError.
        """
        path = entry.config or self.config
        over = merge(_nested(self.set), _nested(entry.set))
        if "model" in over and self.models_of(entry):
            raise RunConfigError("set.model and models are mutually exclusive.", hint="Leave set.model out.")
        below = read_yaml(Path(path), RunConfigError) if path else {}
        return run_config(merge(below, over), " and ".join(filter(None, (path, "set" if over else ""))) or "set")


def load_suite(path: Path) -> Suite:
    """Load the suite from a file.

    Raises a RunConfigError that names file, entry and field, what was found, and the nearest known name.
    """
    values = read_yaml(path, RunConfigError)
    if wrong := list(_troubles(values.get("entries"), path)):
        raise RunConfigError("\n  ".join(wrong))
    try:
        return Suite.model_validate(values)
    except ValidationError as trouble:
        raise RunConfigError(explain(trouble, Suite, str(path))) from None


def _troubles(entries: Any, path: Path) -> Iterator[str]:
    """Yield the errors of each entry. Entries are checked one by one, so that errors can refer to them by name."""
    for at, entry in enumerate(entries if isinstance(entries, list) else (), start=1):
        place = f"{path}: entry {_called(entry, at)}"
        if isinstance(entry, Mapping) and (idle := [name for name in entry if _belongs_under_set(name)]):
            yield f"{place}: {idle[0]!r} is a run setting: put it under set, as in set: {{{idle[0]}: …}}."
            continue
        try:
            Entry.model_validate(entry)
        except ValidationError as trouble:
            yield explain(trouble, Entry, place)


def _called(entry: Any, at: int) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return repr(name) if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME else str(at)


def _belongs_under_set(name: Any) -> bool:
    return name in RunConfig.model_fields and name not in Entry.model_fields


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"rag.index": x}` as `{"rag": {"index": x}}`, as `--set` does."""
    return reduce(merge, (nest(name, value) for name, value in values.items()), {})
