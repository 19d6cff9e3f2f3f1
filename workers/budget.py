"""Token budgets: how many passages fit into a prompt, and how many questions into a call.

Questions are never truncated. Whole passages are dropped until the prompt and its answer fit the model's context, and
the passages fit `max_context_tokens`: first those that would not fit even alone, whatever their rank, then from the
lowest rank up. They stay in the item, marked as not shown.
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
    """Return `items` with as many passages shown as fit."""
    done = [capped(item, engine.count_tokens) for item in items]
    tight = [place for place, item in enumerate(done) if any(each.shown for each in item.passages)]
    while tight:
        # Number of tokens by which the longest request of each item is too long.
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
    """Split `items`, in order, into parts whose prompts have at most `most_tokens` together; at least one item each.

    Only the first requests are counted: prompts with passages and continuations.
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
    """Return `item` with no more passages shown than `max_context_tokens` allows."""
    limit = item.spec.rag.max_context_tokens if item.spec.rag else None
    if limit is None or not item.passages:
        return item
    # An item that is asked again keeps the passages left out before; they take no tokens.
    taken = sum(count([each.text for each in item.passages if each.shown]))
    return _shortened(item, taken - limit, count)


def _shortened(item: Item, tokens: int, count: Count) -> Item:
    """Return `item` with enough passages dropped to save `tokens`."""
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
    except Exception as trouble:  # noqa: BLE001 - asking it will fail the same way and report the error
        log.debug("question %s cannot be measured: %s", item.question.id, trouble)
        return []
