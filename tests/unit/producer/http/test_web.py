"""What the HTTP server refuses before it reads anything, and what its metrics say, without a server."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
from starlette.types import ASGIApp, Message

from contract.errors import (
    DeadlineMissed,
    McqueueError,
    NoWorker,
    RunConfigError,
    TooBusy,
    UnknownRun,
    WorkerStays,
)
from contract.fleet import WorkerRecord
from contract.ledger import MemoryLedger, Run
from contract.settings import Settings
from contract.spec import Sampling
from producer.broker import MemoryBroker
from producer.http.bodies import GenerateOptions
from producer.http.web import make_app
from producer.runs.runconfig import RunConfig
from tests.support import PATIENCE_S
from tests.unit.producer.conftest import live_worker

KEY = "s3cret"
SHOWN = {"x-api-key": KEY}
QUESTION = b'{"question": "q", "choices": ["a", "b"]}'


class Answer(NamedTuple):
    status: int
    body: bytes
    #: How often the application asked for more of the request.
    reads: int


async def call(
    app: ASGIApp,
    path: str,
    chunks: Sequence[bytes] = (),
    headers: dict[str, str] | None = None,
    *,
    gone: bool = False,
    slow: bool = False,
) -> Answer:
    """Send a request; after the chunks, the client has sent all, or is `gone`, or `slow`: nothing follows."""
    sent: list[Message] = []
    left = [{"type": "http.request", "body": each, "more_body": True} for each in chunks or [b""]]
    left[-1]["more_body"] = gone or slow
    reads = 0

    async def receive() -> Message:
        nonlocal reads
        reads += 1
        if slow and not left:
            await asyncio.Event().wait()
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    shown = {"content-type": "application/json", **(headers or {})}
    scope = {
        "type": "http",
        "method": "POST" if chunks else "GET",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in shown.items()],
    }
    await app(scope, receive, send)
    return Answer(sent[0]["status"], b"".join(each.get("body", b"") for each in sent), reads)


def answered(app: ASGIApp, path: str, *chunks: bytes, headers: dict[str, str] | None = None) -> Answer:
    return asyncio.run(call(app, path, chunks, headers))


def counted(app: ASGIApp) -> set[tuple[str, str]]:
    """Path and status of the requests in the metrics."""
    text = answered(app, "/metrics", headers=SHOWN).body.decode()
    return set(re.findall(r'request_seconds_count{path="(.*)",status="(.*)"}', text))


def broken_fleet() -> list[WorkerRecord]:
    raise RuntimeError("nobody expects this")


@pytest.fixture
def app(ledger: MemoryLedger, broker: MemoryBroker) -> ASGIApp:
    http = {"api_key": KEY, "max_body_bytes": 1000}
    return make_app(Settings.model_validate({"http": http}), ledger, broker, RunConfig(model="m"), broken_fleet, [])


@pytest.mark.parametrize("body", [b'{"a":', b"{}", b"x" * 2000, QUESTION])
@pytest.mark.parametrize("key", [{}, {"x-api-key": "wrong"}, {"authorization": "Basic s3cret"}])
def test_without_the_key_no_body_is_read_whatever_is_in_it(app: ASGIApp, body: bytes, key: dict[str, str]) -> None:
    """A broken body was answered with the parser's details, and one of 15 MB was parsed first."""
    found = answered(app, "/score", body, headers=key)

    required = "An API key is required, as bearer token or in X-API-Key."
    why = "The API key is wrong." if "x-api-key" in key else required
    assert (found.status, json.loads(found.body), found.reads) == (401, {"detail": why}, 0)
    assert counted(app) == {("/score", "401")}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/score", {"question": "q", "choises": ["a", "b"]}, "Extra inputs are not permitted. Did you mean 'choices'?"),
        ("/score/batch", {"questions": [{"choises": []}]}, "Extra inputs are not permitted. Did you mean 'choices'?"),
        ("/generate", {"prompt": "p", "top_l": 1}, "Extra inputs are not permitted. Did you mean 'top_p'?"),
        ("/generate", {"prompt": "p", "colour": 1}, "Extra inputs are not permitted"),
    ],
)
def test_a_field_that_an_endpoint_does_not_take_is_told_with_the_closest_that_it_takes(
    app: ASGIApp, path: str, body: dict[str, object], told: str
) -> None:
    found = answered(app, path, json.dumps(body).encode(), headers=SHOWN | {"content-type": "application/json"})

    assert found.status == 422
    assert told in [each["msg"] for each in json.loads(found.body)["detail"]]


@pytest.mark.parametrize("key", [SHOWN, {"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}])
def test_the_key_is_a_bearer_token_or_a_header_of_its_own(app: ASGIApp, key: dict[str, str]) -> None:
    assert answered(app, "/runs", headers=key).status == 200


def test_the_description_says_how_the_key_is_sent_and_needs_none_itself(app: ASGIApp) -> None:
    described = json.loads(answered(app, "/openapi.json").body)

    assert described["components"]["securitySchemes"].keys() == {"HTTPBearer", "APIKeyHeader"}
    assert described["paths"]["/score"]["post"]["security"]
    assert answered(app, "/nowhere").status == 401


def test_a_body_that_is_too_large_is_counted_as_such(app: ASGIApp) -> None:
    assert answered(app, "/score", b"x" * 600, b"x" * 600, headers=SHOWN).status == 413
    assert counted(app) == {("/score", "413")}


def test_a_client_that_leaves_while_it_sends_is_counted_as_gone(app: ASGIApp) -> None:
    asyncio.run(call(app, "/score", [QUESTION[:10]], SHOWN, gone=True))

    assert counted(app) == {("/score", "499")}


class Silent(MemoryLedger):
    """A ledger whose runs are not listed before they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def runs(self, among: Sequence[str] | None = None) -> list[Run]:
        assert self.answers.wait(PATIENCE_S)
        return super().runs(among)


def test_health_is_answered_however_many_wait_for_the_list_of_runs(broker: MemoryBroker) -> None:
    """All threads waited for Redis with them, and a probe was answered after twenty seconds."""
    silent = Silent()
    app = make_app(Settings(), silent, broker, RunConfig(model="m"), list, [])

    async def asked() -> Answer:
        lists = [asyncio.ensure_future(call(app, "/runs")) for _ in range(100)]
        try:
            return await asyncio.wait_for(call(app, "/health"), PATIENCE_S / 2)
        finally:
            silent.answers.set()
            assert {each.status for each in await asyncio.gather(*lists)} == {200}

    assert asyncio.run(asked()).status == 200


def test_an_error_that_nothing_expected_is_counted_too(app: ASGIApp) -> None:
    with pytest.raises(RuntimeError, match="nobody expects this"):
        answered(app, "/health")

    assert counted(app) == {("/health", "500")}


def test_a_request_that_the_server_cancels_as_it_stops_is_told_to_come_again(app: ASGIApp) -> None:
    """A client that was slow to send its body got a bare "Internal Server Error", and the log a traceback."""

    async def cancelled() -> Answer:
        calling = asyncio.ensure_future(call(app, "/score", [QUESTION[:10]], SHOWN, slow=True))
        await asyncio.sleep(0.05)
        calling.cancel()
        return await calling

    found = asyncio.run(cancelled())

    assert (found.status, "Send the request again." in json.loads(found.body)["detail"]) == (503, True)
    assert counted(app) == {("/score", "503")}


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (RunConfigError, 422),
        (TooBusy, 429),
        (UnknownRun, 503),
        (NoWorker, 503),
        (DeadlineMissed, 504),
        (WorkerStays, 500),
    ],
)
def test_an_expected_error_has_the_status_that_tells_a_client_what_to_do(
    ledger: MemoryLedger, broker: MemoryBroker, trouble: type[McqueueError], status: int
) -> None:
    def fails() -> list[WorkerRecord]:
        raise trouble("It went wrong.", hint="Do this.")

    found = answered(make_app(Settings(), ledger, broker, RunConfig(model="m"), fails, []), "/health")

    assert (found.status, json.loads(found.body)) == (status, {"detail": "It went wrong. Do this."})


def test_health_counts_the_workers_of_models_apart_from_those_that_search(
    ledger: MemoryLedger, broker: MemoryBroker
) -> None:
    live = [live_worker(queue) for queue in ("score.m", "score.m", "retrieve.facts")]
    told = []
    for workers in (live, live[2:]):
        app = make_app(Settings(), ledger, broker, RunConfig(model="m"), partial(list, workers), [])
        told.append(json.loads(answered(app, "/health").body))
    assert told[0] == {"status": "ok", "workers": {"m": 2}, "indexes": {"facts": 1}}
    assert told[1] == {"status": "no workers", "workers": {}, "indexes": {"facts": 1}}


def test_paths_that_do_not_exist_are_counted_as_one(app: ASGIApp) -> None:
    for path in ("/a", "/b"):
        assert answered(app, path, headers=SHOWN).status == 404
    assert counted(app) == {("none", "404")}


def test_brackets_deeper_than_python_reads_are_refused(app: ASGIApp) -> None:
    assert answered(app, "/generate", b"[" * 990, headers=SHOWN).status == 422


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/score/batch", {"questions": [{}] * 1000}, ["Field required"] * 2),
        ("/score/batch", {"questions": [{"question": "q", "choices": [1] * 1000}]}, ["Input should be a valid string"]),
        ("/generate/batch", {"prompts": [1] * 1000}, ["Input should be a valid string"]),
        ("/generate", {"prompt": "p", "stop": [1] * 1000}, ["Input should be a valid string"]),
        (
            "/generate",
            {"prompt": "p", "chat_template": "always", "chat_template_kwargs": {"a": ["\ud800"] * 1000}},
            ["Input should be a valid string, unable to parse raw data as a unicode string"] * 20,
        ),
        ("/generate", dict.fromkeys(map(str, range(1000)), 1), ["found 1,000 members in one object; it takes 16"]),
    ],
)
def test_of_what_is_wrong_a_thousand_times_in_one_body_little_is_told(
    ledger: MemoryLedger, broker: MemoryBroker, path: str, body: dict[str, Any], told: list[str]
) -> None:
    """A megabyte of it was answered with 67, while all other requests waited for ten seconds."""
    app = make_app(Settings(), ledger, broker, RunConfig(model="m"), list, [])
    found = answered(app, path, json.dumps(body).encode())
    assert (found.status, [each["msg"] for each in json.loads(found.body)["detail"]]) == (422, told)


def test_a_value_nested_deeper_than_workers_read_is_refused(app: ASGIApp) -> None:
    """Its request waited for its deadline, as no worker could read the run."""
    asked = {"prompt": "p", "chat_template_kwargs": {"a": json.loads("[" * 200 + "]" * 200)}}
    found = answered(app, "/generate", json.dumps(asked).encode(), headers=SHOWN)
    assert (found.status, "more than 100 brackets" in json.loads(found.body)["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (QUESTION[:-1] + b', "question": "r"}', "question: is there twice in one object. Keep one of the two."),
        (b'{"prompt": "p", "chat_template_kwargs": {"a": NaN}}', "NaN is not a JSON number."),
        (b'{"prompt": "p", "chat_template_kwargs": {"a": -Infinity}}', "-Infinity is not a JSON number."),
        (b'{"prompt": "p", "chat_template_kwargs": {"a": 1e999}}', "a is or contains NaN or an infinity"),
    ],
)
def test_a_body_is_read_as_strictly_as_a_question_file(app: ASGIApp, body: bytes, says: str) -> None:
    """Of a member that was there twice, the last one was taken."""
    found = answered(app, "/score" if b"choices" in body else "/generate", body, headers=SHOWN)

    assert (found.status, says in json.loads(found.body)["detail"]) == (422, True), found.body


def test_a_compressed_body_is_refused_as_one(app: ASGIApp) -> None:
    """It was told that UTF-8 has no byte 0x8b."""
    headers = {**SHOWN, "content-encoding": "gzip"}
    answer = answered(app, "/score", gzip.compress(QUESTION), headers=headers)
    said = {"detail": "Expected a body that is not compressed, found Content-Encoding: gzip."}
    assert (answer.status, json.loads(answer.body)) == (415, said)


def test_a_body_is_not_compressed_in_whatever_case_its_header_says_so(app: ASGIApp) -> None:
    answer = answered(app, "/score", QUESTION, headers={**SHOWN, "content-encoding": "Identity"})
    assert answer.status != 415, answer.body


def test_a_request_may_set_each_sampling_parameter_within_the_limits_of_a_run() -> None:
    offered = GenerateOptions.model_fields
    for name, parameter in Sampling.model_fields.items():
        if name not in {"samples", "stop"}:  # `vote` alone takes several texts; one is a list, the other a tuple
            assert (offered[name].default, offered[name].metadata) == (parameter.default, parameter.metadata), name
    base = RunConfig(model="small")
    asked = GenerateOptions(stop=["\n"], reasoning_effort="low", top_k=3).over(base)
    assert asked.sampling == Sampling(stop=("\n",), reasoning_effort="low", top_k=3)
