"""Damaged question files through reading and enqueuing: each must be either refused or read.

Three of four inputs are small files of benchmarks/layout_files.py, compressed or encoded in various ways, with a few
random changes; the fourth is valid JSON whose known fields hold arbitrary values. An input fails if it raises anything
but our own errors, takes longer than 5 s, loses rows from the count, reads differently a second time, or leaves
anything in the ledger although it is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.command import Parser, positive, run
from benchmarks.layout_files import CASES
from benchmarks.record import print_table, write
from contract.errors import McqueueError, QuestionFileError
from contract.ledger import MemoryLedger
from contract.settings import Settings
from producer.broker import MemoryBroker
from producer.intake.selection import Selection
from producer.readers import Source
from producer.runs.planning import plan
from producer.runs.runconfig import RunConfig
from producer.runs.submit import submit

#: Time limit for an input, in seconds.
LONGEST_S = 5
#: Pieces that file formats stumble over.
PIECES = (
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\r\n", b"\t", b";", b"|", b"\x00", b"\xff",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"NaN", b"-1", b"1e999", b"9" * 400, b"null", b"true",
    b"[" * 2000, b'{"a":' * 500, b"\xe2\x80\xa8", b"\x1f\x8b", b"PAR1", b"PK\x03\x04", b"(A)", b"\nA) ", b"answer",
)  # fmt: skip


class TooSlowError(Exception):
    """An input exceeded its time limit."""


def main() -> int:
    parser = Parser(__doc__)
    parser.option("--inputs", positive, 20_000, "number of inputs")
    parser.option("--seed", int, 0, "determines the inputs")
    asked = parser.parse_args()
    started = time.monotonic()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.inputs):
            outcomes[check(Path(folder), damaged(asked.seed, number))] += 1
    rows = [{"outcome": name, "inputs": count} for name, count in outcomes.most_common()]
    print_table(f"{asked.inputs:,} damaged question files, seed {asked.seed}", rows)
    failed = sum(count for name, count in outcomes.items() if name.startswith("FAILED"))
    seconds = round(time.monotonic() - started)
    print(write("fuzz_readers", rows, asked, inputs=asked.inputs, failed=failed, seconds=seconds))
    return int(bool(failed))


#: Names that the readers know, and values that those fields may have.
NAMES = (
    *("id", "question", "stem", "input", "choices", "options", "answers", "A", "B", "opa", "opb", "cop", "answer"),
    *("answerKey", "label", "context", "text", "gold", "metadata", "mc1_targets", "target_scores", "passage", "ideal"),
    *("final_decision", "correct_answer", "distractor1", "instruction", "goal", "sol1", "sol2", "query", "labels"),
    *("classification", "best_answer", "incorrect_answers", "multiple_choice_targets", "multiple_choice_scores"),
)
VALUES = (
    *(None, True, False, 0, 1, 2, -1, 1.5, 1e308, 10**400, "", " ", "x", "y", "A", "B", "yes", "answer1", "\ud800"),
    *("(A) x (B) y", "q\nA) x\nB) y", "[1,2]", "['a','b']", "{", "["),
)


def damaged(seed: int, number: int) -> bytes:
    """Return input `number`, the same for the same seed. Every fourth is not damaged, but nonsense in known fields."""
    rng = random.Random(f"{seed} {number}")
    if number % 4 == 3:
        return nonsense(rng)
    samples = [case.content for case in CASES.values()]
    content = dressed(rng.choice(samples) * rng.choice((1, 1, 3)), rng)
    for _ in range(rng.randrange(1, 4)):
        content = rng.choice(CHANGES)(content, rng, samples)
    return content


def nonsense(rng: random.Random) -> bytes:
    """Return a few rows of valid JSON whose fields hold arbitrary values."""

    def value(depth: int) -> object:
        kind = rng.random()
        if depth > 2 or kind < 0.6:
            return rng.choice(VALUES)
        if kind < 0.8:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(NAMES): value(depth + 1) for _ in range(rng.randrange(4))}

    names = rng.sample(NAMES, rng.randrange(1, 7))
    rows = [{name: value(0) for name in names if rng.random() < 0.9} for _ in range(rng.randrange(1, 4))]
    return json.dumps(rows).encode() if rng.random() < 0.3 else b"\n".join(json.dumps(row).encode() for row in rows)


def dressed(text: str, rng: random.Random) -> bytes:
    """Return the text as bytes: mostly UTF-8, sometimes in another encoding, sometimes compressed."""
    encoding = rng.choice(["utf-8"] * 8 + ["utf-16", "utf-8-sig", "utf-16-le"])
    content = text.encode(encoding)
    packing = rng.randrange(12)
    if packing == 0:
        return gzip.compress(content, mtime=0)
    if packing == 1:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(zipfile.ZipInfo("q"), content)
        return packed.getvalue()
    return content


Change = Callable[[bytes, random.Random, Sequence[str]], bytes]


def _span(content: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.randrange(1, 40))


def cut(content: bytes, rng: random.Random, _samples: Sequence[str]) -> bytes:
    start, end = _span(content, rng)
    return content[:start] + content[end:]


def end_early(content: bytes, rng: random.Random, _samples: Sequence[str]) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def repeat(content: bytes, rng: random.Random, _samples: Sequence[str]) -> bytes:
    start, end = _span(content, rng)
    return content[:end] + content[start:end] * rng.randrange(1, 5) + content[end:]


def insert(content: bytes, rng: random.Random, _samples: Sequence[str]) -> bytes:
    start, _ = _span(content, rng)
    return content[:start] + rng.choice(PIECES) + content[start:]


def overwrite(content: bytes, rng: random.Random, _samples: Sequence[str]) -> bytes:
    start, end = _span(content, rng)
    return content[:start] + rng.randbytes(min(end - start, 3)) + content[end:]


def splice(content: bytes, rng: random.Random, samples: Sequence[str]) -> bytes:
    start, _ = _span(content, rng)
    return content[:start] + rng.choice(samples).encode()[rng.randrange(200) :]


CHANGES: tuple[Change, ...] = (cut, end_early, repeat, insert, overwrite, splice)


def check(folder: Path, content: bytes) -> str:
    """Return the outcome of the input; it begins with FAILED if a check failed."""
    path = folder / "file"
    path.write_bytes(content)
    try:
        with _in_time():
            return _read(path)
    except Exception as trouble:  # noqa: BLE001 - this program looks for any of them
        return f"FAILED: {type(trouble).__name__}: {trouble}"[:200]


def _read(path: Path) -> str:
    ledger = MemoryLedger()
    for skip_bad in (False, True):
        try:
            planned, again = (
                plan(Source(path, path.name), RunConfig(), Settings(), Selection(), skip_bad=skip_bad) for _ in range(2)
            )
            sent = submit(planned, ledger, MemoryBroker(ledger, batch_size=16))
        except QuestionFileError as refused:
            if not str(refused).startswith(path.name):
                return f"FAILED: an error that does not name the file: {refused}"
            if ledger.runs():
                return "FAILED: a refused file left a run"
            continue
        except McqueueError as refused:
            return f"FAILED: {type(refused).__name__}: {refused}"
        if planned.spec != again.spec:
            return "FAILED: it is read differently a second time"
        found = planned.survey
        written = sum(1 for _ in ledger.results(sent.run.run_id))
        if not found.good == found.digest.count == written or found.rows != found.good + found.troubles.count:
            return "FAILED: rows are lost from the count"
        return "enqueued without its bad rows" if skip_bad else "enqueued"
    return "refused"


@contextmanager
def _in_time() -> Iterator[None]:
    def too_slow(_signal: int, _frame: object) -> None:
        raise TooSlowError(f"longer than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    run(main)
