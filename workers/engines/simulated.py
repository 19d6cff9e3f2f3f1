"""Simulated engine without a model, for tests and capacity planning. Never a default; `describe` names it.

Deterministic: the log-probability of a continuation is a hash of the prompt and the continuation. `settings.simulated`
sets how long calls take, and which texts in a prompt trigger faults.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from contract.errors import EngineDead, EngineError, EngineOutOfMemory, EngineUnbootable
from contract.turns import beginning
from contract.verdict import Failure
from workers.engines.base import Completion, Engine, GenerateRequest, Request, Text
from workers.parent import follower

__all__ = ["CORE", "SimulatedEngine"]

#: 2^64 divided by the golden ratio.
MIXER = 0x9E3779B97F4A7C15
#: Program of a simulated core process; its command line also identifies it.
CORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); simulated_core = True\nwhile True: signal.pause()"


class SimulatedEngine(Engine):
    """`Engine` that computes its answers by hashing and simulates time."""

    _running = False
    _core: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        time.sleep(self.settings.simulated.boot_s)
        if self.settings.simulated.unbootable:
            raise EngineUnbootable(self.settings.simulated.unbootable)
        if self.settings.simulated.core:
            command = [sys.executable, "-S", "-c", CORE]
            self._core = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=follower(signal.SIGKILL))
            threading.Thread(target=self._report_death, args=(self._core,), daemon=True).start()
        self._running = True

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if not self._running:
            raise EngineDead("The simulated engine is not running.")
        options = self.settings.simulated
        if options.kill_text or options.crash_text or options.bug_text or options.hang_text:
            for request in requests:
                self._fail_at(request.prompt)
        if options.room and len(requests) > options.room:
            raise EngineOutOfMemory(f"simulated: {len(requests)} requests, room for {options.room}")
        if took_ms := options.call_ms + options.request_ms * len(requests):
            time.sleep(took_ms / 1000)
        if self._core is not None and self._core.poll() is not None:
            raise EngineDead("The simulated engine's core is gone.")
        return [self._complete(request) for request in requests]

    def excess_tokens(self, requests: Sequence[Request]) -> list[int]:
        limit = int(self.settings.vllm_args.get("max_model_len", 2**31))
        answers = [each.sampling.max_tokens if isinstance(each, GenerateRequest) else 0 for each in requests]
        return [max(0, len(each.prompt.split()) + n - limit) for each, n in zip(requests, answers, strict=True)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(each.split()) for each in texts]

    def describe(self) -> dict[str, Any]:
        return {"engine": "simulated", **self.settings.simulated.model_dump(exclude_defaults=True)}

    def close(self) -> None:
        self._running = False
        if self._core is not None:
            self._core.kill()
            self._core.wait()

    def _report_death(self, core: subprocess.Popen[bytes]) -> None:
        core.wait()
        if self._running:
            self.gone("The simulated engine's core is gone.")

    def _fail_at(self, prompt: str) -> None:
        options = self.settings.simulated
        if options.kill_text and options.kill_text in prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        if options.crash_text and options.crash_text in prompt:
            raise EngineError("simulated fault")
        if options.bug_text and options.bug_text in prompt:
            raise ZeroDivisionError("simulated bug")
        if options.hang_text and options.hang_text in prompt:
            threading.Event().wait()

    def _complete(self, request: Request) -> Completion:
        reject, prompt = self.settings.simulated.reject_text, request.prompt
        if reject and reject in prompt:
            return Completion(error=Failure(type="RequestRejected", message="simulated rejection"))
        words = len(prompt.split())
        if isinstance(request, GenerateRequest):
            return Completion(texts=_texts(request), prompt_tokens=words, prefill_tokens=words)
        return Completion(
            logprobs=_logprobs(f"{request.adapter}{prompt}", request.continuations),
            token_counts=_word_counts(request.continuations),
            prompt_tokens=words,
            prefill_tokens=words,
        )


def _texts(request: GenerateRequest) -> tuple[Text, ...]:
    """Return texts `The answer is X.`, with X one of the first four labels, chosen by prompt, seed and sample."""
    space = " " if beginning(request.turns) else ""
    drawn = (
        hashlib.blake2b(f"{request.adapter}{request.prompt}{request.seed}{i}".encode()).digest()[0]
        for i in range(request.sampling.samples)
    )
    return tuple(Text(f"{space}The answer is {'ABCD'[byte % 4]}.", tokens=4) for byte in drawn)


def _logprobs(prompt: str, continuations: Sequence[str]) -> tuple[float, ...]:
    """Return numbers between -10 and 0, each a function of only the prompt and the continuation.

    The two hashes are mixed by multiplication (Fibonacci hashing), as this engine must cost almost no time itself.
    """
    asked = _hash(prompt)
    return tuple([-10 * ((asked ^ _known_hash(each)) * MIXER % 2**64) / 2**64 for each in continuations])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


#: Most continuations are labels, which recur in every question.
_known_hash = lru_cache(maxsize=1024)(_hash)


@lru_cache(maxsize=1024)
def _word_counts(texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple([len(each.split()) for each in texts])
