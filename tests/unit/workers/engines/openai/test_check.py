"""`workers check` says what an OpenAI-compatible server can do, or why it cannot be used."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.unit.workers.engines.openai.server import Script, checked, serving, settings_for
from workers.engines import make_engine
from workers.host.finding import Finding

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize(
    ("script", "can"),
    [
        (Script(), "chat and plain completions: log-probabilities of any text"),
        (Script(echo=False, chat=False), "plain completions: log-probabilities of the 20 likeliest next tokens only"),
        (
            Script(echo=False, most_top=0, plain=False),
            "chat completions: no log-probabilities, so only modes that generate text can be used",
        ),
        (
            Script(thought="<think> </think>"),
            "chat completions: log-probabilities of the 20 likeliest next tokens only; "
            "plain completions (chat_template: never): log-probabilities of any text",
        ),
    ],
)
def test_check_asks_the_server_and_says_what_it_can(script: Script, can: str) -> None:
    with serving(script) as url:
        assert checked(url) == Finding("ok", "engine", f"grader of {url}/v1 answers: {can}")


def test_check_says_that_no_server_answers_or_that_it_does_not_serve_the_model() -> None:
    assert checked("http://127.0.0.1:1") == Finding(
        "error",
        "engine",
        "No server answers: http://127.0.0.1:1/v1: Connection error.",
        "Check openai.url; is the server running?",
    )
    with serving(Script(chat=False, plain=False)) as url:
        unknown = checked(url, model="grater")
    assert (unknown.level, unknown.remedy) == ("error", "Did you mean 'grader'?")
    assert unknown.found.startswith("The server answers no test request.")


@pytest.mark.parametrize(
    "listing", ["<html></html>", "[]", "", '{"data": ["grader"]}', '{"data": [{"name": "grader"}]}', '{"data": null}']
)
def test_a_server_whose_list_of_models_cannot_be_read_can_be_asked_all_the_same(listing: str) -> None:
    """It was a traceback."""
    with serving(Script(listing=listing)) as url:
        assert checked(url).level == "ok"


@pytest.mark.parametrize("body", [{"choices": [None]}, {"choices": [{"text": 5, "message": {"content": {}}}]}])
def test_a_server_that_answers_with_no_completions_is_told_with_what_it_says(body: dict[str, Any]) -> None:
    with serving(Script(bodies=[body] * 20)) as url:
        found = checked(url)
    assert found.level == "error"
    assert found.found.startswith(f"The server answers no test request. {url}/v1: an answer that cannot be read")


def test_check_says_that_the_key_is_wrong_also_where_the_list_of_models_needs_none() -> None:
    """As llama.cpp's server."""
    with serving(Script(refusals=[401] * 99)) as url:
        found = checked(url)
    assert found.level == "error"
    assert found.found.startswith("The server rejects the key.")
    assert "MCQUEUE_OPENAI__API_KEY" in found.remedy


def test_check_warns_of_a_name_that_the_server_answers_to_and_does_not_list() -> None:
    """As llama.cpp's server, which answers by its only model whatever the name."""
    with serving(Script()) as url:
        found = checked(url, model="qwen-72b")
    assert found.level == "warning"
    assert "it is not among the models that the server lists (grader)" in found.found


def test_check_and_a_boot_name_the_adapters_that_the_server_does_not_list(caplog: pytest.LogCaptureFixture) -> None:
    listing = {"object": "list", "data": [{"id": each, "object": "model"} for each in ("grader", "chem-lora")]}
    with serving(Script(listing=listing)) as url:
        assert checked(url, "adapters={chem: chem-lora}").level == "ok"
        adapters = "adapters={chem: chem-lora, physics: physics-lora, law: law-lora}"
        found = checked(url, adapters)
        engine = make_engine(settings_for(url, adapters))
        engine.start()
        engine.close()
    assert found.level == "warning"
    (warned,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    for said in (found.found, warned):
        assert said.endswith(
            "does not list law-lora, physics-lora, which `adapters` names: runs with such an adapter may fail"
        )
    with serving(Script(listing={"object": "list", "data": []})) as url:
        assert checked(url, adapters).level == "ok", "a server that lists nothing may have them"


@pytest.mark.parametrize(
    ("no_proxy", "way"),
    [
        ("localhost", " (through the environment's proxy 127.0.0.1:9, unless NO_PROXY lists this server)"),
        ("localhost,127.0.0.1", ""),
    ],
)
def test_check_names_the_proxy_through_which_no_server_answers(
    no_proxy: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"http_proxy": "http://me:s3cret@127.0.0.1:9", "no_proxy": no_proxy}.items():
        monkeypatch.setenv(name, value)
    assert checked("http://127.0.0.1:1").found == f"No server answers: http://127.0.0.1:1/v1{way}: Connection error."


def test_check_names_the_proxy_that_may_have_refused_instead_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Script(away=[403])) as proxy:
        monkeypatch.setenv("all_proxy", proxy)
        found = checked("http://grader.example:1").found
    assert f"http://grader.example:1/v1 (through the environment's proxy {proxy.removeprefix('http://')}, " in found


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://127.0.0.1:9"])
def test_check_says_that_a_proxy_is_of_a_kind_that_cannot_be_used(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it were not installed
    monkeypatch.setenv("all_proxy", proxy)
    found = checked("http://127.0.0.1:1")
    assert found.found.startswith("The environment names a proxy that cannot be used: ")
    assert found.remedy == "Name an HTTP proxy, or unset HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, in capitals or not."


class Redirecting(BaseHTTPRequestHandler):
    """Sends every request on to `/there`, with a status by which a client makes a GET of a POST."""

    def do_GET(self) -> None:
        content = b'{"object": "list", "data": [{"id": "grader", "object": "model"}]}'
        is_there = self.path.startswith("/there/")
        self.send_response(301 if not is_there else 200 if self.path.endswith("/models") else 405)
        if not is_there:
            self.send_header("Location", f"/there{self.path}")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class names it so


def test_check_names_the_address_that_a_server_redirects_to() -> None:
    """It said "Method Not Allowed", and asked whether the model's right name was meant."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        found = checked(url)
        server.shutdown()
        thread.join()
    assert f"after a redirect to {url}/there/v1/chat/completions: name that server itself" in found.found
    assert found.remedy == "Check openai.url, openai.model and the key, MCQUEUE_OPENAI__API_KEY."


def test_check_says_in_one_line_what_a_server_says_in_several() -> None:
    with serving(Script(cut_off=["<html>\n<body>\nSign in\n</body>\n</html>"] * 99)) as url:
        assert "\n" not in checked(url).found
