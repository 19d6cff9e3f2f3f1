"""How many passages a prompt has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from contract.mode import Mode, Normalization
from contract.settings import load_settings
from contract.spec import IndexKind, Prompt, Retrieval, Sampling
from contract.verdict import ContextSource, Outcome, Passage
from tests.support import build_prompt, make_question, make_spec
from workers.budget import fitted, in_calls
from workers.engines.simulated import SimulatedEngine
from workers.pipeline import score_batch
from workers.scoring import Item, requests_of

#: Ten words each, which the simulated engine takes for tokens.
PASSAGES = tuple(
    Passage(id=f"p{rank}", rank=rank, score=1 / rank, text=" ".join([f"p{rank}"] * 10)) for rank in range(1, 6)
)


def engine(max_model_len: int) -> SimulatedEngine:
    made = SimulatedEngine(load_settings(None, ["engine=simulated", f"vllm_args.max_model_len={max_model_len}"]))
    made.start()
    return made


def item(passages: tuple[Passage, ...] = PASSAGES, max_context_tokens: int | None = None, **spec: Any) -> Item:
    rag = Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25, max_context_tokens=max_context_tokens)
    prompt = {"name": "p", "text": "{% if context %}Context: {{ context }}\n{% endif %}Question: {{ question }}"}
    return Item(make_question(1), make_spec(rag=rag, prompt=prompt, **spec), passages)


def shown(fitted_item: Item) -> list[str]:
    return [each.id for each in fitted_item.passages if each.shown]


def words(question_item: Item) -> int:
    return len(build_prompt(question_item.question, question_item.spec, question_item.passages).split())


def test_every_passage_is_shown_where_there_is_room() -> None:
    assert fitted([item()], engine(words(item()))) == [item()]


@pytest.mark.parametrize(("missing", "left"), [(1, 4), (10, 4), (11, 3), (50, 0)])
def test_passages_go_whole_and_from_the_lowest_rank_until_the_prompt_fits(missing: int, left: int) -> None:
    (short,) = fitted([item()], engine(words(item()) - missing))
    assert shown(short) == [f"p{rank}" for rank in range(1, left + 1)]
    assert [each.id for each in short.passages] == [each.id for each in PASSAGES], "what was retrieved stays known"


def test_a_question_that_is_too_long_even_alone_is_shown_no_passage() -> None:
    (alone,) = fitted([item()], engine(words(item(())) - 1))
    assert shown(alone) == []


def test_passages_go_until_the_prompt_fits_even_where_each_saves_less_than_it_was_counted() -> None:
    class Generous(SimulatedEngine):
        def count_tokens(self, texts: Sequence[str]) -> list[int]:
            return [2 * each for each in super().count_tokens(texts)]

    made = Generous(load_settings(None, ["engine=simulated", f"vllm_args.max_model_len={words(item()) - 11}"]))
    (short,) = fitted([item()], made)
    assert shown(short) == ["p1", "p2", "p3"]


HUGE = Passage(id="huge", rank=1, score=9.0, text=" ".join(["huge"] * 500))


def test_a_passage_that_has_no_room_even_alone_does_not_push_out_the_others() -> None:
    asked = item((HUGE, *PASSAGES[:3]))
    (by_context,) = fitted([asked], engine(words(item(PASSAGES[:3]))))
    assert shown(by_context) == ["p1", "p2", "p3"]
    (by_limit,) = fitted([item((*PASSAGES[:1], HUGE, *PASSAGES[1:]), max_context_tokens=29)], engine(10_000))
    assert shown(by_limit) == ["p1", "p2"]
    (ranked_last,) = fitted([item((*PASSAGES[:3], HUGE), max_context_tokens=29)], engine(10_000))
    assert shown(ranked_last) == ["p1", "p2"], "what it would have taken is not saved twice"


def test_a_passage_that_fits_max_context_tokens_but_not_the_context_does_not_push_out_the_others() -> None:
    asked = item((HUGE, *PASSAGES[:3]), max_context_tokens=500)
    (found,) = fitted([asked], engine(words(item(PASSAGES[:2]))))
    assert shown(found) == ["p1", "p2"]


def test_a_passage_that_fills_the_room_alone_is_shown_and_the_next_one_is_not() -> None:
    small = Passage(id="small", rank=2, score=0.5, text="small")
    (by_limit,) = fitted([item((PASSAGES[0], small), max_context_tokens=10)], engine(1000))
    assert shown(by_limit) == ["p1"]


def test_passages_share_max_context_tokens() -> None:
    (short,) = fitted([item(max_context_tokens=29)], engine(1000))
    assert shown(short) == ["p1", "p2"]


class Counting(SimulatedEngine):
    """An engine that remembers which texts it counted, call by call."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.counted = [*getattr(self, "counted", []), list(texts)]
        return super().count_tokens(texts)


def test_the_passages_of_a_batch_are_counted_in_one_call_and_each_of_them_once() -> None:
    few, many, unlimited = item(PASSAGES[:1], 39), item(max_context_tokens=39), item(PASSAGES[:2])
    made = Counting(load_settings(None, ["engine=simulated", f"vllm_args.max_model_len={words(few) + 10}"]))
    assert [shown(each) for each in fitted([few, many, unlimited], made)] == [["p1"], ["p1", "p2"], ["p1", "p2"]]
    assert made.counted == [[each.text for each in PASSAGES]]


def test_a_question_that_is_asked_again_is_shown_the_passages_that_it_was_shown_then() -> None:
    (then,) = fitted([item(max_context_tokens=29)], engine(1000))
    (now,) = fitted([item(then.passages, max_context_tokens=29)], engine(1000))
    assert shown(now) == shown(then) == ["p1", "p2"]


def test_each_item_of_a_batch_has_its_own_budget() -> None:
    few = item(PASSAGES[:1])
    assert [shown(each) for each in fitted([item(), few], engine(words(few) + 10))] == [["p1", "p2"], ["p1"]]


def test_a_question_without_passages_is_left_alone() -> None:
    assert fitted([item(())], engine(1)) == [item(())]


def test_a_prompt_leaves_room_for_the_longest_answer() -> None:
    writes = item(mode=Mode.GENERATE, sampling=Sampling(max_tokens=8))
    (short,) = fitted([writes], engine(words(writes) + 7))
    assert shown(short) == ["p1", "p2", "p3", "p4"]


@pytest.mark.parametrize("circular", [False, True])
def test_a_question_whose_answer_leaves_no_room_for_passages_fails_instead_of_being_asked_closed_book(
    *, circular: bool
) -> None:
    roomy = item(mode=Mode.GENERATE, sampling=Sampling(max_tokens=8), circular=circular)
    wordy = Item(
        make_question(2), roomy.spec.model_copy(update={"sampling": Sampling(max_tokens=1_000)}), roomy.passages
    )
    found_nothing = Item(wordy.question, wordy.spec, ())
    bare = words(Item(wordy.question, wordy.spec, ()))
    asked, refused, unsearched = score_batch([roomy, wordy, found_nothing], engine(1_000))
    assert refused.error is not None
    assert refused.error.type == "RequestRejected"
    assert refused.error.message.startswith(
        "No passage can be shown: even without one, the prompt and sampling.max_tokens (1,000) exceed the model's"
        f" context by {bare} tokens. Lower sampling.max_tokens, or raise vllm_args.max_model_len"
    )
    assert refused.passages_left_out == len(PASSAGES)
    assert refused.prompt_tokens == 0, "in no order of its choices"
    assert Outcome.FAILED not in {asked.outcome, unsearched.outcome}


def test_where_the_question_alone_is_too_long_a_shorter_answer_is_no_remedy() -> None:
    writes = item(mode=Mode.GENERATE, sampling=Sampling(max_tokens=8))
    (refused,) = score_batch([writes], engine(words(Item(writes.question, writes.spec, ())) - 1))
    assert refused.error is not None
    assert refused.error.message.endswith("context by 9 tokens. Raise vllm_args.max_model_len if the model allows it.")


def test_the_longest_of_a_questions_requests_decides_how_many_passages_fit() -> None:
    with_and_without = item(normalization=Normalization.MUTUAL_INFO)
    (short,) = fitted([with_and_without], engine(words(with_and_without) - 1))
    assert shown(short) == ["p1", "p2", "p3", "p4"]


def test_a_question_with_passages_whose_prompt_cannot_be_rendered_fails_alone() -> None:
    spec = item().spec.model_copy(update={"prompt": Prompt(name="p", text="{{ context }} {{ choices[2].text }}")})
    broken = Item(make_question(1, choices=("a", "b"), answer="A"), spec, PASSAGES)
    first, second = score_batch([broken, Item(make_question(2), spec, PASSAGES)], engine(1000))
    assert first.outcome is Outcome.FAILED
    assert second.outcome is not Outcome.FAILED


def test_an_engine_that_cannot_count_tokens_counts_bytes_so_that_no_passage_is_too_many() -> None:
    from workers.engines.base import Engine

    assert Engine.count_tokens(engine(1), ["five ", "é"]) == [5, 2]


@pytest.mark.parametrize(
    ("most_tokens", "calls"),
    [(10_000, [3]), (2, [1, 1, 1]), (65, [2, 1])],
    ids=["room for all", "room for none", "room for two"],
)
def test_a_call_takes_as_many_questions_as_its_tokens_allow_and_one_at_least(
    most_tokens: int, calls: list[int]
) -> None:
    shorts, long = [item(()), item(())], item()
    assert 2 * words(shorts[0]) < words(long) < 65 < words(shorts[0]) + words(long) + 8, "choices have four words"
    items = [*shorts, long]
    parts = [items[part] for part in in_calls(items, engine(1000), most_tokens)]
    assert [len(part) for part in parts] == calls
    assert [each for part in parts for each in part] == items


def test_every_call_may_have_as_many_tokens_as_the_first() -> None:
    items = [item(())] * 5
    for_each = sum(engine(1000).count_prompt_tokens(list(requests_of(items[0]))))
    parts = list(in_calls(items, engine(1000), 2 * for_each))
    assert [len(items[part]) for part in parts] == [2, 2, 1]


def test_the_verdict_tells_which_passages_were_shown_and_whether_one_of_them_answers() -> None:
    questions = [make_question(1, gold_passages=("p1",)), make_question(1, gold_passages=("p5",)), make_question(1)]
    hashed = make_question(1, metadata={"question_hash": "ab12"})  # as readers add it, but the index has no hashes
    items = [Item(question, item().spec, PASSAGES) for question in (*questions, hashed)]
    verdicts = score_batch(items, engine(words(item()) - 10))
    assert [each.retrieval_hit for each in verdicts] == [True, False, None, None]
    assert [each.passages_left_out for each in verdicts] == [1] * 4
    assert {each.context_source for each in verdicts} == {ContextSource.RETRIEVED}
    assert not any(each.outcome is Outcome.FAILED for each in verdicts)


def test_a_question_asked_with_its_own_context_was_not_retrieved_for() -> None:
    question = make_question(1, context="Its own.", gold_passages=("p1",))
    both = item(use_context_field=True).spec
    for spec in (both, both.model_copy(update={"rag": None})):
        (verdict,) = score_batch([Item(question, spec, ())], engine(1000))
        assert (verdict.context_source, verdict.retrieval_hit) == (ContextSource.QUESTION, None)


def test_nothing_found_is_a_prompt_without_context_and_a_miss() -> None:
    question = make_question(1, gold_passages=("p1",))
    (verdict,) = score_batch([Item(question, item().spec, ())], engine(1000))
    assert (verdict.context_source, verdict.retrieval_hit) == (ContextSource.NONE, False)
