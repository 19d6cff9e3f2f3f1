"""Any OpenAI-compatible server as an engine: vLLM's own, llama.cpp, Ollama, a hosted one. Texts only, for judging.

The client is OpenAI's; it retries connection errors, 429 and 5xx with growing, jittered pauses. A request that still
fails fails alone: a judge that is away makes its questions `failed`, not wrong, and not the worker's end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from contract.settings import Settings
from contract.verdict import Failure
from workers.engines.base import Completion, Engine, GenerateRequest, Request, Text

__all__ = ["OpenAiEngine"]

MAX_RETRIES = 4


class OpenAiEngine(Engine):
    """`Engine` on the chat completions of a server."""

    def __init__(self, settings: Settings, server: str, model: str) -> None:
        super().__init__(settings)
        self._server = server.rstrip("/")
        self._model = model
        self._client: Any = None
        self._pool: ThreadPoolExecutor | None = None

    def start(self) -> None:
        from openai import OpenAI

        base_url = self._server if self._server.endswith("/v1") else f"{self._server}/v1"
        key = self.settings.judge_api_key.get_secret_value() or "none"  # the client insists on one
        self._client = OpenAI(
            base_url=base_url, api_key=key, timeout=self.settings.judge_timeout_s, max_retries=MAX_RETRIES
        )
        self._pool = ThreadPoolExecutor(self.settings.judge_concurrency, thread_name_prefix="judge")

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if self._pool is None:
            raise RuntimeError("the engine was not started")
        return list(self._pool.map(self._complete, requests))

    def describe(self) -> dict[str, Any]:
        return {"engine": "openai", "server": self._server, "model": self._model}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._client.close()

    def _complete(self, request: Request) -> Completion:
        from openai import OpenAIError

        if not isinstance(request, GenerateRequest):
            return Completion(error=Failure(type="RequestRejected", message="a server's model only writes"))
        try:
            answer = self._client.chat.completions.create(**self._arguments(request))
        except OpenAIError as trouble:
            return Completion(error=Failure(type=type(trouble).__name__, message=f"{self._server}: {trouble}"))
        usage = answer.usage
        texts = [Text(c.message.content or "", 0, truncated=c.finish_reason == "length") for c in answer.choices]
        return Completion(texts=tuple(texts), prompt_tokens=usage.prompt_tokens if usage else 0)

    def _arguments(self, request: GenerateRequest) -> dict[str, Any]:
        sampling = request.sampling
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": request.prompt}],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "n": sampling.samples,
            "seed": request.seed,
            "stop": list(sampling.stop) or None,
        }
        if request.json_schema:
            form = {"name": "answer", "schema": json.loads(request.json_schema), "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": form}
        return {name: value for name, value in arguments.items() if value is not None}
