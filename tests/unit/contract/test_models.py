"""Whether a model hub is there, asked of one on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support import ROOT


class Hub(ThreadingHTTPServer):
    """A hub that gives one answer, whatever it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.status, self.code = 200, ""
        self.asked: list[str] = []

    def required(self, home: Path, *revision: str) -> str:
        """What is said where the tokenizer of `owner/name` is required, with the hub's cache in `home`."""
        wanted = ("owner/name", "tokenizer.json", *revision)
        code = f"from contract.models import require_hub; require_hub(*{wanted})"
        endpoint = f"http://127.0.0.1:{self.server_port}"
        own = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")} | own
        fresh = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        return (fresh.stderr.splitlines() or [""])[-1]


class Asked(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        if self.server.code:
            self.send_header("X-Error-Code", self.server.code)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the test looks at `asked`."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_a_hub_that_is_not_there_is_asked_once_and_told_in_one_sentence(hub: Hub, tmp_path: Path) -> None:
    hub.status = 503
    said = hub.required(tmp_path)

    assert hub.asked == ["/owner/name/resolve/main/tokenizer.json"]
    assert (
        "HubUnreachable: 'owner/name' is not a local folder, and not available from the hub (HfHubHTTPError: " in said
    )
    assert "503" in said


def test_a_model_that_the_hub_does_not_know_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.status, hub.code = 404, "RepoNotFound"
    assert "(RepositoryNotFoundError: " in hub.required(tmp_path)


def test_a_revision_that_the_hub_does_not_know_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.status, hub.code = 404, "RevisionNotFound"
    said = hub.required(tmp_path, "step1000")
    assert "ModelNotFound: " in said
    assert "(RevisionNotFoundError: " in said
    assert hub.asked == ["/owner/name/resolve/step1000/tokenizer.json"]


def test_a_file_that_the_hubs_model_lacks_is_left_to_whoever_loads_the_model(hub: Hub, tmp_path: Path) -> None:
    hub.status, hub.code = 404, "EntryNotFound"
    assert hub.required(tmp_path) == ""
    assert len(hub.asked) == 1


def test_what_was_loaded_before_needs_no_hub(hub: Hub, tmp_path: Path) -> None:
    model, commit = tmp_path / "hub" / "models--owner--name", "0" * 40
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "snapshots" / commit / "tokenizer.json").write_text("{}")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    hub.status = 503

    assert (hub.required(tmp_path), hub.asked) == ("", [])
