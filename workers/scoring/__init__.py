"""Scoring modes by name. A mode is a module with `ask` and `read`; it knows no engine, no queue and no ledger."""

from contract.spec import Mode
from workers.scoring import free, generate, judge, letter, likelihood, vote
from workers.scoring.base import Further, Item, Reading, ScoringMode

__all__ = ["MODES", "Further", "Item", "Reading", "ScoringMode"]

MODES: dict[Mode, ScoringMode] = {
    Mode.LETTER: ScoringMode(letter.ask, letter.read),
    Mode.LIKELIHOOD: ScoringMode(likelihood.ask, likelihood.read),
    Mode.GENERATE: ScoringMode(generate.ask, generate.read),
    Mode.VOTE: ScoringMode(vote.ask, vote.read),
    Mode.JUDGE: ScoringMode(judge.ask, judge.read),
    Mode.FREE: ScoringMode(generate.ask, free.read),
}
