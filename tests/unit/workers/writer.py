"""A scripted engine that writes, and a question to ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from contract import Mode, Prompt, Question, Verdict, load_settings
from contract.spec import Judge, Sampling
from tests.support import make_question, make_spec
from tests.unit.workers.ready_engine import LETTERED, ReadyEngine
from workers.engines.base import Completion, GenerateRequest, Request, ScoreRequest, Text
from workers.pipeline import score_batch
from workers.scoring import Item

GRADE = Prompt(name="grade", text="{{ question }} | {{ reference }} | {{ response }}")
CAPITAL = make_question(1, question="Capital of Italy?", choices=("Paris", "Rome", "Oslo", "Bern"), answer="B")


class Writer(ReadyEngine):
    """Writes what `says` makes of a request; remembers all requests, call by call.

    `prompt_end` is what its chat template writes last; `truncated`: nothing that it writes comes to its end, with
    `context_full` before `max_tokens`.
    """

    def __init__(
        self,
        says: Callable[[GenerateRequest], Sequence[str]],
        prompt_end: str = "",
        *,
        truncated: bool = False,
        context_full: bool = False,
    ) -> None:
        super().__init__(load_settings())
        self.calls: list[list[Request]] = []
        self._says = says
        self._prompt_end = prompt_end
        self._text = partial(Text, tokens=3, truncated=truncated, context_full=context_full)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.calls.append(list(requests))
        return [self._answer(each) for each in requests]

    def _answer(self, request: Request) -> Completion:
        if isinstance(request, ScoreRequest):
            # Likes whatever is shown in the first place.
            return Completion(
                logprobs=tuple(-float(i) for i in range(len(request.continuations))), token_counts=(1,) * 4
            )
        texts = tuple(self._text(each) for each in self._says(request))
        return Completion(texts=texts, prompt_end=self._prompt_end, prompt_tokens=5)


def ask(engine: ReadyEngine, question: Question = CAPITAL, **spec: object) -> Verdict:
    (verdict,) = score_batch([Item(question, make_spec((), **{"prompt": LETTERED, **spec}))], engine)
    return verdict


WRITES: tuple[dict[str, Any], ...] = (
    {"mode": Mode.GENERATE, "sampling": Sampling()},
    {"mode": Mode.VOTE, "sampling": Sampling(samples=2, temperature=1.0)},
    {"mode": Mode.JUDGE, "sampling": Sampling(), "judge": Judge(prompt=GRADE)},
)
