"""Scoring modes by name. A mode is a module with `ask` and `read`; it knows no engine, no queue and no ledger."""

from collections.abc import Iterator
from importlib import metadata

from contract.choice_order import arrangements
from contract.mode import Mode
from contract.prompts import turns_of
from workers.engines.base import Request
from workers.scoring import free, generate, judge, letter, likelihood, vote
from workers.scoring.base import FollowUp, Item, Reading, ScoringMode
from workers.scoring.extract import rules_version

__all__ = ["MODES", "FollowUp", "Item", "Reading", "ScoringMode", "requests_of", "versions"]

MODES: dict[Mode, ScoringMode] = {
    Mode.LETTER: ScoringMode(letter.ask, letter.read),
    Mode.LIKELIHOOD: ScoringMode(likelihood.ask, likelihood.read),
    Mode.GENERATE: ScoringMode(generate.ask, generate.read),
    Mode.VOTE: ScoringMode(vote.ask, vote.read),
    Mode.JUDGE: ScoringMode(judge.ask, judge.read),
    Mode.FREE: ScoringMode(generate.ask, free.read),
}


def requests_of(item: Item) -> Iterator[Request]:
    """Return the first requests for `item`, in every order of its choices: all but those of a `FollowUp`."""
    question, spec, passages = item.question, item.spec, item.passages
    for each in arrangements(question, spec):
        yield from MODES[spec.mode].ask(each.question, turns_of(each.question, spec, passages), spec)


def versions(mode: Mode) -> dict[str, str]:
    """Return what decides an answer beside the engine: mcqueue's version and, if rules read the text, the rules'."""
    return {"mcqueue": metadata.version("mcqueue")} | ({"rules": rules_version()} if mode.read_by_rules else {})
