"""The ledger: runs, question bodies, and the one verdict of each question. It is the truth; queues only carry ids.

`Ledger` is the agreement; `RedisLedger` and `MemoryLedger` keep it.
"""

from contract.ledger.base import UNCOUNTED, Begun, Committed, Ledger
from contract.ledger.memory import MemoryLedger
from contract.ledger.redis import RedisLedger
from contract.ledger.run import Counts, Run, RunState, Taken, halted

__all__ = [
    "UNCOUNTED",
    "Begun",
    "Committed",
    "Counts",
    "Ledger",
    "MemoryLedger",
    "RedisLedger",
    "Run",
    "RunState",
    "Taken",
    "halted",
]
