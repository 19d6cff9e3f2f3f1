"""Refuse a Python that the packages have no wheels for, before `setup.py` runs in it. Read by Python 3.6, too.

Red Hat Enterprise Linux 8 has that one, which would see a syntax error in `setup.py`, and nothing else.
"""

import shutil
import subprocess
import sys

#: vLLM and the pinned numpy have no wheels for other versions.
OLDEST, NEWEST = (3, 11), (3, 14)


def main() -> int:
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return 0
    print(wrong_python(), file=sys.stderr)
    return 1


def wrong_python() -> str:
    """Return what to do about this unsupported interpreter; name a supported one if there is any."""
    usable = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
    found = next(filter(_works, usable), None)
    remedy = f"Use this one: make PYTHON={found} …" if found else f"Install one, then: make PYTHON={usable[0]} …"
    return f"mcqueue needs Python {oldest} to {newest}; this is {sys.version.split()[0]}. {remedy}"


def _works(name: str) -> bool:
    """Whether that program is here and runs: pyenv has one of each name, most of which only say what is missing."""
    if shutil.which(name) is None:
        return False
    nowhere = subprocess.DEVNULL
    return subprocess.run([name, "-c", ""], check=False, stdout=nowhere, stderr=nowhere).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
