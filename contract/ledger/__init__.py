"""The ledger: runs, question bodies and one verdict per question. It is the source of truth; queues only carry ids.

`Ledger` is the interface; `RedisLedger` and `MemoryLedger` implement it.
"""

from contract.ledger.base import REQUEST_ENDED, Begun, Ledger, new_call
from contract.ledger.memory import MemoryLedger
from contract.ledger.redis import RedisLedger
from contract.ledger.run import Counts, Run, RunState, Taken, halted, now

__all__ = [
    "REQUEST_ENDED",
    "Begun",
    "Counts",
    "Ledger",
    "MemoryLedger",
    "RedisLedger",
    "Run",
    "RunState",
    "Taken",
    "halted",
    "new_call",
    "now",
]
