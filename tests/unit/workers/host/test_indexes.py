"""The indexes of a host, before any worker searches them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from contract import Settings
from contract.errors import PlanError
from tests.support import build_test_index
from workers.check import check
from workers.host.indexes import index_folders
from workers.host.machine import Machine


def settings(*indexes: Path) -> Settings:
    return Settings(engine="simulated", indexes=list(indexes), redis_url=SecretStr("redis://127.0.0.1:1/0"))


def test_indexes_are_known_by_their_names_each_once(tmp_path: Path) -> None:
    facts, notes = (build_test_index(tmp_path / name, ["Iron rusts."]) for name in ("facts", "notes"))
    assert index_folders([settings(facts, notes), settings(facts)]) == {"facts": facts, "notes": notes}


@pytest.mark.parametrize("name", ["facts", "Facts"])
def test_two_indexes_of_one_name_are_refused_before_their_workers_take_each_others_name(
    tmp_path: Path, name: str
) -> None:
    one, other = (build_test_index(tmp_path / path, ["Iron rusts."]) for path in ("a/facts", f"b/{name}"))
    with pytest.raises(PlanError, match=rf"a/facts and .*b/{name} are both called 'facts'.* another name"):
        index_folders([settings(one, other)])


def test_check_looks_at_the_indexes_too(tmp_path: Path) -> None:
    facts = build_test_index(tmp_path / "facts", ["Iron rusts.", "Zinc does not."])
    (found,) = (each for each in check([settings(facts)], Machine([], [0])) if each.what == "index")
    assert (found.level, found.found) == ("ok", f"facts: bm25, 2 passages, {facts}")
    (found,) = (each for each in check([settings(tmp_path / "none")], Machine([], [0])) if each.what == "index")
    assert (found.level, found.found) == ("error", f"{tmp_path / 'none'}: no such index.")
    assert found.remedy.startswith("Correct the path, or build it: python -m producer index CORPUS -o")


@pytest.mark.parametrize(
    ("left", "found_text"),
    [(None, "is missing."), (b"cut", "is damaged or belongs to another index (SHA-256")],
    ids=["missing", "cut off"],
)
def test_check_says_that_a_copy_of_an_index_is_incomplete(tmp_path: Path, left: bytes | None, found_text: str) -> None:
    index = build_test_index(tmp_path / "facts", ["Iron rusts."])
    passages = index / "passages.arrow"
    passages.unlink() if left is None else passages.write_bytes(left)
    (found,) = [each for each in check([settings(index)], Machine([], [0])) if each.what == "index"]
    assert found.level == "error"
    assert found.found.startswith(f"{passages}: {found_text}")
    assert found.remedy.startswith("Copy the whole index folder again")
