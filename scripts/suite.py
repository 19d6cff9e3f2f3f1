"""The whole suite in three processes, side by side, of about the same length.

    python -m scripts.suite [WHAT PYTEST TAKES]

They wait much of their time for workers to boot and to end, so that one alone leaves a core idle. They share nothing:
each has a Redis of its own. Where several vLLMs are up together they take 12 GB of memory. Integration tests are seen
as they go; what the others say comes when those are through. Where files or folders are named, those are run as pytest
runs them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

__all__ = ["PARTS", "ending"]

#: Half of the acceptance tests' time, with engines of its own, goes where the unit tests are soon through.
ENGINES = "tests/acceptance/test_engines.py"
#: What pytest is told of each. The first is seen as it goes.
PARTS = (
    ("tests/integration",),
    ("tests/unit", "tests/gpu", ENGINES),
    ("tests/acceptance", f"--ignore={ENGINES}"),
)
#: pytest's exit code where nothing was collected: with `-k`, of one part.
NOTHING = 5
INTERRUPTED = 130


def main() -> int:
    words = sys.argv[1:]
    if any(Path(word.partition("::")[0]).exists() for word in words):
        return subprocess.run(_pytest(words), check=False).returncode
    with ExitStack() as files:
        said: list[IO[bytes] | None] = [None, *(files.enter_context(tempfile.TemporaryFile()) for _ in PARTS[1:])]
        running = [_start(part, words, output) for part, output in zip(PARTS, said, strict=True)]
        codes = [_told(each, part, output) for each, part, output in zip(running, PARTS, said, strict=True)]
    return ending(*codes)


def ending(*codes: int) -> int:
    """The exit code of all together: a part in which nothing was to be done is none that failed."""
    done = [code for code in codes if code != NOTHING]
    return next((code for code in done if code), 0) if done else NOTHING


def _start(part: Sequence[str], words: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """pytest over `part`, with a cache of its own."""
    own_cache = ("-o", f"cache_dir=.pytest_cache/{Path(part[0]).name}")
    return subprocess.Popen(_pytest([*part, *words, *own_cache]), stdout=output, stderr=output)


def _told(running: subprocess.Popen[bytes], part: Sequence[str], output: IO[bytes] | None) -> int:
    """Its exit code, once it has ended and what it said is shown."""
    try:
        code = running.wait()
    except KeyboardInterrupt:  # which pytest hears as well
        running.wait()
        code = INTERRUPTED
    if output is not None:
        print(f"\n{' '.join(part)}", flush=True)
        output.seek(0)
        sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return code


def _pytest(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *words]


if __name__ == "__main__":
    sys.exit(main())
