"""Audit the pinned packages for known vulnerabilities in the OSV database (https://osv.dev), which pip-audit uses too.

    python scripts/audit.py [requirements/*.txt]

Exit codes: 0 none known, 1 some known, 2 the database did not answer. Runs before anything is installed; needs a
network.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
OSV = os.environ.get("OSV_URL", "https://api.osv.dev")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;+,]+)")


def pinned(paths: list[Path]) -> list[tuple[str, str]]:
    """Return name and version of every pinned package; a local version (2.13.0+cpu) counts as its base version."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return sorted({(found[1].lower(), found[2]) for line in lines if (found := PINNED.match(line))})


def vulnerable(packages: list[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the known vulnerabilities of each package. Raises OSError if OSV does not answer."""
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages]
    request = urllib.request.Request(
        f"{OSV}/v1/querybatch",
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        results = json.load(answer)["results"]
    known = zip(packages, results, strict=True)
    return {package: [each["id"] for each in found["vulns"]] for package, found in known if found.get("vulns")}


def main() -> int:
    """Query the database and report."""
    paths = [Path(each) for each in sys.argv[1:]] or sorted(REQUIREMENTS.glob("*.txt"))
    packages = pinned(paths)
    try:
        found = vulnerable(packages)
    except (OSError, ValueError, KeyError) as trouble:
        print(f"error: {len(packages)} packages were not audited: {OSV} does not answer ({trouble}).", file=sys.stderr)
        print("An audit needs a network. Nothing is known about these packages, good or bad.", file=sys.stderr)
        return 2
    for (name, version), ids in found.items():
        print(f"{name} {version}: {', '.join(ids)}  see https://osv.dev/list?ecosystem=PyPI&q={name}")
    print(f"{len(packages)} packages audited, {len(found)} with known vulnerabilities")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
