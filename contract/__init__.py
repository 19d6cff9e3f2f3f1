"""The contract between producers and workers: shared types, wire format, ledger and queue. Nothing else."""

from contract.errors import McqueueError
from contract.ledger import Begun, Counts, Ledger, MemoryLedger, RedisLedger, Run, RunState
from contract.mode import Mode, Normalization
from contract.question import Question
from contract.settings import Settings, load_settings
from contract.spec import Prompt, RunSpec
from contract.verdict import Failure, Outcome, Passage, Verdict

__all__ = [
    "Begun",
    "Counts",
    "Failure",
    "Ledger",
    "McqueueError",
    "MemoryLedger",
    "Mode",
    "Normalization",
    "Outcome",
    "Passage",
    "Prompt",
    "Question",
    "RedisLedger",
    "Run",
    "RunSpec",
    "RunState",
    "Settings",
    "Verdict",
    "load_settings",
]
