"""Registry of engines by name. The heavy module behind a name is imported only when that engine is requested."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pkgutil import resolve_name
from typing import cast

from contract.settings import OpenAiSettings, Settings
from contract.spec import Judge
from workers.engines.base import Engine

__all__ = ["ENGINES", "JudgeEngines", "make_engine"]

ENGINES = {
    "vllm": "workers.engines.vllm:VllmEngine",
    "openai": "workers.engines.openai.engine:OpenAiEngine",
    "simulated": "workers.engines.simulated:SimulatedEngine",
}


def make_engine(settings: Settings) -> Engine:
    """Return the engine named by `settings.engine`, not yet started. Raises SettingsError for several models."""
    settings.refuse_several_models()
    return cast("type[Engine]", resolve_name(ENGINES[settings.engine]))(settings)


class JudgeEngines:
    """Engines for judges on remote servers, one per server and model, created on first use. Thread-safe."""

    def __init__(self, settings: Settings, stopping: Callable[[], bool] = lambda: False) -> None:
        self._settings = settings
        self._stopping = stopping
        self._engines: dict[tuple[str, str], Engine] = {}
        self._lock = threading.Lock()

    def engine_of(self, judge: Judge) -> Engine:
        """Return the started engine for `judge`."""
        from workers.engines.openai.engine import OpenAiEngine

        with self._lock:
            key = (judge.server, judge.model)
            if key not in self._engines:
                engine = OpenAiEngine(self._settings, self._server_of(judge))
                engine.stopping = self._stopping
                engine.start()
                self._engines[key] = engine
            return self._engines[key]

    def waits_for(self, judge: Judge) -> str:
        """Return the judge and what it says while it serves nobody; empty if it serves, or was not asked yet."""
        engine = self._engines.get((judge.server, judge.model))
        return engine.waits_for if engine else ""

    def _server_of(self, judge: Judge) -> OpenAiSettings:
        return OpenAiSettings(
            url=judge.server,
            model=judge.model,
            api_key=self._settings.judge_api_key,
            concurrency=self._settings.judge_concurrency,
            timeout_s=self._settings.judge_timeout_s,
        )

    def close(self) -> None:
        """Close the connections to all servers."""
        with self._lock:
            for engine in self._engines.values():
                engine.close()
            self._engines.clear()
