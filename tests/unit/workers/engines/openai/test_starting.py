"""A server that is away or busy when a worker starts is waited for, aloud."""

from __future__ import annotations

from typing import Any

import pytest

from contract.errors import EngineError
from tests.support import PATIENCE_S
from tests.unit.workers.engines.openai.server import WRITE, Script, serving, settings_for, started
from workers.engines import make_engine

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_a_server_that_never_comes_is_named() -> None:
    engine = make_engine(settings_for("http://127.0.0.1:1"))
    with pytest.raises(EngineError, match=r"No server answers: http://127.0.0.1:1/v1"):
        engine.start()
    engine.close()


def test_a_server_that_is_away_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_longer(_: float) -> None:
        raise EngineError("waited enough")

    monkeypatch.setattr("workers.engines.openai.awaiting.time.sleep", no_longer)
    engine = make_engine(settings_for("http://127.0.0.1:1").model_copy(update={"server_startup_timeout": 600}))
    with pytest.raises(EngineError, match="waited enough"):
        engine.start()
    engine.close()
    assert engine.waits_for == "the server at http://127.0.0.1:1/v1"
    (said,) = caplog.messages
    expected = "waiting up to 600 s for the server at openai.url: No server answers: http://127.0.0.1:1/v1: "
    assert said.startswith(expected)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_behind_a_proxy_is_waited_for_until_the_proxy_reaches_it(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.engines.openai.awaiting.WAIT_S", 0.01)
    script = Script(away=[status] * 3)
    with serving(script) as url:
        engine = make_engine(settings_for(url).model_copy(update={"server_startup_timeout": PATIENCE_S}))
        engine.start()
        engine.close()
    assert not script.away


def test_a_proxy_that_never_reaches_its_server_is_named() -> None:
    with serving(Script(away=[503] * 1000)) as url:
        engine = make_engine(settings_for(url))
        with pytest.raises(EngineError, match=r"No server answers: .* 503"):
            engine.start()
        engine.close()


def test_a_server_that_cannot_list_its_models_is_used_all_the_same() -> None:
    with started(Script(away=[501])) as engine:
        assert engine.generate([WRITE])


def test_a_server_that_only_fails_at_its_start_is_tried_again_and_no_mistake_in_the_settings() -> None:
    with serving(Script(refusals=[503] * 1000)) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        with pytest.raises(EngineError, match="The server answers no test request"):
            engine.start()
        engine.close()


def test_a_server_that_is_busy_when_the_worker_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engines.openai.awaiting.WAIT_S", 0.01)
    with serving(Script(refusals=[429] * 100)) as url:
        engine = make_engine(settings_for(url, max_retries=0).model_copy(update={"server_startup_timeout": PATIENCE_S}))
        engine.start()
        assert engine.describe()["offers"]["chat_echo"]
        engine.close()


def test_a_server_that_answers_is_waited_for_no_more() -> None:
    with started(Script()) as engine:
        assert engine.waits_for == ""


class Probed(Script):
    """Behind a proxy that answers requests from number `first` on with `status`, or every other one of them."""

    first, last, step, status = 3, 20, 1, 503

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if len(self.asked) in range(self.first, self.last, self.step):
            return self.status, {"error": {"message": "upstream is not up"}}
        return super().answer(path, body)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_goes_away_while_it_is_probed_is_probed_anew_when_it_is_back(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it refused meanwhile counted as not offered, and failed the questions that needed it."""
    monkeypatch.setattr("workers.engines.openai.awaiting.WAIT_S", 0.01)
    script = Probed(context=50)
    script.status = status
    with serving(script) as url:
        engine = make_engine(settings_for(url, max_retries=0).model_copy(update={"server_startup_timeout": PATIENCE_S}))
        engine.start()
        offers = engine.describe()["offers"]
        engine.close()
    with started(Script(context=50)) as untroubled:
        assert offers == untroubled.describe()["offers"]


def test_a_proxy_that_limits_requests_hides_nothing_that_its_server_offers() -> None:
    """As nginx, which calls that 503: the small request that finds out whether anybody is served may be let through."""
    script = Probed(context=50)
    script.step, script.last = 3, 1000
    with serving(script) as url:
        engine = make_engine(settings_for(url, max_retries=0))
        engine.start()
        offers = engine.describe()["offers"]
        engine.close()
    with started(Script(context=50)) as untroubled:
        assert offers == untroubled.describe()["offers"]
