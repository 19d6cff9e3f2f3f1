"""Plans all runs of a suite before any is written: a bad row in the last file stops all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import click
import orjson

from contract.errors import InputError, RunConfigError
from contract.names import distinct_slug
from contract.question import substance
from contract.settings import Settings
from producer.intake.qrels import Qrels
from producer.readers import opened
from producer.runs.planning import Plan, plan, plan_for
from producer.suite.config import Entry, Suite

__all__ = [
    "Planned",
    "as_fields",
    "differently_judged",
    "one_of_each_entry",
    "planned",
    "share_questions",
    "sharing_index_name",
]


@dataclass(frozen=True, slots=True)
class Planned:
    """One entry, asked of one model."""

    entry: Entry
    plan: Plan
    #: How many of its questions have relevance judgements, as text; empty without `qrels`.
    judged: str = ""

    @property
    def model(self) -> str:
        """The model's name."""
        return self.plan.spec.model


@contextmanager
def planned(suite: Suite, path: Path, settings: Settings) -> Iterator[list[Planned]]:
    """Yield the planned runs of the suite in `path`, entry by entry; neither reads nor writes the ledger.

    Raises an InputError with the errors of all entries.
    """
    found: list[Planned] = []
    troubles: list[str] = []
    with ExitStack() as stack:
        for entry in suite.entries:
            try:
                found += _of_entry(suite, entry, settings, stack)
            except (InputError, click.UsageError) as trouble:
                said = trouble.message if isinstance(trouble, click.UsageError) else str(trouble)
                troubles.append(f"{path}: entry {entry.name!r}: {said}")
        if troubles:
            raise InputError("\n  ".join([*troubles, *as_fields(troubles)]))
        yield found


def as_fields(told: Iterable[str]) -> list[str]:
    """Return how a suite says what an option says, as a line if what is `told` names options."""
    how = "In a suite, options are fields of an entry: --split test is `split: test`, --skip-bad is `skip_bad: true`."
    return [how] if any(" --" in each for each in told) else []


def _of_entry(suite: Suite, entry: Entry, settings: Settings, stack: ExitStack) -> list[Planned]:
    """Plan the runs of one entry, whose file is read once for all models."""
    config = suite.run_config(entry)
    models = _served(suite.models_of(entry), settings)
    if models:
        config = config.model_copy(update={"model": models[0]})
    source = stack.enter_context(opened(entry.file, entry.how_to_read()))
    qrels = Qrels.read(Path(entry.qrels)) if entry.qrels else None
    first = plan(source, config, settings, entry.selection(config.seed), skip_bad=entry.skip_bad, qrels=qrels)
    judged = qrels.describe(first.survey.digest.count) if qrels else ""
    runs = (plan_for(first, model, f"{suite.name}-{entry.name}-{model}") for model in models or (first.spec.model,))
    return [Planned(entry, each, judged) for each in runs]


def _served(models: Sequence[str], settings: Settings) -> list[str]:
    """Return the names that `models` are served under. Raises RunConfigError if two of them are one model."""
    known_as: dict[str, str] = {}
    for model in models:
        name = settings.served_as(model)
        if other := known_as.get(name):
            message = f"models: {other!r} and {model!r} are one model, which is served as {name!r}."
            raise RunConfigError(message, hint="Leave one of them out.")
        known_as[name] = model
    return list(known_as)


def one_of_each_entry(runs: Sequence[Planned]) -> list[Planned]:
    """Return a run of each entry: those of its other models ask the same questions."""
    return list({each.entry.name: each for each in runs}.values())


def share_questions(runs: Sequence[Planned]) -> bool:
    """Whether any two entries have a question or a context in common, so that their accuracies are correlated.

    A question is identified by its text and choices, regardless of the order of the choices.
    """
    plans = [each.plan for each in one_of_each_entry(runs)]
    digests = [each.spec.questions_digest for each in plans]
    if len(set(digests)) < len(digests):
        return True
    seen: set[int] = set()
    for each in plans:
        own = {known for body in each.survey.bodies for known in _content_hashes(body.canonical)}
        if not seen.isdisjoint(own):
            return True
        seen |= own
    return False


def differently_judged(runs: Sequence[Planned]) -> list[list[Planned]]:
    """Return groups of entries that ask the same questions with different `qrels`, so that some cannot be compared.

    Relevance judgements are part of the questions: with others, these are different questions.
    """
    of_file: defaultdict[str, list[Planned]] = defaultdict(list)
    for each in one_of_each_entry(runs):
        of_file[each.entry.file].append(each)
    alike: defaultdict[bytes, list[Planned]] = defaultdict(list)
    for entries in of_file.values():
        if len({each.entry.qrels for each in entries}) > 1:
            for each in entries:
                alike[_digest_without_judgements(each.plan)].append(each)
    return [each for each in alike.values() if len({of.plan.spec.questions_digest for of in each}) > 1]


def sharing_index_name(runs: Sequence[Planned]) -> dict[str, list[str]]:
    """Return index name → entries, where entries search different indexes of that name: their retrievers would share a
    queue.
    """
    digests: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in one_of_each_entry(runs):
        if rag := each.plan.spec.rag:
            digests[distinct_slug(rag.index)][each.entry.name] = rag.index_digest
    return {name: list(found) for name, found in digests.items() if len(set(found.values())) > 1}


def _digest_without_judgements(found: Plan) -> bytes:
    digest = sha256()
    for body in found.survey.bodies:
        fields = orjson.loads(body.canonical)
        fields.pop("gold_passages", None)  # the judgements, and what the file itself names: they are in one list
        digest.update(orjson.dumps(fields))
    return digest.digest()


def _content_hashes(canonical: bytes) -> Iterator[int]:
    """Yield hashes of a question's content, and of its context if it has one."""
    fields = orjson.loads(canonical)
    yield hash(substance(fields["question"], fields["choices"]))
    if context := fields.get("context"):
        yield hash(context)
