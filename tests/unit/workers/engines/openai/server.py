"""A server that speaks OpenAI's protocol for tests: one token per word, log-probabilities by hash, faults as told."""

from __future__ import annotations

import hashlib
import json
import re
import string
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from contract import Failure, Settings, Verdict, load_settings
from contract.spec import Chat, ChatTemplate, Sampling
from contract.turns import one_turn
from workers.check import check
from workers.engines import make_engine
from workers.engines.base import Completion, GenerateRequest, ScoreRequest
from workers.engines.openai.engine import OpenAiEngine
from workers.engines.openai.probing import PROMPT
from workers.host.finding import Finding
from workers.host.machine import Machine

__all__ = [
    "CHOICES",
    "LETTERS",
    "VOCABULARY",
    "WRITE",
    "Script",
    "checked",
    "error_of",
    "logprob",
    "serving",
    "settings_for",
    "started",
    "weigh",
]

CHOICES = ScoreRequest(one_turn("What is four?"), (" two and two", " A", " a prime number"))
LETTERS = ScoreRequest(one_turn("Which letter comes first?"), (" A", " B", " C", " D"))
WRITE = GenerateRequest(one_turn("Write."), Sampling(max_tokens=9), seed=5, chat=Chat(ChatTemplate.AUTO))
VOCABULARY = [f" {letter}" for letter in string.ascii_uppercase]


def error_of(found: Completion | Verdict) -> Failure:
    """What became of a request or question that must have failed."""
    assert found.error is not None
    return found.error


def words(text: str) -> list[str]:
    return re.findall(r" ?[^ ]+", text)


def logprob(before: list[str], token: str) -> float:
    digest = hashlib.blake2b("|".join(each.strip() for each in [*before, token]).encode(), digest_size=8).digest()
    return -10 * int.from_bytes(digest) / 2**64


def weigh(prompt: str, continuation: str) -> float:
    """Log-probability of the continuation, as this server's model has it."""
    before, total = words(prompt), 0.0
    for token in words(continuation):
        total += logprob(before, token)
        before = [*before, token]
    return total


@dataclass
class Script:
    """What the server offers, what it will refuse, and what it was asked."""

    text: str = "The answer is B."
    #: Whether that depends on the seed at a temperature above 1.
    samples: bool = True
    chat: bool = True
    plain: bool = True
    #: Next tokens that it lists; 0: it refuses to.
    most_top: int = 20
    echo: bool = True
    #: Tokens of its context, where it counts those of a prompt.
    context: int = 0
    #: Texts that it writes at a time, however many are asked for.
    most_texts: int = 8
    #: What its chat template writes before a last turn of the model.
    thought: str = ""
    #: For which variables of the template.
    thinks_if: Callable[[object], bool] = lambda _: True
    #: Statuses of the next answers.
    refusals: list[int] = field(default_factory=list)
    #: How long it asks to be left alone after these.
    retry_after_ms: int = 10
    #: Statuses of the answers to requests that contain a text.
    unwanted: dict[str, int] = field(default_factory=dict)
    #: Parameters that its model does not take → the code of the refusal, as OpenAI's reasoning models have it.
    unsupported: dict[str, str] = field(default_factory=dict)
    #: Whole bodies of the next answers, sent with status 200.
    bodies: list[dict[str, Any]] = field(default_factory=list)
    #: Contents of the next answers, sent as JSON with status 200.
    cut_off: list[str] = field(default_factory=list)
    #: Why the next texts end.
    endings: list[str | None] = field(default_factory=list)
    #: What it answers to who asks which models there are.
    listing: dict[str, Any] | str = field(
        default_factory=lambda: {"object": "list", "data": [{"id": "grader", "object": "model"}]}
    )
    #: Statuses of the next answers to who asks that.
    away: list[int] = field(default_factory=list)
    #: Whether it answers, whatever else it refuses, the small request that finds out whether it serves anybody.
    answers_small: bool = False
    #: Whether it closes connections without an answer.
    hangs_up: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: Who asks with this text waits until `released`.
    slow_text: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if refused := self._refused(body):
            return refused
        if self.bodies:
            return 200, self.bodies.pop(0)
        if path == "/tokenize" and self.context:
            asked = [body["prompt"]] if "prompt" in body else [each["content"] for each in body["messages"]]
            return 200, {"count": sum(len(words(text)) for text in asked), "max_model_len": self.context}
        if path not in self._paths():
            return 404, _refusal(f"no {path}")
        if (body.get("top_logprobs") or int(body.get("logprobs") or 0)) > self.most_top:
            return 400, _refusal(f"at most {self.most_top} logprobs")
        echoes = body.get("echo") or body.get("prompt_logprobs") is not None
        if echoes and not self.echo:
            return 400, _refusal("no echo here")
        in_chat = path == "/v1/chat/completions"
        said = [each["content"] for each in body["messages"]] if in_chat else [body["prompt"]]
        if body.get("continue_final_message") and self.thinks_if(body.get("chat_template_kwargs")):
            said.insert(-1, self.thought)
        tokens = self.tokens(said)
        own = [None] + [logprob(tokens[:i], each) for i, each in enumerate(tokens) if i]
        top = self.likeliest(tokens, in_chat=in_chat)[: self._listed(body)]
        text = f"{self.text} {body.get('seed')}" if self.samples and body.get("temperature", 0) > 1 else self.text
        choice: dict[str, Any] = {}
        if in_chat:
            rows = [{"token": token, "logprob": value} for token, value in top]
            choice |= {"message": {"content": text}, "logprobs": {"content": [{"top_logprobs": rows}]}}
        else:
            found = {"top_logprobs": [dict(top)], "tokens": [" next"], "token_logprobs": [-1.0]}
            if echoes:
                found |= {"tokens": [*tokens, " next"], "token_logprobs": [*own, -1.0]}
            choice |= {"text": text, "logprobs": found}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": min(3, body.get("max_tokens", 3))}
        rows_of_prompt = [
            None if each is None else {"7": {"logprob": each, "decoded_token": token}}
            for each, token in zip(own, tokens, strict=True)
        ]
        more = {"prompt_logprobs": rows_of_prompt} if in_chat and echoes else {}
        texts = range(min(body.get("n", 1), self.most_texts))
        choices = [choice | {"index": i, "finish_reason": self._ending()} for i in texts]
        return 200, {"choices": choices, "usage": usage, **more}

    def tokens(self, said: list[str]) -> list[str]:
        """What its tokenizer makes of the turns, or of the single text."""
        return [word for text in said for word in words(text)]

    def likeliest(self, tokens: list[str], *, in_chat: bool) -> list[tuple[str, float]]:
        """The next tokens as it writes them, with their log-probabilities, the likeliest first."""
        listed = sorted(VOCABULARY, key=lambda each: -logprob(tokens, each))
        return [(each.strip() if in_chat else each, logprob(tokens, each)) for each in listed]

    def _refused(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if self.refusals:
            return self.refusals.pop(0), _refusal("not now")
        if unwanted := [status for text, status in self.unwanted.items() if text in json.dumps(body)]:
            return unwanted[0], _refusal("not this")
        for name in self.unsupported.keys() & body.keys():
            return 400, {"error": {"message": f"not {name}", "param": name, "code": self.unsupported[name]}}
        return None

    def _ending(self) -> str | None:
        return self.endings.pop(0) if self.endings else "stop"

    def _paths(self) -> set[str]:
        return {path for path, there in (("/v1/chat/completions", self.chat), ("/v1/completions", self.plain)) if there}

    def _listed(self, body: dict[str, Any]) -> int:
        return int(body.get("top_logprobs") or body.get("logprobs") or 0)


def _refusal(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


class _Handler(BaseHTTPRequestHandler):
    script: Script

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script = self.script
        with script.lock:
            script.at_once += 1
            script.most_at_once = max(script.most_at_once, script.at_once)
            script.asked.append({"path": self.path, **body})
            script.keys.append(self.headers["Authorization"])
            follows = Script() if script.answers_small and PROMPT in json.dumps(body) else script
            status, answer = follows.answer(self.path, body)
        if script.slow_text and script.slow_text in json.dumps(body):
            script.released.wait()
        with script.lock:  # before it is sent: who has an answer may ask again at once
            script.at_once -= 1
        if script.hangs_up:
            return
        self._send(status, script.cut_off.pop(0) if script.cut_off else answer)

    def do_GET(self) -> None:
        if self.script.away:
            self._send(self.script.away.pop(0), _refusal("upstream is not up"))
            return
        self._send(200, self.script.listing)

    def _send(self, status: int, answer: dict[str, Any] | str) -> None:
        content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After-Ms", str(self.script.retry_after_ms))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the base class names it so


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the default, 5, connections that are made at the same moment are reset


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve `script` on a loopback port; yields the URL."""
    handler = type("Handler", (_Handler,), {"script": script})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        script.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield script.url
        finally:
            server.shutdown()
            thread.join()


def settings_for(url: str, *overrides: str, **more: object) -> Settings:
    """The settings of this server, with `more` of `openai` and other `overrides`."""
    of_server = [f"openai.{name}={value}" for name, value in {"url": url, "model": "grader", **more}.items()]
    return load_settings(None, ["engine=openai", "server_startup_timeout=0.1", *of_server, *overrides])


def checked(url: str, *overrides: str, **more: object) -> Finding:
    """What `workers check` says of the engine on this server."""
    settings = settings_for(url, *overrides, **more)
    return next(each for each in check([settings], Machine([], [0])) if each.what == "engine")


@contextmanager
def started(script: Script, **more: object) -> Iterator[OpenAiEngine]:
    """The engine on a server that follows `script`; what it asked at its start is forgotten."""
    with serving(script) as url:
        engine = make_engine(settings_for(url, **more))
        assert isinstance(engine, OpenAiEngine)
        engine.start()
        script.asked.clear()
        try:
            yield engine
        finally:
            engine.close()
