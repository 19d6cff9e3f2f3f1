"""Install the programs that no Python package provides, for the tests of pages, Prometheus rules and several hosts.

    python scripts/tools.py

Chromium, Prometheus and `ip` are installed from Debian's packages, if this is Debian and we may install. Otherwise they
stay missing, which is reported; the tests that need them are skipped with that reason, or fail in CI.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

#: Program → Debian package.
PACKAGES = {"chromium": "chromium", "promtool": "prometheus", "ip": "iproute2"}
if platform.machine() != "x86_64":
    PACKAGES["shellcheck"] = "shellcheck"  # its Python package exists only for x86-64


def main() -> int:
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if not missing:
        return 0
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"Missing, and cannot be installed here: {', '.join(missing)}; tests that need them will say so.")
        return 0
    print(f"Installing {', '.join(missing)} from Debian", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        try:
            subprocess.run(
                ["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL, timeout=600, check=True
            )
        except subprocess.SubprocessError as failure:  # also of a network that is too slow
            print(f"{failure}; tests that need {', '.join(missing)} will say so.")
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
