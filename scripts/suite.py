"""Runs the whole test suite in three parallel processes of about the same duration.

    python -m scripts.suite [PYTEST ARGUMENTS]

The tests wait much of their time for workers to boot and to end, so a single process would leave a core idle. The
processes share nothing: each has its own Redis. When several vLLMs run at once, they take 12 GB of memory. The output
of the integration tests is shown live; that of the others follows when those are finished. If files or folders are
given, pytest runs just these.
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

#: Half of the acceptance tests' time. It has its own engines, so it can follow the unit tests, which are fast.
ENGINES = "tests/acceptance/test_engines.py"
#: pytest's arguments for each part. The first part's output is shown live.
PARTS = (
    ("tests/integration",),
    ("tests/unit", "tests/gpu", ENGINES),
    ("tests/acceptance", f"--ignore={ENGINES}"),
)
#: pytest's exit code if nothing was collected, as may happen in a part with `-k`.
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
    """Return the combined exit code; a part with nothing to run has not failed."""
    done = [code for code in codes if code != NOTHING]
    return next((code for code in done if code), 0) if done else NOTHING


def _start(part: Sequence[str], words: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start pytest over `part`, with its own cache."""
    own_cache = ("-o", f"cache_dir=.pytest_cache/{Path(part[0]).name}")
    return subprocess.Popen(_pytest([*part, *words, *own_cache]), stdout=output, stderr=output)


def _told(running: subprocess.Popen[bytes], part: Sequence[str], output: IO[bytes] | None) -> int:
    """Wait for the process, show its output, and return its exit code."""
    try:
        code = running.wait()
    except KeyboardInterrupt:  # pytest receives it too
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
