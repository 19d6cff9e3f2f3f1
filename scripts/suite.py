"""The whole suite in two processes, side by side: acceptance tests, and the others.

    python -m scripts.suite [WHAT PYTEST TAKES]

Both wait most of their time for workers to boot and to end, so that one alone leaves a core idle. They share nothing:
each has a Redis of its own. What acceptance tests say comes when the others are through. Where files or folders are
named, those are run as pytest runs them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["BESIDE", "OTHERS", "ending"]

BESIDE = ("tests/acceptance",)
OTHERS = ("tests/unit", "tests/integration", "tests/gpu")
#: pytest's exit code where nothing was collected: with `-k`, of one half.
NOTHING = 5
INTERRUPTED = 130


def main() -> int:
    words = sys.argv[1:]
    if any(Path(word.partition("::")[0]).exists() for word in words):
        return subprocess.run(_pytest(words), check=False).returncode
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen(
            _pytest([*BESIDE, *words, "-o", "cache_dir=.pytest_cache/acceptance"]), stdout=said, stderr=said
        )
        try:
            others = subprocess.run(_pytest([*OTHERS, *words]), check=False).returncode
            print("\nacceptance", flush=True)
            beside.wait()
        except KeyboardInterrupt:
            beside.wait()
            return INTERRUPTED
        finally:
            said.seek(0)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    return ending(others, beside.returncode)


def ending(*codes: int) -> int:
    """The exit code of both together: a half in which nothing was to be done is none that failed."""
    done = [code for code in codes if code != NOTHING]
    return next((code for code in done if code), 0) if done else NOTHING


def _pytest(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *words]


if __name__ == "__main__":
    sys.exit(main())
