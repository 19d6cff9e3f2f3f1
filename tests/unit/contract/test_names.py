"""Names: safe wherever they are used, and the same for a run that is asked again."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.names import distinct_slug, is_called, is_request, request_id, run_id_for, run_name, slug
from tests.support import make_spec


def test_a_run_id_is_a_readable_name_and_eight_digits_of_the_fingerprint() -> None:
    spec = make_spec()
    assert run_id_for("My Questions", spec) == f"my-questions-{spec.fingerprint()[:8]}"


def test_a_run_is_found_by_a_name_of_which_its_id_shows_only_the_beginning() -> None:
    name = "a very long name " * 20
    run_id = run_id_for(run_name(name), make_spec())
    assert len(run_id) < 200
    assert is_called(run_id, name)
    assert not is_called(run_id, name[:100])


@pytest.mark.parametrize("last", [" ", ".", "-", "b"])
def test_a_run_is_found_by_a_name_wherever_that_is_cut(last: str) -> None:
    """Where a hyphen or a dot was the last character that counts, the id did not have it, but was searched with it."""
    name = f"{'a' * 149}{last}and so on"
    run_id = run_id_for(run_name(name), make_spec())
    assert run_id.startswith(f"{run_name(name)}-")
    assert is_called(run_id, name)


@pytest.mark.parametrize(
    ("given", "other"), [("物理", "数学"), ("物理 7B", "数学 7B"), ("unnamed", "."), ("物理", "*")]
)
def test_a_run_is_not_found_by_a_name_whose_letters_its_id_does_not_have(given: str, other: str) -> None:
    """`purge 数学` deleted the run that was called 物理: the ids of both begin with `unnamed-`."""
    run_id = run_id_for(run_name(given), make_spec())
    assert run_name(given) == run_name(other)
    assert not is_called(run_id, other)


def test_no_name_gives_a_run_the_id_of_an_http_request() -> None:
    requested = request_id()
    assert is_request(requested)
    names = ["http", requested, requested[:-8], requested[:-9]]
    assert [run_id for name in names if is_request(run_id := run_id_for(name, make_spec()))] == []


def test_asking_again_gives_the_same_run_id_and_a_deliberate_repeat_its_own() -> None:
    spec = make_spec()
    ids = [run_id_for("test", spec, repeat) for repeat in (1, 2, 3)]
    assert ids == [run_id_for("test", spec), f"{ids[0]}-2", f"{ids[0]}-3"]
    assert run_id_for("test", make_spec(seed=1)) not in ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HuggingFaceTB/SmolLM2-135M Instruct", "huggingfacetb-smollm2-135m-instruct"),
        ("already-safe_1.5", "already-safe_1.5"),
        ("two  spaces -- and: colons", "two-spaces-and-colons"),
        ("../../etc/passwd", "etc-passwd"),
        ("--.hidden.--", "hidden"),
        ("Größe", "gr-e"),
        ("模型", "unnamed"),
        ("", "unnamed"),
    ],
)
def test_a_slug_keeps_what_is_safe_in_a_queue_name_and_a_path(text: str, expected: str) -> None:
    assert slug(text) == expected


@pytest.mark.parametrize("names", [("模型", "文心", ""), ("模型 7B", "文心 7B", "7B"), ("Grün", "gr-n", "Grän")])
def test_names_with_other_letters_than_latin_ones_stay_distinct(names: Sequence[str]) -> None:
    made = [distinct_slug(each) for each in names]
    assert len(set(made)) == len(names)
    assert [distinct_slug(each) for each in made] == made
    assert [distinct_slug(each.upper()) for each in names] == made


@pytest.mark.parametrize("name", ["HuggingFaceTB/SmolLM2-135M Instruct", "already-safe_1.5", "--.hidden.--", ""])
def test_a_name_in_latin_letters_is_distinct_as_its_slug(name: str) -> None:
    assert distinct_slug(name) == slug(name)


@given(st.text())
def test_a_slug_is_safe_whatever_it_was_made_of_and_a_slug_of_itself(text: str) -> None:
    for made in (slug(text), distinct_slug(text)):
        assert re.fullmatch(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?", made)
        assert slug(made) == made
