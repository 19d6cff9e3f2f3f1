"""Token budgets: how many passages fit into a prompt, and how many questions into a call.

Questions are never truncated. Whole passages are dropped until the prompt and its answer fit the model's context, and
the passages fit `max_context_tokens`: first those that would not fit even alone, whatever their rank, then from the
lowest rank up. They stay in the item, marked as not shown. Where an answer of `max_tokens` would not fit even without
passages, the question is not asked: it would be asked as if nothing had been retrieved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from contract.errors import RequestRejected
from contract.wording import number
from workers.engines.base import Engine, Request, measured
from workers.scoring import Item, requests_of

__all__ = ["capped", "fitted", "in_calls", "without_room"]

log = logging.getLogger(__name__)

#: Counts the tokens of each text.
Count = Callable[[Sequence[str]], Sequence[int]]


def fitted(items: Sequence[Item], engine: Engine) -> list[Item]:
    """Return `items` with as many passages shown as fit."""
    sizes = _Sizes(engine.count_tokens)
    fitting = _capped(items, sizes)
    to_measure = [place for place, item in enumerate(fitting) if _shows_passages(item)]
    while to_measure:
        found = measured([_requests(fitting[place]) for place in to_measure], engine.excess_tokens)
        # By how many tokens the longest request of each item is too long.
        excess = {place: max(of_item, default=0) for place, of_item in zip(to_measure, found, strict=True)}
        too_long = {place: tokens for place, tokens in excess.items() if tokens}
        known = sizes.of([items[place] for place in too_long])
        for place, tokens in too_long.items():
            # Of all passages again: those that another one pushed out may fit, now that it has no room itself.
            room = _shown_tokens(fitting[place], known) - tokens
            fitting[place] = _shortened(items[place], room, known)
        to_measure = [place for place in too_long if _shows_passages(fitting[place])]
    return fitting


def without_room(items: Sequence[Item], engine: Engine) -> dict[int, RequestRejected]:
    """Return the places of those of the `fitted` items that must not be asked, each with the reason.

    They have passages, but the prompt and the longest answer leave no room for any. Only in modes in which the model
    writes: choices that do not fit are refused by the engine itself.
    """
    bare = [
        place
        for place, item in enumerate(items)
        if item.spec.mode.writes and item.passages and not _shows_passages(item)
    ]
    found = measured([_requests(items[place]) for place in bare], engine.excess_tokens)
    return {
        place: _no_room(items[place], max(excess)) for place, excess in zip(bare, found, strict=True) if any(excess)
    }


def _no_room(item: Item, tokens: int) -> RequestRejected:
    most = item.spec.sampling.max_tokens if item.spec.sampling else 0
    hint = "Raise vllm_args.max_model_len if the model allows it."
    if tokens < most:
        hint = "Lower sampling.max_tokens, or raise vllm_args.max_model_len if the model allows it."
    return RequestRejected(
        f"No passage can be shown: even without one, the prompt and sampling.max_tokens ({most:,}) exceed the model's"
        f" context by {number(tokens, 'token')}.",
        hint=hint,
    )


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
    (found,) = _capped([item], _Sizes(count))
    return found


class _Sizes:
    """Counts the tokens of passages: those of all items at once, as it may ask a server, and each text only once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: dict[str, int] = {}

    def of(self, items: Sequence[Item]) -> Mapping[str, int]:
        """Return a mapping with the tokens of the passages shown in `items`, and possibly of others."""
        shown = dict.fromkeys(each.text for item in items for each in item.passages if each.shown)
        if new := [text for text in shown if text not in self._known]:
            self._known.update(zip(new, self._count(new), strict=True))
        return self._known


def _capped(items: Sequence[Item], sizes: _Sizes) -> list[Item]:
    limits = [item.spec.rag.max_context_tokens if item.spec.rag else None for item in items]
    known = sizes.of([item for item, limit in zip(items, limits, strict=True) if limit is not None])
    return [
        item if limit is None else _shortened(item, limit, known) for item, limit in zip(items, limits, strict=True)
    ]


def _shows_passages(item: Item) -> bool:
    return any(each.shown for each in item.passages)


def _shown_tokens(item: Item, sizes: Mapping[str, int]) -> int:
    # The item still has the passages that were left out when it was asked before; they take no tokens.
    return sum(sizes[each.text] for each in item.passages if each.shown)


def _shortened(item: Item, room: int, sizes: Mapping[str, int]) -> Item:
    """Return `item` with enough passages dropped that the others have no more than `room` tokens."""
    tokens = _shown_tokens(item, sizes) - room
    if tokens <= 0:
        return item
    shown = [place for place, each in enumerate(item.passages) if each.shown]
    counts = {place: sizes[item.passages[place].text] for place in shown}
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
