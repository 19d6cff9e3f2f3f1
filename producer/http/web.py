"""The web application: its paths and metrics. `producer.http.door` does the work."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from contract.errors import InputError, McqueueError
from contract.fleet import WorkerRecord
from contract.keys import index_of, is_score_queue
from contract.ledger import Ledger
from contract.question import Question
from contract.settings import Settings
from producer.broker import Broker
from producer.export.cells import iso
from producer.http.admission import KEY_SCHEMES, BodyLimit, KeyCheck
from producer.http.bodies import (
    GenerateBatchIn,
    GenerateBatchOut,
    GenerateIn,
    GenerateOptions,
    GenerateOut,
    QuestionIn,
    ScoreBatchIn,
    ScoreBatchOut,
    ScoreIn,
    ScoreOptions,
    ScoreOut,
)
from producer.http.disconnects import while_connected
from producer.http.door import Door
from producer.http.refusals import explain, refuse
from producer.http.stopping import Stopping
from producer.http.strict_json import StrictRoute
from producer.http.timing import Timed
from producer.readers.record import FieldTrouble
from producer.runs.runconfig import RunConfig

__all__ = ["make_app"]


BUCKETS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
#: Maximum number of lists of runs that are made at a time. Each waits for Redis in a thread, and /health and /metrics
#: need some of these threads as well.
MOST_LISTING = 4


def make_app(
    settings: Settings,
    ledger: Ledger,
    broker: Broker,
    base: RunConfig,
    workers: Callable[[], Sequence[WorkerRecord]],
    metrics: Sequence[Collector],
) -> FastAPI:
    """Return the ASGI application; `base` has the defaults for what a request leaves out.

    `/health` reports `workers()`, which must not wait long; `/metrics` exposes `metrics` in addition to its own.
    """
    door = Door(settings, ledger, broker, base)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        async with door.open():
            yield

    app = FastAPI(title="mcqueue", lifespan=life, dependencies=[Depends(each) for each in KEY_SCHEMES])
    app.router.route_class = StrictRoute
    app.add_exception_handler(McqueueError, explain)
    app.add_exception_handler(RequestValidationError, refuse)
    _add_scoring(app, door, settings, base)
    _add_generating(app, door, settings, base)
    _add_monitoring(app, ledger, workers)
    requests = _add_metrics(app, door, metrics)
    # A request passes through these in the opposite order: the last one added sees it first.
    app.add_middleware(BodyLimit, max_bytes=settings.http.max_body_bytes)
    app.add_middleware(KeyCheck, key=settings.http.api_key.get_secret_value())
    app.add_middleware(Stopping)
    app.add_middleware(Timed, requests=requests, paths={each.path for each in app.routes if isinstance(each, Route)})
    return app


def _add_scoring(app: FastAPI, door: Door, settings: Settings, base: RunConfig) -> None:
    async def scored(request: Request, given: Sequence[QuestionIn], how: ScoreOptions) -> list[ScoreOut]:
        questions = _questions(given, settings.http.max_prompts)
        asked = door.ask(questions, how.over(base), _deadline_s(how.deadline_s, settings))
        verdicts, model, left_to_model = await while_connected(request, asked)
        return [ScoreOut.of(*each, model, left_to_model) for each in zip(questions, verdicts, strict=True)]

    @app.post("/score")
    async def score(body: ScoreIn, request: Request) -> ScoreOut:
        """Score one question; it shares a batch with other waiting questions."""
        return (await scored(request, [body], body))[0]

    @app.post("/score/batch")
    async def score_batch(body: ScoreBatchIn, request: Request) -> ScoreBatchOut:
        """Score several questions; the results are in order."""
        return ScoreBatchOut(results=await scored(request, body.questions, body))


def _add_generating(app: FastAPI, door: Door, settings: Settings, base: RunConfig) -> None:
    async def written(request: Request, prompts: Sequence[str], how: GenerateOptions) -> list[GenerateOut]:
        _refuse_too_many(len(prompts), settings.http.max_prompts, "prompts")
        questions = [Question(id=f"{i}", question=prompt, choices=()) for i, prompt in enumerate(prompts)]
        asked = door.ask(questions, how.over(base), _deadline_s(how.deadline_s, settings))
        verdicts, _, left_to_model = await while_connected(request, asked)
        return [
            GenerateOut(
                text=verdict.raw_text,
                truncated=verdict.truncated,
                completion_tokens=verdict.completion_tokens,
                error=verdict.error,
                batch_size=verdict.batch_size,
                left_to_model=left_to_model,
            )
            for verdict in verdicts
        ]

    @app.post("/generate")
    async def generate(body: GenerateIn, request: Request) -> GenerateOut:
        """Generate the model's continuation of one prompt."""
        return (await written(request, [body.prompt], body))[0]

    @app.post("/generate/batch")
    async def generate_batch(body: GenerateBatchIn, request: Request) -> GenerateBatchOut:
        """Generate the continuations of several prompts; the results are in order."""
        began = time.monotonic()
        results = await written(request, body.prompts, body)
        took_s = time.monotonic() - began
        return GenerateBatchOut(
            results=results,
            total_prompts=len(results),
            total_time_seconds=round(took_s, 6),
            avg_time_per_prompt=round(took_s / len(results), 6),
        )


def _add_monitoring(app: FastAPI, ledger: Ledger, workers: Callable[[], Sequence[WorkerRecord]]) -> None:
    listing = asyncio.Semaphore(MOST_LISTING)

    @app.get("/runs")
    async def runs() -> list[dict[str, Any]]:
        """List all runs, newest first; those of this server are listed while clients wait for them."""
        async with listing:
            return await run_in_threadpool(listed)

    def listed() -> list[dict[str, Any]]:
        return [
            {
                "run_id": run.run_id,
                "created_at": iso(run.created_at),
                "model": run.spec.model,
                "mode": run.spec.mode,
                "questions": run.questions,
                "settled": counts.settled,
                "state": counts.standing,
                "outcomes": counts.outcomes,
            }
            for run, counts in ledger.standings(ledger.lean_runs())
        ]

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Report the live workers by model, and those that search by index; 503 within seconds without Redis."""
        live = workers()
        by_model = Counter(each.model for each in live if is_score_queue(each.queue))
        by_index = Counter(index for each in live if (index := index_of(each.queue)))
        return {"status": "ok" if by_model else "no workers", "workers": by_model, "indexes": by_index}


def _add_metrics(app: FastAPI, door: Door, more: Sequence[Collector]) -> Histogram:
    registry = CollectorRegistry()
    for each in more:
        registry.register(each)
    waiting = Gauge("mcqueue_http_waiting_questions", "Questions that clients are waiting for.", registry=registry)
    waiting.set_function(lambda: door.waiting)
    requests = Histogram(
        "mcqueue_http_request_seconds",
        "Duration of a request.",
        ["path", "status"],
        buckets=BUCKETS_S,
        registry=registry,
    )

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Expose Prometheus metrics: the server's own, and those of queues, runs and workers from Redis."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return requests


def _questions(given: Sequence[QuestionIn], most: int) -> list[Question]:
    _refuse_too_many(len(given), most, "questions")
    places = [f"questions.{n}." if len(given) > 1 else "" for n in range(len(given))]
    questions: dict[str, Question] = {}
    asked_at: dict[str, str] = {}
    for each, place in zip(given, places, strict=True):
        question = _question(each, place)
        if each.id is None:
            question = _numbered(question, questions)
        elif question.id in questions:
            raise InputError(f"{place}id: {question.id!r} is the same as {asked_at[question.id]}id.")
        questions[question.id], asked_at[question.id] = question, place
    return list(questions.values())


def _numbered(question: Question, taken: Container[str]) -> Question:
    """Return the question with a free id: as in a file, the second question with the same content gets …-2."""
    ids = (question.id if number == 1 else f"{question.id}-{number}" for number in count(1))
    return question.model_copy(update={"id": next(each for each in ids if each not in taken)})


def _question(given: QuestionIn, place: str) -> Question:
    try:
        return given.to_question()
    except FieldTrouble as trouble:
        raise InputError(f"{place}{trouble.field}: {trouble.message}", hint=trouble.hint) from None


def _refuse_too_many(found: int, most: int, what: str) -> None:
    if found > most:
        raise InputError(f"{found} {what}; at most {most} are allowed in one request (http.max_prompts).")


def _deadline_s(asked: float | None, settings: Settings) -> float:
    longest_s = settings.http.max_deadline_s
    if asked is not None and asked > longest_s:
        raise InputError(f"deadline_s: found {asked:g}; at most {longest_s:g} is allowed (http.max_deadline_s).")
    return asked or min(settings.http.deadline_s, longest_s)
