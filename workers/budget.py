"""How many passages a prompt has room for, and how many questions a call. The question itself is never cut.

Passages go whole until the prompt with the answer it asks for fits the model's context, and until they fit
`max_context_tokens`: first those that have no room even alone, whatever their rank, then from the lowest rank up. They
stay in the item, marked as not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from workers.engines.base import Engine, Request, measured
from workers.scoring import Item, requests_of

__all__ = ["capped", "fitted", "in_calls"]

log = logging.getLogger(__name__)

#: Counts the tokens of each text.
Count = Callable[[Sequence[str]], Sequence[int]]


def fitted(items: Sequence[Item], engine: Engine) -> list[Item]:
    """`items`, with as many passages shown as there is room for."""
    done = [capped(item, engine.count_tokens) for item in items]
    tight = [place for place, item in enumerate(done) if any(each.shown for each in item.passages)]
    while tight:
        # By how many tokens the longest request of each is too long.
        found = measured([_requests(done[place]) for place in tight], engine.excess_tokens)
        excess = [max(of_item, default=0) for of_item in found]
        for place, tokens in zip(tight, excess, strict=True):
            if tokens:
                done[place] = _shortened(done[place], tokens, engine.count_tokens)
        tight = [
            place
            for place, tokens in zip(tight, excess, strict=True)
            if tokens and any(each.shown for each in done[place].passages)
        ]
    return done


def in_calls(items: Sequence[Item], engine: Engine, most_tokens: int) -> Iterator[slice]:
    """The parts of `items`, in order, whose prompts hold `most_tokens` together at most; one item at least each.

    Counted is what is asked first: prompts with their continuations, passages included.
    """
    start = tokens = 0
    counts = measured([_requests(item) for item in items], engine.count_prompt_tokens)
    for place, count in enumerate(map(sum, counts)):
        if tokens and tokens + count > most_tokens:
            yield slice(start, place)
            start, tokens = place, 0
        tokens += count
    yield slice(start, len(items))


def capped(item: Item, count: Count) -> Item:
    """`item` with no more passages shown than `max_context_tokens` allows."""
    limit = item.spec.rag.max_context_tokens if item.spec.rag else None
    if limit is None or not item.passages:
        return item
    # What is asked again comes with what was left out then: that takes no tokens now.
    taken = sum(count([each.text for each in item.passages if each.shown]))
    return _shortened(item, taken - limit, count)


def _shortened(item: Item, tokens: int, count: Count) -> Item:
    """With so many fewer passages shown that `tokens` are saved."""
    if tokens <= 0:
        return item
    shown = [place for place, each in enumerate(item.passages) if each.shown]
    counts = dict(zip(shown, count([item.passages[place].text for place in shown]), strict=True))
    room = sum(counts.values()) - tokens
    left_out = {place for place in shown if counts[place] > room}
    tokens -= sum(counts[place] for place in left_out)
    for place in reversed(shown):
        if tokens <= 0:
            break
        if place not in left_out:
            left_out.add(place)
            tokens -= counts[place]
    passages = tuple(
        each.model_copy(update={"shown": False}) if place in left_out else each
        for place, each in enumerate(item.passages)
    )
    return item._replace(passages=passages)


def _requests(item: Item) -> list[Request]:
    try:
        return list(requests_of(item))
    except Exception as trouble:  # noqa: BLE001 - it will be asked, fail the same way, and tell
        log.debug("question %s cannot be measured: %s", item.question.id, trouble)
        return []
