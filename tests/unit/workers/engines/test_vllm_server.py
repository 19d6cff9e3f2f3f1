"""A server as the worker's child: what is asked of any program behind it, with programs that boot at once.

That the program is vLLM's is shown in tests/acceptance.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.waiting import lives
from contract import Settings, load_settings
from contract.errors import EngineError
from tests.support import process, wait_until
from workers.engines import vllm_server
from workers.engines.arguments import as_flags
from workers.engines.vllm_server import LocalServer, serve_command, serve_environment

#: In the command of all cores of this process' servers.
CORE = f"core-of-{os.getpid()}"
#: Answers /health once it listens, and has a child that ignores SIGTERM, as vLLM's core does. If the tests are killed,
#: and cannot kill it, it ends after ten minutes.
SERVER = f"""
import subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
core = "import signal; signal.signal(15, 1); signal.alarm(600); signal.pause()"
subprocess.Popen([sys.executable, "-c", core, "{CORE}"])
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def settings() -> Settings:
    return load_settings(None, ["engine=openai", "boot_local=true", "server_startup_timeout=120", "model=small"])


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_server, "resolve", lambda name: name)


@pytest.fixture(autouse=True)
def _no_core_stays() -> Iterator[None]:
    """End those whose server was killed, or whose test failed."""
    yield
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if CORE in each.cmdline():
                each.kill()


def runs(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(vllm_server, "serve_command", lambda _s, _m, port: [sys.executable, "-c", program, str(port)])


def offspring() -> set[psutil.Process]:
    """Our children and theirs; other tests of the same process may have started some that live on."""
    return set(psutil.Process().children(recursive=True))


def test_the_sockets_that_it_leaves_are_removed_when_it_has_stopped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    kept = f"import os; open({str(tmp_path / 'where')!r}, 'w').write(os.environ['VLLM_RPC_BASE_PATH'])"
    runs(monkeypatch, f"{kept}; open(os.environ['VLLM_RPC_BASE_PATH'] + '/left', 'w')\n{SERVER}")
    server = LocalServer(settings, print)
    server.start()
    folder = Path((tmp_path / "where").read_text())
    assert (folder / "left").exists()
    server.stop()
    assert not folder.exists()


def test_it_is_up_once_it_answers_and_ends_with_all_that_it_started(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, SERVER)
    server, before = LocalServer(settings, print), offspring()
    found = server.start()
    assert (found.model, found.base_url.startswith("http://127.0.0.1:")) == ("small", True)
    assert found.api_key.get_secret_value()
    family = offspring() - before
    assert len(family) >= 2
    server.stop()
    wait_until(lambda: not any(map(lives, family)), "the server and its core to end")


def test_it_is_asked_itself_where_a_site_has_a_proxy(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"http_proxy": "http://127.0.0.1:9", "no_proxy": "localhost"}.items():
        monkeypatch.setenv(name, value)
    runs(monkeypatch, SERVER)
    server = LocalServer(settings, print)
    server.start()  # which waits until it answers
    server.stop()
    assert os.environ["no_proxy"] == "localhost,127.0.0.1"


def test_what_it_died_of_is_told_with_its_last_lines(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "print('one'); print('no room on the card'); raise SystemExit(3)")
    server = LocalServer(settings, print)
    with pytest.raises(EngineError, match=r"(?s)did not boot.*exited with status 3.*no room on the card"):
        server.start()
    server.stop()


def test_one_that_never_answers_is_ended_after_server_startup_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    # A Python may need more than that second until it says anything.
    monkeypatch.setattr(vllm_server, "serve_command", lambda *_: ["sh", "-c", "echo still loading; exec sleep 600"])
    server = LocalServer(load_settings(None, ["engine=openai", "boot_local=true", "server_startup_timeout=1"]), print)
    before = offspring()
    with pytest.raises(EngineError, match=r"(?s)not up after 1 s; raise server_startup_timeout.*still loading"):
        server.start()
    assert offspring() <= before


def test_that_it_ended_is_told_though_nobody_asks_it_unless_it_was_ended_by_us(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, SERVER)
    told: list[str] = []
    killed, stopped = LocalServer(settings, told.append), LocalServer(settings, told.append)
    before = offspring()
    stopped.start()
    stopped.stop()
    killed.start()
    family = offspring() - before
    (server,) = [each for each in family if each.ppid() == os.getpid()]
    server.kill()
    wait_until(lambda: bool(told), "its end to be told")
    killed.stop()
    wait_until(lambda: not any(map(lives, family)), "its core to end")
    assert len(told) == 1
    assert told[0].startswith("vLLM's server is gone. It exited with status -9")


def test_who_gets_the_process_id_of_a_server_that_ended_keeps_its_children(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "raise SystemExit(3)")
    server = LocalServer(settings, print)
    with pytest.raises(EngineError):
        server.start()
    with process("-c", "import subprocess; subprocess.run(['sleep', '600'])") as other:
        wait_until(lambda: bool(psutil.Process(other.pid).children()), "its child")
        (child,) = psutil.Process(other.pid).children()
        assert server._process is not None
        server._process.pid = other.pid
        server.stop()
        assert lives(child)


def test_its_port_is_given_to_nobody_else_before_it_is_used() -> None:
    reserved = vllm_server._reserved_port("127.0.0.1")
    port = reserved.getsockname()[1]
    with reserved, socket.socket() as other, socket.socket() as server:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as vLLM does
        server.bind(("127.0.0.1", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            pass


def test_it_ends_with_a_killed_worker_which_has_not_imported_vllm_itself(tmp_path: Path) -> None:
    code = (
        "import signal, sys\nfrom contract import load_settings\nfrom workers.engines import vllm_server\n"
        "vllm_server.resolve = lambda name: name\n"
        f"vllm_server.serve_command = lambda _s, _m, port: [sys.executable, '-c', {SERVER!r}, str(port)]\n"
        "vllm_server.LocalServer(load_settings(None, ['engine=openai', 'boot_local=true']), print).start()\n"
        "print('up', *{'vllm', 'torch'} & set(sys.modules), flush=True)\nsignal.pause()\n"
    )
    log = tmp_path / "log"
    with process("-c", code, log=log) as worker:
        wait_until(lambda: "up" in log.read_text(), "the server")
        assert log.read_text() == "up\n", "what the server imports, the worker need not"
        (server,) = psutil.Process(worker.pid).children()
        os.kill(worker.pid, signal.SIGKILL)
        wait_until(lambda: not lives(server), "the server to end")


def test_the_command_carries_every_engine_argument_and_no_key() -> None:
    settings = load_settings(
        None,
        [
            "engine=openai",
            "boot_local=true",
            "model=small",
            "vllm_args={max_model_len: 1024, enforce_eager: true, enable_prefix_caching: false, dtype: bfloat16, "
            "speculative_config: {method: ngram, num_speculative_tokens: 2}}",
        ],
    )
    words = serve_command(settings, "/models/x", 1234)
    text = " ".join(words)
    assert "--model /models/x --served-model-name small --host 127.0.0.1 --port 1234" in text
    assert "--generation-config vllm" in text, "how to sample is the run's to say, not the model's folder"
    assert "--max-model-len 1024 --enforce-eager --no-enable-prefix-caching --dtype bfloat16" in text
    assert words[words.index("--speculative-config") + 1] == '{"method": "ngram", "num_speculative_tokens": 2}'
    environment = serve_environment(settings, "/models/x", "s3cret", {"VLLM_LOGGING_LEVEL": "INFO"})
    assert "s3cret" not in text
    assert (environment["VLLM_API_KEY"], environment["VLLM_LOGGING_LEVEL"]) == ("s3cret", "INFO")


def test_lists_are_several_words_and_none_is_no_word() -> None:
    assert list(as_flags({"lora_modules": ["a=/x", "b=/y"], "quantization": None})) == [
        "--lora-modules",
        "a=/x",
        "b=/y",
    ]


def test_a_local_host_that_is_not_ours_is_named() -> None:
    with pytest.raises(EngineError, match=r"local_host '203\.0\.113\.1'"):
        vllm_server._reserved_port("203.0.113.1")
