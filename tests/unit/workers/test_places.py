"""When an engine says that it has room for another call."""

from __future__ import annotations

from workers.engines.places import PATIENCE_S, Places


class Told:
    """Counts how often it was told, by a clock that the test holds."""

    def __init__(self, places: int) -> None:
        self.times = 0
        self.now_s = 0.0
        self.places = Places(places, self.tell, lambda: self.now_s)

    def tell(self) -> None:
        self.times += 1


def test_a_call_that_leaves_places_free_is_followed_by_word_of_it() -> None:
    told = Told(8)
    told.places.want(4)
    assert told.times == 1
    told.places.want(6)  # ten: as many as are to be wanted, the places and a quarter more
    assert told.times == 1


def test_once_too_few_are_wanted_it_tells_and_then_waits_for_the_call_that_comes_of_it() -> None:
    told = Told(8)
    told.places.want(12)
    told.places.leave(2)
    assert told.times == 0
    for _ in range(6):
        told.places.leave()
    assert told.times == 1
    told.places.want(1)
    assert told.times == 2


def test_a_call_that_never_came_is_made_up_for_by_another() -> None:
    told = Told(8)
    told.places.want(8)
    told.places.leave()
    assert told.times == 1
    told.now_s = PATIENCE_S
    told.places.leave()
    assert told.times == 2
