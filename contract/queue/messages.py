"""The messages: the wire format between producers and workers. One is a question batch, `(run id, [question ids])`."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract.explain import first_mistake
from contract.names import RunId
from contract.priority import Priority
from contract.settings import MOST_QUESTIONS

__all__ = [
    "MESSAGE_VERSION",
    "UNREADABLE",
    "QuestionBatch",
    "ReceivedBatch",
    "arguments_in",
    "published_at",
    "shown_arguments",
    "task_name",
]

#: Incremented when current workers could misread a new message.
MESSAGE_VERSION = 1
#: Errors that reading a malformed message may raise; connection errors are not among them.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class QuestionBatch(NamedTuple):
    """A question batch to be sent."""

    run_id: str
    question_ids: list[str]
    priority: Priority
    #: When the questions were first published; kept when a batch is sent on to the next stage.
    published_at: float


class ReceivedBatch(BaseModel):
    """A received question batch, validated: a queue may contain anything."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")  # a newer producer may send more

    run_id: RunId
    question_ids: list[str] = Field(min_length=1, max_length=MOST_QUESTIONS)
    published_at: float = Field(ge=0, allow_inf_nan=False)
    version: int = Field(ge=1)
    priority: Annotated[Priority, Field(strict=False)]

    @classmethod
    def read(cls, arguments: Any, named: Any, priority: Any) -> ReceivedBatch:
        """Parse a task's arguments and its message's priority. Raises ValueError that says what is wrong."""
        try:
            run_id, question_ids = arguments
            return cls.model_validate({**named, "run_id": run_id, "question_ids": question_ids, "priority": priority})
        except ValidationError as trouble:
            raise ValueError(": ".join(first_mistake(trouble))) from None
        except TypeError as trouble:
            raise ValueError(str(trouble)) from None


def task_name(queue: str) -> str:
    """Return the Celery task of the messages of `queue`: `mcqueue.score` or `mcqueue.retrieve`."""
    return f"mcqueue.{queue.partition('.')[0]}"


def shown_arguments(run_id: str, questions: int) -> str:
    """Return the arguments of a message as Flower shows them; `level.lua` parses run and number from this text."""
    return f"{run_id}: {questions} question{'' if questions == 1 else 's'}"


def arguments_in(item: str) -> tuple[str, list[str]]:
    """Return the run id and question ids of a waiting or held message; nothing of a malformed one."""
    try:
        found = json.loads(item)
        message = found[0] if isinstance(found, list) else found
        run_id, ids = json.loads(base64.b64decode(message["body"]))[0]
    except UNREADABLE:
        return "", []
    well_formed = isinstance(run_id, str) and isinstance(ids, list)
    return (run_id, [each for each in ids if isinstance(each, str)]) if well_formed else ("", [])


def published_at(message: str) -> float | None:
    """Return when a waiting message was first published, in seconds since the epoch; None of a malformed one."""
    try:
        _, options, *_ = json.loads(base64.b64decode(json.loads(message)["body"]))
        return float(options["published_at"])
    except UNREADABLE:
        return None
