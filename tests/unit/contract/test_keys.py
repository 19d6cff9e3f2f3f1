"""The names that producers, workers and kombu share in Redis."""

from __future__ import annotations

from kombu.transport.redis import Channel

from contract import keys
from contract.priority import Priority
from contract.spec import IndexKind, Retrieval
from tests.support import make_spec


def test_no_two_keys_are_the_same() -> None:
    names = [keys.runs(), keys.open_runs(), keys.workers()]
    for each in ("a", "b"):
        names += keys.RunKeys(each).all()
        names += [keys.worker(each), keys.restore_lock(each), keys.audit_lock(each), keys.unacked(each)]
        names += keys.unacked_options(each).values()
        names += keys.broker_lists(keys.score_queue(each)) + keys.broker_lists(keys.retrieve_queue(each))
    names = [each for each in names if each not in {keys.unacked("a"), keys.unacked("b")}]
    assert len(names) == len(set(names)) == 3 + 2 * (13 + 3 + 2 + 8)


def test_the_ledgers_keys_start_with_the_projects_name() -> None:
    assert sorted(keys.RunKeys("demo-1").all()) == [
        f"mcqueue:run:demo-1:{each}"
        for each in (
            "aside",
            "attempts",
            "counts",
            "engines",
            "lookups",
            "meta",
            "order",
            "passages",
            "questions",
            "state",
            "todo",
            "troubles",
            "verdicts",
        )
    ]
    others = [keys.runs(), keys.open_runs(), keys.workers(), keys.worker("w"), keys.restore_lock("w")]
    assert [each for each in others if not each.startswith("mcqueue:")] == []


def test_a_queue_is_called_after_the_model_in_whatever_spelling() -> None:
    assert keys.score_queue("Org/Model 7B") == keys.score_queue("org-model-7b") == "score.org-model-7b"


def test_models_and_indexes_share_no_queue_because_their_names_have_no_latin_letters() -> None:
    names = ["模型", "文心", "unnamed"]
    assert len({keys.score_queue(each) for each in names}) == len({keys.retrieve_queue(each) for each in names}) == 3


def test_questions_of_a_run_with_retrieval_pass_through_its_index_first() -> None:
    rag = Retrieval(index="Facts", index_digest="0" * 64, kind=IndexKind.BM25)
    assert keys.route(make_spec(model="m", rag=rag)) == ("retrieve.facts", "score.m")
    assert keys.route(make_spec(model="m")) == ("score.m",)


def test_the_most_urgent_list_comes_first_and_has_the_queues_plain_name() -> None:
    assert keys.broker_lists("score.m") == ["score.m", "score.m\x06\x163", "score.m\x06\x166", "score.m\x06\x169"]


def test_lists_and_priorities_are_those_of_kombu() -> None:
    assert tuple(Channel.priority_steps) == keys.PRIORITY_STEPS
    assert keys.broker_lists("q")[1:] == [f"q{Channel.sep}{step}" for step in Channel.priority_steps[1:]]
    assert set(Priority) <= set(keys.PRIORITY_STEPS)
    assert Priority.HIGH < Priority.NORMAL < Priority.LOW


def test_a_worker_keeps_its_own_books_of_held_messages() -> None:
    one, other = keys.unacked_options("gpu0"), keys.unacked_options("gpu1")
    assert one["unacked_key"] == keys.unacked("gpu0") == "unacked:gpu0"
    assert set(one) == {"unacked_key", "unacked_index_key", "unacked_mutex_key"}
    assert not set(one.values()) & set(other.values())
    assert [each for each in one if not hasattr(Channel, each)] == [], "kombu would not know the option"


def test_a_queue_tells_which_index_is_searched_for_it() -> None:
    assert keys.index_of(keys.retrieve_queue("My facts 1.0")) == "my-facts-1.0"
    assert [keys.index_of(each) for each in (keys.score_queue("retrieve.x"), "retrieve", "celery", "")] == [""] * 4
