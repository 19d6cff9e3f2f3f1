"""`vllm serve` as a child process of the worker: started, awaited, and terminated with it.

The port is reserved without a race: a socket of ours that never listens keeps it bound, and vLLM's socket, also with
SO_REUSEADDR, may bind it as well and listen. The system never assigns a bound port to anyone asking for a free one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import psutil
from pydantic import SecretStr

from contract.address import before_port
from contract.errors import EngineError, EngineUnbootable
from contract.settings import OpenAiSettings, Settings
from workers.engines.adapters import adapter_arguments, adapter_folders
from workers.engines.arguments import as_flags, check_arguments_by_source, engine_environment, for_this_cpu
from workers.engines.boot_errors import Cause, failure_reports
from workers.engines.boot_log import booting
from workers.engines.packaged import resolve
from workers.engines.vllm_folder import vllm_folder
from workers.parent import follower

__all__ = ["LocalServer"]

log = logging.getLogger(__name__)

TAIL_LINES = 20
LOOK_EVERY_S = 0.2
#: Time in which vLLM must free its GPUs and end its core process before it is killed.
PATIENCE_S = 15.0


class LocalServer:
    """`vllm serve` with a deployment's model and engine arguments, private to this process."""

    def __init__(self, settings: Settings, gone: Callable[[str], object]) -> None:
        self._settings = settings
        self._gone = gone
        self._stopped = threading.Event()
        self._key = secrets.token_hex(16)  # others on this machine can reach the port
        self._port: socket.socket | None = None
        self._process: subprocess.Popen[str] | None = None
        #: What the server has started, once it is up: nobody knows them any more when it is killed.
        self._family: list[psutil.Process] = []
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._relay: threading.Thread | None = None
        self._until_stopped = contextlib.ExitStack()

    def start(self) -> OpenAiSettings:
        """Boot the server, from the main thread, and return the settings to reach it once it answers.

        Raises InputError for what the user must fix, and otherwise EngineError with the cause or, if that is unknown,
        the server's last lines of output.
        """
        self._until_stopped.enter_context(vllm_folder())
        with failure_reports() as first_failure:
            return self._start(first_failure)

    def _start(self, first_failure: Callable[[], Cause | None]) -> OpenAiSettings:
        settings = self._settings
        check_arguments_by_source(settings.vllm_args)
        model = resolve(settings.hf_model_id)
        self._port = _reserved_port(settings.local_host)
        port = self._port.getsockname()[1]
        process = self._process = subprocess.Popen(
            serve_command(settings, model, port),
            env=serve_environment(settings, model, self._key, os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=follower(),
        )
        self._relay = threading.Thread(target=self._relay_output, args=(process,), name="vllm-serve-log", daemon=True)
        self._relay.start()
        _reach_directly(settings.local_host)
        place = f"http://{before_port(settings.local_host)}:{port}"
        with booting(settings, model):
            self._await_health(f"{place}/health", first_failure)
        self._family = _children(process.pid)
        threading.Thread(target=self._report_death, args=(process,), name="vllm-serve-watch", daemon=True).start()
        return settings.openai.model_copy(
            update={
                "url": f"{place}/v1",
                "model": settings.served_model,
                "api_key": SecretStr(self._key),
            }
        )

    def last_words(self) -> str:
        """Return its exit status and last lines of output if it has died, else an empty string."""
        if self._process is None or self._process.poll() is None:
            return ""
        if self._relay is not None:
            self._relay.join(timeout=1)
        return "\n".join([f"It exited with status {self._process.returncode}; its last lines:", *self._tail])

    def stop(self) -> None:
        """Terminate the server and all its child processes."""
        self._stopped.set()
        if self._process is not None:
            _end(self._process, self._family)
        if self._relay is not None:
            self._relay.join(timeout=1)
        if self._port is not None:
            self._port.close()
        self._until_stopped.close()

    def _relay_output(self, process: subprocess.Popen[str]) -> None:
        """Copy its output to the worker's log, and keep the last lines for an error message."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._tail.append(f"    {line.rstrip()}")
                log.debug("vllm serve: %s", line.rstrip())

    def _report_death(self, process: subprocess.Popen[str]) -> None:
        """Report when the server exits unexpectedly, even while it is idle."""
        process.wait()
        if not self._stopped.is_set():
            self._gone(f"vLLM's server is gone. {self.last_words()}")

    def _await_health(self, url: str, first_failure: Callable[[], Cause | None]) -> None:
        timeout_s = self._settings.server_startup_timeout
        until = time.monotonic() + timeout_s
        while not _answers(url):
            if dead := self.last_words():
                if cause := first_failure():
                    kind = EngineUnbootable if cause.lasting else EngineError
                    raise kind(
                        f"vLLM's server did not boot: {cause.message}.", hint="See vllm_args in the deploy file."
                    )
                raise EngineError(f"vLLM's server did not boot; see vllm_args in the deploy file. {dead}")
            if time.monotonic() > until:
                self.stop()
                raise EngineError(
                    f"vLLM's server was not up after {timeout_s:g} s; raise server_startup_timeout if it needs longer. "
                    + self.last_words()
                )
            time.sleep(LOOK_EVERY_S)


def serve_command(settings: Settings, model: str, port: int) -> list[str]:
    """Return the command for `vllm serve` in this interpreter. It omits the key, as any user can read command lines."""
    address = ["--host", settings.local_host, "--port", str(port)]
    quiet = ["--disable-log-stats", "--disable-uvicorn-access-log", "--enable-prompt-tokens-details"]
    # The module behind `vllm serve`, which itself fails in vLLM's CPU build because that package has another name.
    serve = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    adapters = [f"{name}={folder}" for name, folder in adapter_folders(settings.adapters, model).items()]
    modules = ["--lora-modules", *adapters] if adapters else []
    # Otherwise sampling defaults would come from the model's folder, and texts would differ from those of engine vllm.
    given = {"generation_config": "vllm", **for_this_cpu(settings.vllm_args, model)}
    flags = as_flags({**given, **adapter_arguments(settings.adapters)})
    return [*serve, "--served-model-name", settings.served_model, *address, *quiet, *flags, *modules]


def serve_environment(settings: Settings, model: str, key: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the server's environment: `base` takes precedence over our defaults."""
    defaults = engine_environment(model, settings.vllm_args)
    if settings.gpus_per_worker == 1:
        # Used on a CPU. vLLM's default leaves one core idle, which is half of a small machine.
        defaults["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    return {**defaults, **base, "VLLM_API_KEY": key}


def _reach_directly(host: str) -> None:
    """Bypass any proxy set in the environment for requests to `host`, which is this machine."""
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    os.environ["no_proxy"] = ",".join([*filter(None, [spared]), host])


def _reserved_port(host: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((host, 0))
    except OSError as trouble:
        reserved.close()
        raise EngineError(f"local_host {host!r}: {trouble}.", hint="Name an address of this machine.") from None
    return reserved


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:  # as URLError is
        return False


def _children(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(pid).children(recursive=True)
    return found


def _end(server: subprocess.Popen[str], known: Sequence[psutil.Process]) -> None:
    """Stop the server, by force if necessary, and its core process, which ignores SIGTERM and survives the server."""
    family = {*known, *(_children(server.pid) if server.poll() is None else ())}  # another may have its id by now
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(PATIENCE_S)
    server.kill()
    for each in family:
        with contextlib.suppress(psutil.Error):
            each.kill()
    server.wait()
