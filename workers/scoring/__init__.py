"""Scoring modes by name. A mode is a module with `ask` and `read`; it knows no engine, no queue and no ledger."""

from contract.spec import Mode
from workers.scoring import letter, likelihood
from workers.scoring.base import Reading, ScoringMode

__all__ = ["MODES", "Reading", "ScoringMode"]

MODES: dict[Mode, ScoringMode] = {
    Mode.LETTER: ScoringMode(letter.ask, letter.read),
    Mode.LIKELIHOOD: ScoringMode(likelihood.ask, likelihood.read),
}
