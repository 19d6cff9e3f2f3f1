"""Indexes as they are searched: ranks, ties, odd queries, and what a person reads where an index is not sound."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from contract.errors import IndexUnusable, InputError
from contract.index import PASSAGES, Bm25Options, Words
from contract.spec import IndexKind
from tests.support import build_test_index
from tests.unit.producer.conftest import room_per_file
from workers.retrieval.bm25 import build_bm25
from workers.retrieval.load import load_index
from workers.retrieval.memory import available_bytes
from workers.retrieval.passages import Passages
from workers.retrieval.ranking import best

WORDS = [
    f"{first}{last}" for first in ("al", "be", "ci", "do", "em", "fa") for last in ("ra", "to", "mi", "sun", "vex")
]
QUERIES = ("alra beto the citomi", "emsun emsun fara", "dovex alra of bera fami cimi", "Favex, and BESUN?")
TEXTS = [
    "Iron rusts when it meets water and air.",
    "Water boils at 100 degrees Celsius.",
    "Copper conducts electricity well.",
    "Water freezes at 0 degrees Celsius.",
]


def random_texts(count: int) -> list[str]:
    """Texts of made-up words whose scores differ: each has a length of its own."""
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, weights=range(1, len(WORDS) + 1), k=5 + number)) for number in range(count)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_test_index(tmp_path_factory.mktemp("indexes") / "small", TEXTS)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (Bm25Options(), {}),
        (Bm25Options(stop_words="none"), {}),
        (Bm25Options(k1=0.9, b=0.4), {"k1": 0.9, "b": 0.4}),
    ],
    ids=str,
)
def test_bm25_ranks_and_scores_equal_bm25s_run_by_hand(
    tmp_path: Path, options: Bm25Options, parameters: dict[str, float]
) -> None:
    import bm25s

    texts = [f"the {text}" for text in random_texts(200)]
    ours = load_index(build_test_index(tmp_path / "x", texts, bm25=options))

    language = None if options.stop_words == "none" else options.stop_words
    by_hand = bm25s.BM25(**parameters)
    by_hand.index(bm25s.tokenize(texts, stopwords=language, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(QUERIES), stopwords=language, show_progress=False)
    positions, scores = by_hand.retrieve(asked, k=10, show_progress=False)

    for found, expected, values in zip(ours.search(QUERIES, 10), positions, scores, strict=True):
        assert [each.id for each in found] == [f"p{position}" for position in expected]
        assert [each.score for each in found] == pytest.approx(values.tolist())


def test_a_passage_comes_with_rank_score_document_and_text(small: Path) -> None:
    (found,) = load_index(small).search(["Does copper conduct?"], 2)
    assert [(each.id, each.document, each.rank, each.text) for each in found] == [("p2", "p2", 1, TEXTS[2])]
    assert found[0].score > 0


def test_of_an_index_that_was_stored_in_several_writes_every_passage_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all with more passages than one write takes."""
    monkeypatch.setattr("producer.corpus.store.BATCH", 2)
    index = load_index(build_test_index(tmp_path / "x", WORDS[:7]))
    found = [(each.id, each.text) for answer in index.search(WORDS[6::-1], 1) for each in answer]
    assert found == [(f"p{number}", WORDS[number]) for number in range(6, -1, -1)]
    assert len(Passages(tmp_path / "x" / PASSAGES)) == 7


def test_queries_of_a_batch_are_answered_in_order_and_as_if_each_were_asked_alone(small: Path) -> None:
    index = load_index(small)
    queries = ["water", "", "copper", "celsius degrees"]
    assert index.search(queries, 3) == [index.search([query], 3)[0] for query in queries]


@pytest.mark.parametrize("query", ["", "  \n", "zinc", "the of", "?!"])
def test_a_query_without_a_word_of_the_corpus_finds_nothing(small: Path, query: str) -> None:
    assert load_index(small).search([query], 5) == [[]]


def test_no_queries_find_nothing(small: Path) -> None:
    assert load_index(small).search([], 5) == []


def test_asked_for_more_than_there_are_all_that_share_a_word_come(small: Path) -> None:
    (found,) = load_index(small).search(["water copper iron"], 1000)
    assert {each.id for each in found} == {"p0", "p1", "p2", "p3"}


def test_equal_scores_come_in_the_passages_order_at_the_edge_too(tmp_path: Path) -> None:
    index = load_index(build_test_index(tmp_path / "x", ["red blue"] * 5 + ["red red blue"] + ["red blue"] * 5))
    assert [each.id for each in index.search(["red"], 4)[0]] == ["p5", "p0", "p1", "p2"]


def test_the_best_are_those_with_the_highest_scores_and_ties_by_position() -> None:
    draw = np.random.default_rng(1)
    for top_k in (1, 3, 50, 99):
        positions, scores = draw.permutation(50), draw.integers(0, 8, 50).astype(np.float32)
        expected = sorted(zip(-scores, positions, strict=True))[:top_k]
        found = best(positions, scores, top_k)
        assert list(zip(-found.scores, found.positions, strict=True)) == expected


def test_an_index_by_words_cannot_be_asked_by_vectors(small: Path) -> None:
    with pytest.raises(IndexUnusable, match=r"is a bm25 index and cannot be searched as dense\. .*--kind dense"):
        load_index(small).search(["water"], 1, IndexKind.DENSE)


def test_passages_without_a_word_cannot_be_indexed_by_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No passage has a word to search by"):
        build_test_index(tmp_path / "x", ["the of", "a ?"])


@pytest.mark.parametrize("name", [PASSAGES, "bm25/data.csc.index.npy", "bm25/vocab.index.json"])
def test_a_damaged_file_is_told_with_its_path_and_the_remedy(tmp_path: Path, name: str) -> None:
    path = build_test_index(tmp_path / "x", TEXTS) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(IndexUnusable, match=r"is damaged or belongs to another index .* Copy the whole") as trouble:
        load_index(tmp_path / "x")
    assert trouble.value.path == str(path)


def test_a_missing_file_is_told_with_its_path_and_the_remedy(tmp_path: Path) -> None:
    path = build_test_index(tmp_path / "x", TEXTS) / PASSAGES
    path.unlink()
    with pytest.raises(IndexUnusable, match=r"is missing\. Copy the whole index folder again") as trouble:
        load_index(tmp_path / "x")
    assert trouble.value.path == str(path)


def test_a_disk_that_fails_while_an_index_is_verified_is_told_with_the_files_path(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's boot ended in a traceback, five times."""

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("hashlib.file_digest", fail)
    said = "/bm25/.* cannot be read: Input/output error. Check its permissions and its disk."
    with pytest.raises(IndexUnusable, match=said):
        load_index(small)


def test_passages_of_another_index_are_refused(tmp_path: Path) -> None:
    other = build_test_index(tmp_path / "other", TEXTS[:2]) / PASSAGES
    mine = build_test_index(tmp_path / "mine", TEXTS) / PASSAGES
    mine.write_bytes(other.read_bytes())
    with pytest.raises(IndexUnusable, match="belongs to another index"):
        load_index(tmp_path / "mine")


def test_an_open_index_that_is_written_over_in_place_has_changed(tmp_path: Path) -> None:
    opened = load_index(build_test_index(tmp_path / "x", TEXTS))
    build_test_index(tmp_path / "other", [text.upper() for text in TEXTS])
    assert not opened.changed()
    shutil.copytree(tmp_path / "other", tmp_path / "x", dirs_exist_ok=True)
    assert opened.changed()


def test_an_index_that_is_replaced_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_test_index(tmp_path / "x", TEXTS)

    def meanwhile(path: Path) -> Passages:
        shutil.rmtree(folder)
        shutil.copytree(build_test_index(tmp_path / "another", TEXTS), folder)
        return Passages(path)

    monkeypatch.setattr("workers.retrieval.load.Passages", meanwhile)
    with pytest.raises(IndexUnusable, match="was changed while being opened"):
        load_index(folder)


@pytest.mark.parametrize("moved_to", ["x.replaced", None])
def test_an_open_index_that_is_renamed_or_deleted_is_searched_as_it_was(tmp_path: Path, moved_to: str | None) -> None:
    opened = load_index(build_test_index(tmp_path / "x", TEXTS))
    before = opened.search(["water copper"], 5)
    if moved_to:
        (tmp_path / "x").rename(tmp_path / moved_to)
    else:
        shutil.rmtree(tmp_path / "x")
    build_test_index(tmp_path / "x", ["Water, copper."])
    assert not opened.changed()
    assert opened.search(["water copper"], 5) == before


def test_a_build_says_that_words_of_some_scripts_are_not_told_apart(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    build_test_index(
        tmp_path / "x", ["高血压是一种常见的慢性疾病", "Iron rusts, 鉄 too.", "โรคเบาหวานเป็นโรค", "قوة"], told=told
    )
    (note,) = (event["note"] for event in told if "note" in event)
    assert str(note).startswith("2 of 4 passages with text in a script without spaces between words: BM25 takes")
    assert load_index(tmp_path / "x").search(["慢性疾病"], 3) == [[]]


def test_a_build_says_that_words_end_at_combining_marks(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    hindi, accents_apart = "\u0939\u093f\u0928\u094d\u0926\u0940", "Male\u0301"
    build_test_index(tmp_path / "x", [hindi, accents_apart, "Mal\u00e9", "I \u2764\ufe0f tea"], told=told)
    (note,) = (event["note"] for event in told if "note" in event)
    assert str(note).startswith("2 of 4 passages with combining marks")


def test_a_build_says_that_words_are_cut_at_soft_hyphens(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    build_test_index(tmp_path / "x", ["Infor\u00admation theory", "Iron rusts."], told=told)
    (note,) = (event["note"] for event in told if "note" in event)
    assert str(note).startswith("1 of 2 passages with soft hyphens (U+00AD)")
    assert load_index(tmp_path / "x").search(["information"], 3) == [[]]


@pytest.mark.parametrize(
    ("passage", "query"),
    [
        pytest.param("高血压是一种常见的慢性疾病。", "哪一种慢性疾病最常见?", id="Chinese"),
        pytest.param("東京は日本の首都です。", "日本の首都はどこですか?", id="Japanese"),
        pytest.param("서울은 대한민국의 수도이다.", "대한민국 수도", id="Korean"),
        pytest.param("โรคเบาหวานเป็นโรคเรื้อรัง", "เบาหวาน", id="Thai"),
        pytest.param("कार्बन की परमाणु संख्या 6 है", "कार्बन", id="Hindi"),
        pytest.param("Male\u0301 fills an island.", "Mal\u00e9", id="accents of their own"),
        pytest.param("Infor\u00admation theory", "information", id="soft hyphens"),
        pytest.param("GPT模型", "gpt", id="two scripts side by side"),
        pytest.param("Ｈ２Ｏ", "H2O", id="full width"),
    ],
)
def test_with_words_of_any_script_a_passage_is_found_by_them(tmp_path: Path, passage: str, query: str) -> None:
    told: list[dict[str, object]] = []
    texts = ["上海位于长江入海口。", passage, "เชียงใหม่", "लोहे में जंग", "부산 바다"]
    index = load_index(build_test_index(tmp_path / "x", texts, bm25=Bm25Options(words=Words.ANY), told=told))
    assert [each.id for each in index.search([query], 1)[0]] == ["p1"]
    assert not [event for event in told if "note" in event]


def test_words_of_texts_with_spaces_are_the_same_ones_in_either_way(tmp_path: Path) -> None:
    texts = [*random_texts(50), "E=mc2, it's snake_case; 4.5 of 10,000", "L'été à Köln"]
    spaced, any_script = (
        load_index(build_test_index(tmp_path / words, texts, bm25=Bm25Options(words=words))) for words in Words
    )
    queries = [*QUERIES, "mc2 snake_case 10 000", "été Köln"]
    assert any_script.search(queries, 5) == spaced.search(queries, 5)


def test_words_that_do_not_fit_on_the_disk_are_told_with_their_folder(tmp_path: Path) -> None:
    with room_per_file(1000), pytest.raises(InputError, match=r"/bm25: cannot be written: .* Check the disk space"):
        build_bm25(random_texts(100), Bm25Options(), tmp_path / "bm25")


def test_words_of_which_only_the_last_bytes_do_not_fit_on_the_disk_are_no_index(tmp_path: Path) -> None:
    """NumPy does not tell that it could not write them: a broken index took the place of the one before."""
    build_bm25(random_texts(100), Bm25Options(), tmp_path / "whole")
    size_bytes = (tmp_path / "whole" / "data.csc.index.npy").stat().st_size
    with (
        room_per_file(size_bytes - 1),
        pytest.raises(InputError, match=r"/bm25: cannot be written: the end is missing\. Check the disk space"),
    ):
        build_bm25(random_texts(100), Bm25Options(), tmp_path / "bm25")


@pytest.mark.parametrize(("kind", "what"), [("bm25", "The words of 4 passages"), ("dense", "Vectors of 4 passages")])
def test_a_build_that_does_not_fit_into_memory_says_so_before_it_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, what: str
) -> None:
    monkeypatch.setattr("workers.retrieval.build.CHECK_EVERY", 1)
    monkeypatch.setattr("workers.retrieval.memory.available_bytes", lambda: -(10**9))
    with pytest.raises(
        InputError, match=rf"{what} need about .* GB more memory, but -1\.0 GB are available\. Build on"
    ):
        build_test_index(tmp_path / "x", TEXTS, kind)


def test_a_build_may_take_what_its_container_leaves_or_the_machine_where_that_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.retrieval.memory.CGROUP", tmp_path)
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("2000\n")
    assert available_bytes() == 1300, "files that were only read make room"
    (tmp_path / "memory.max").write_text("max\n")
    assert available_bytes() > 2000
