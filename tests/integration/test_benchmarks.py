"""What the benchmarks stand on, with a real server and a real worker."""

from __future__ import annotations

import pytest

from benchmarks.stand import stand, wait_until_settled, worker
from contract.errors import EngineError
from tests.support import make_questions, open_run


def test_a_stand_never_meets_the_redis_of_the_one_who_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCQUEUE_REDIS_URL", "redis://127.0.0.1:1/0")
    with stand(engine="simulated", model="simulated") as at:
        assert at.ledger.client.ping()


def test_a_boot_may_take_as_long_as_the_deployment_says_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.stand.PYTHON_S", 0.0)
    with (
        stand(engine="simulated", model="simulated", server_startup_timeout=0.2) as at,
        pytest.raises(EngineError, match=r"Not ready after 0\.2 s"),
        worker(at),
    ):
        pass


def test_a_worker_that_ends_or_is_not_there_ends_the_wait_for_its_verdicts() -> None:
    with stand(engine="simulated", model="simulated") as at:
        run = open_run(at.ledger, make_questions(1))
        with pytest.raises(EngineError, match="No worker is running"):
            wait_until_settled(at, run.run_id, 1)
        with worker(at) as ours:
            ours.process.kill()
            with pytest.raises(EngineError, match="A worker ended"):
                wait_until_settled(at, run.run_id, 1)
