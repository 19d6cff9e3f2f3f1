"""`make audit`, asked of a server that answers as OSV does, and of none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from scripts.audit import pinned
from tests.support import ROOT


class Osv(BaseHTTPRequestHandler):
    """Knows something of the package `bad`."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        known = [{"vulns": [{"id": "GHSA-x"}]} if each["package"]["name"] == "bad" else {} for each in asked]
        body = json.dumps({"results": known}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@contextmanager
def osv() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def audit(url: str, *paths: Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/audit.py"), *map(str, paths)]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "OSV_URL": url}, capture_output=True, text=True, check=False
    )


def test_every_pinned_package_is_asked_about_and_what_is_known_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pinned.txt"
    path.write_text("# why\ngood==1.0\nBad[extra]==2.0+cpu ; python_version > '3'\nbad==3.0,!=3.0+cpu\n--no-deps\n")
    with osv() as url:
        found = audit(url, path)
        ours = audit(url)
    assert found.returncode == 1
    assert "bad 2.0: GHSA-x" in found.stdout
    assert "bad 3.0: GHSA-x" in found.stdout
    assert "3 packages audited, 2 with known vulnerabilities" in found.stdout
    assert ours.returncode == 0
    assert int(ours.stdout.split()[0]) > 100


def test_our_pins_are_audited_from_any_folder(tmp_path: Path) -> None:
    with osv() as url:
        assert audit(url, folder=tmp_path).stdout == audit(url).stdout


def test_no_line_of_the_requirements_is_left_out() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = [each for each in path.read_text().splitlines() if each and not each.startswith("#")]
        assert len(pinned([path])) == len(lines), path


def test_without_a_network_nothing_is_claimed() -> None:
    found = audit("http://127.0.0.1:1")
    assert (found.returncode, found.stdout) == (2, "")
    assert "not audited" in found.stderr
    assert "An audit needs a network" in found.stderr
    assert "Traceback" not in found.stderr
