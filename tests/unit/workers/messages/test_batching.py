"""When a batch leaves, by a clock that the test holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.messages.batching import RECENT_ITEMS, Gathered, Gathering


def gathering(batch_size: int = 8, batch_timeout_s: float = 1.0, batches_in_flight: int = 2) -> Gathering[str]:
    return Gathering(batch_size, batch_timeout_s, batches_in_flight, max_batches_in_flight=64)


def taken(waiting: Gathering[str], now_s: float) -> Gathered[str]:
    """The batch that leaves; one must."""
    batch = waiting.take(now_s)
    assert batch is not None
    return batch


def test_a_full_batch_leaves_at_once() -> None:
    waiting = gathering(batch_size=8)
    waiting.add("a", 4, now_s=0.0)
    assert waiting.take(0.0) is None
    waiting.add("b", 4, now_s=0.1)
    batch = taken(waiting, 0.1)
    assert (batch.items, batch.questions, batch.flush) == (["a", "b"], 8, "size")


def test_a_single_message_leaves_when_its_time_is_up_and_not_before() -> None:
    waiting = gathering(batch_timeout_s=0.05)
    waiting.add("a", 1, now_s=10.0)
    assert waiting.due_in_s(10.0) == pytest.approx(0.05)
    assert waiting.take(10.049) is None
    batch = taken(waiting, 10.05)
    assert (batch.items, batch.flush) == (["a"], "timeout")
    assert batch.waited_s == pytest.approx(0.05)


def test_the_deadline_is_the_age_of_the_oldest_and_later_arrivals_do_not_move_it() -> None:
    waiting = gathering(batch_timeout_s=1.0)
    waiting.add("old", 1, now_s=0.0)
    waiting.add("new", 1, now_s=0.9)
    assert waiting.due_in_s(0.9) == pytest.approx(0.1)
    batch = taken(waiting, 1.0)
    assert batch.items == ["old", "new"]


def test_what_somebody_waits_for_leaves_at_once_if_nothing_runs_and_takes_along_what_is_there() -> None:
    waiting = gathering(batch_size=8)
    waiting.add("later", 1, now_s=0.0, priority=6)
    assert waiting.take(0.0) is None
    waiting.add("awaited", 1, now_s=0.1, awaited=True)
    batch = taken(waiting, 0.1)
    assert (batch.items, batch.flush) == (["awaited", "later"], "idle")


def test_those_who_come_while_the_engine_is_busy_share_the_next_batch() -> None:
    waiting = gathering(batch_size=8)
    for name in ("first", "second", "third"):
        waiting.add(name, 1, now_s=0.0, awaited=True)
        if name == "first":
            assert waiting.take(0.0) is not None
    assert waiting.take(0.5) is None
    waiting.done(1)
    batch = taken(waiting, 0.5)
    assert batch.items == ["second", "third"]
    waiting.done(2)
    waiting.add("nobody's", 1, now_s=0.6)
    assert waiting.take(0.6) is None, "those who waited have left"


def test_no_more_batches_run_than_are_allowed_and_the_next_leaves_when_one_ends() -> None:
    waiting = gathering(batch_size=1, batches_in_flight=2)
    for name in "abc":
        waiting.add(name, 1, now_s=0.0)
    assert waiting.take(0.0) is not None
    assert waiting.take(0.0) is not None
    assert waiting.take(5.0) is None
    assert waiting.due_in_s(5.0) is None
    waiting.done(1)
    third = taken(waiting, 5.0)
    assert third.items == ["c"]
    waiting.add("d", 1, now_s=5.0)
    assert waiting.take(9.0) is None, "one ended, and one more began"


def test_while_the_engine_is_busy_small_messages_grow_into_full_batches() -> None:
    waiting = gathering(batch_size=8, batch_timeout_s=0.1, batches_in_flight=1)
    waiting.add("first", 1, now_s=0.0)
    assert waiting.take(0.1) is not None
    for number in range(8):
        waiting.add(str(number), 1, now_s=0.2 + number)
    assert waiting.take(20.0) is None
    waiting.done(1)
    batch = taken(waiting, 20.0)
    assert (batch.questions, batch.flush) == (8, "size")


def test_an_engine_with_room_gets_one_batch_more_and_the_next_when_it_has_room_again() -> None:
    waiting = Gathering[str](batch_size=1, batch_timeout_s=1.0, batches_in_flight=1, max_batches_in_flight=3)
    for name in "abcde":
        waiting.add(name, 1, now_s=0.0)
    assert waiting.take(0.0) is not None
    assert waiting.take(0.0) is None
    for _ in range(2):
        waiting.room_came()
        waiting.room_came()  # said twice, it is still one
        assert waiting.take(0.0) is not None
        assert waiting.take(0.0) is None
    waiting.room_came()
    assert waiting.take(0.0) is None  # three run: the most there may be
    waiting.done(1)
    assert waiting.take(0.0) is not None


def test_a_batch_is_taken_from_the_queue_for_an_engine_with_room() -> None:
    waiting = Gathering[str](batch_size=8, batch_timeout_s=1.0, batches_in_flight=1, max_batches_in_flight=3)
    for name in "ab":
        waiting.add(name, 8, now_s=0.0)
    waiting.take(0.0)
    assert not waiting.has_room()
    waiting.room_came()
    assert waiting.room_for_items() == 1
    waiting.take(0.0)
    assert waiting.room_for_items() == 1  # one that follows those that run


@pytest.mark.parametrize(("first", "second"), [(6, 6), (20, 1)], ids=["two large ones", "one larger than a batch"])
def test_messages_are_never_cut_and_one_that_is_larger_than_a_batch_leaves_alone(first: int, second: int) -> None:
    waiting = gathering(batch_size=8)
    waiting.add("first", first, now_s=0.0)
    waiting.add("second", second, now_s=0.0)
    assert taken(waiting, 0.0).items == ["first"]


def test_consumption_stops_at_what_the_running_batches_and_one_more_can_use() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=2)
    for number in range(6):
        assert waiting.has_room()
        waiting.add(str(number), 4, now_s=0.0)
        waiting.take(0.0)
    assert not waiting.has_room()
    waiting.done(8)
    assert waiting.has_room()


def test_more_urgent_messages_leave_before_those_that_waited_longer() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=1)
    for name in ("low 1", "low 2", "low 3"):
        waiting.add(name, 4, now_s=0.0, priority=9)
    waiting.add("normal", 4, now_s=0.1, priority=6)
    waiting.add("high", 2, now_s=0.2, priority=0)
    first = taken(waiting, 0.2)
    assert (first.items, first.questions) == (["high", "normal"], 6)
    waiting.done(6)
    second = taken(waiting, 0.2)
    assert second.items == ["low 1", "low 2"]


def test_what_is_urgent_and_few_leaves_with_what_waited_its_time() -> None:
    waiting = gathering(batch_size=8, batch_timeout_s=1.0)
    waiting.add("low", 1, now_s=0.0, priority=9)
    waiting.add("high", 1, now_s=0.9, priority=0)
    assert waiting.due_in_s(0.9) == pytest.approx(0.1)
    batch = taken(waiting, 1.0)
    assert batch.items == ["high", "low"]


def test_there_is_room_for_urgent_messages_as_if_nothing_less_urgent_waited() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=1)
    for name in ("runs", "waits"):
        waiting.add(name, 8, now_s=0.0, priority=9)
        waiting.take(0.0)
    assert [waiting.room_for_items(priority) for priority in (0, 6, 9)] == [1, 1, 0]
    assert waiting.has_room()
    waiting.add("normal", 8, now_s=0.0, priority=6)
    assert [waiting.room_for_items(priority) for priority in (0, 6, 9)] == [1, 0, 0]
    waiting.add("high", 8, now_s=0.0, priority=0)
    assert not waiting.has_room()


@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 5), st.sampled_from((0, 6, 9)), st.booleans()), max_size=60),
    st.integers(1, 32),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_every_message_leaves_exactly_once_those_of_a_priority_in_order(
    arrivals: list[tuple[int, float, int, bool]], batch_size: int, in_flight: int, more: int
) -> None:
    waiting: Gathering[int] = Gathering(batch_size, 1.0, in_flight, in_flight + more)
    now_s = 0.0
    left: list[int] = []
    running: list[int] = []

    def take_all() -> None:
        while (batch := waiting.take(now_s)) is not None:
            left.extend(batch.items)
            running.append(batch.questions)
            assert len(running) <= in_flight + more
            assert batch.questions <= batch_size or len(batch.items) == 1

    for number, (questions, pause_s, priority, room_came) in enumerate(arrivals):
        now_s += pause_s
        if room_came:
            waiting.room_came()
        waiting.add(number, questions, now_s, priority, awaited=priority == 0)
        take_all()
        if running:
            waiting.done(running.pop())
            take_all()
        urgent = {each for each, arrival in enumerate(arrivals[: number + 1]) if arrival[2] == 0}
        assert running or urgent <= set(left), "nobody waits for an idle worker"
    while running or waiting.due_in_s(now_s) is not None:
        now_s += 1.0
        if running:
            waiting.done(running.pop())
        take_all()
    assert sorted(left) == list(range(len(arrivals)))
    for priority in (0, 6, 9):
        of_priority = [number for number in left if arrivals[number][2] == priority]
        assert of_priority == sorted(of_priority)


def test_room_is_told_in_items_as_large_as_the_largest_of_late() -> None:
    gathering: Gathering[str] = Gathering(
        batch_size=16, batch_timeout_s=1.0, batches_in_flight=1, max_batches_in_flight=1
    )
    assert gathering.room_for_items() == 32  # nothing seen yet: items of one question
    gathering.add("small", 4, now_s=0.0)
    assert gathering.room_for_items() == 7
    gathering.add("large", 10, now_s=0.0)
    assert gathering.room_for_items() == 2  # 18 questions: a second large one still begins within them
    gathering.add("large", 10, now_s=0.0)
    gathering.add("large", 10, now_s=0.0)
    assert gathering.room_for_items() == 0
    for _ in range(RECENT_ITEMS):
        while batch := gathering.take(2.0):
            gathering.done(batch.questions)
        gathering.add("small", 4, now_s=0.0)
    assert gathering.room_for_items() == 7


@pytest.mark.parametrize("batch_size", [1, 10, 16])
def test_as_many_batches_run_whether_or_not_a_message_is_more_than_a_batch(batch_size: int) -> None:
    waiting = gathering(batch_size=batch_size, batches_in_flight=2)
    waiting.add("first", 16, now_s=0.0)
    assert waiting.take(0.0) is not None
    for name in ("second", "held ready"):
        assert waiting.room_for_items() > 0
        waiting.add(name, 16, now_s=0.0)
    assert waiting.take(0.0) is not None
    assert not waiting.has_room()
    waiting.done(16)
    assert waiting.take(0.0) is not None
    assert waiting.room_for_items() == 1


def test_of_a_queue_that_gets_short_no_more_is_taken_than_can_begin_and_batch_by_batch() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=2)
    waiting.left_waiting(items=71, other_workers=2)  # three workers can hold three batches of eight each
    assert waiting.room_for_items() == 8
    for name in "abc":
        waiting.add(name, 8, now_s=0.0)
        waiting.take(0.0)
    waiting.done(8)
    waiting.take(0.0)  # "c"
    waiting.left_waiting(items=8, other_workers=2)
    assert not waiting.has_room()
    waiting.done(8)
    assert waiting.room_for_items() == 1


def test_a_single_other_worker_is_enough_to_leave_it_what_it_could_begin() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=2)
    for items, room in ((48, 24), (47, 8)):  # two workers can hold three batches of eight each
        waiting.left_waiting(items, other_workers=1)
        assert waiting.room_for_items() == room


def test_of_a_queue_that_is_short_what_waits_here_already_is_part_of_the_batch_that_can_begin() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=2)
    for _ in range(5):
        waiting.add("one", 1, now_s=0.0)
    waiting.left_waiting(items=10, other_workers=2)
    assert waiting.room_for_items() == 3


def test_of_a_long_queue_and_of_ones_own_the_next_batch_is_held_ready() -> None:
    for items, others in ((72, 2), (8, 0)):
        waiting = gathering(batch_size=8, batches_in_flight=2)
        waiting.left_waiting(items, others)
        assert waiting.room_for_items() == 24


def test_less_than_a_batch_is_held_ready_whoever_else_could_take_it() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=1)
    waiting.add("runs", 8, now_s=0.0)
    waiting.take(0.0)
    waiting.left_waiting(items=0, other_workers=2)
    assert waiting.room_for_items() == 1
    waiting.add("waits", 5, now_s=0.0)
    assert waiting.room_for_items() == 1  # as large as the largest of late


def test_as_much_as_a_batch_in_the_queue_is_left_there_for_whoever_can_begin_it() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=1)
    for name in ("runs", "runs too"):
        waiting.add(name, 4, now_s=0.0)
    waiting.take(0.0)
    waiting.left_waiting(items=2, other_workers=2)
    assert not waiting.has_room()
    waiting.left_waiting(items=1, other_workers=2)
    assert waiting.room_for_items() == 2


def test_how_short_a_queue_is_is_told_in_questions_and_not_in_messages() -> None:
    waiting = gathering(batch_size=8, batches_in_flight=2)
    waiting.add("large", 8, now_s=0.0)
    waiting.left_waiting(items=9, other_workers=2)  # 72 questions: all that three workers can hold
    assert waiting.room_for_items() == 2
