"""`python -m producer index`: what becomes of the folder, of an index that is there, and of what cannot be built."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contract.index import MANIFEST, Bm25Options, Chunking, IndexSize, Words, read_manifest
from producer.cli import main
from producer.corpus.index_folder import unfinished
from producer.corpus.progress import Steps
from producer.index import _build, _show_event
from tests.support import ROOT
from workers.retrieval.build import build_index
from workers.retrieval.load import load_index


@pytest.fixture(autouse=True)
def _builder_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder is a process of its own, but not in most of these tests: to start it takes longer than they do."""

    def build(folder: Path, device: str, steps: Steps) -> None:
        def report(**event: object) -> None:
            _show_event(event, steps)

        build_index(folder, report, device)

    monkeypatch.setattr("producer.index._build", build)


@pytest.fixture
def builder_apart(_builder_is_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder as it is; and it finds our packages, though tests run in a folder of their own."""
    monkeypatch.setattr("producer.index._build", _build)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path, "Iron rusts.", "Zinc does not.")


def write_corpus(folder: Path, *texts: str) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": f"p{at}", "text": text}) + "\n" for at, text in enumerate(texts)))
    return path


def index(*words: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["index", *map(str, words)])
    assert result.exit_code == exit_code, result.output
    return result


def index_json(*words: object) -> Any:
    return json.loads(index(*words, "--json").stdout)


def beside(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


@pytest.mark.usefixtures("builder_apart")
def test_a_corpus_becomes_an_index_with_a_manifest(corpus: Path) -> None:
    options = ("--kind", "bm25", "--stop-words", "none", "--words", "any", "--k1", "0.9", "--b", "0.4")
    told = index_json(corpus, "-o", "indexes/Facts 1", *options)
    manifest = read_manifest(Path("indexes/Facts 1"))
    assert told["digest"] == manifest.digest
    assert (manifest.plan.name, manifest.plan.counts) == ("facts-1", IndexSize(documents=2, passages=2))
    assert manifest.plan.bm25 == Bm25Options(stop_words="none", words=Words.ANY, k1=0.9, b=0.4)
    assert beside(Path("indexes")) == {"Facts 1"}


def test_the_same_corpus_indexed_again_has_the_same_digest_and_another_has_not(tmp_path: Path, corpus: Path) -> None:
    first, second = index_json(corpus, "-o", "a"), index_json(corpus, "-o", "b")
    write_corpus(tmp_path, "Iron rusts.", "Zinc does not!")
    third = index_json(corpus, "-o", "c")
    assert first["digest"] == second["digest"] != third["digest"]


def test_an_index_is_replaced_by_the_new_one_and_kept_beside_it_until_the_next(tmp_path: Path, corpus: Path) -> None:
    old = index_json(corpus, "-o", "x")["digest"]
    write_corpus(tmp_path, "Iron rusts.")
    new = index_json(corpus, "-o", "x")["digest"]
    index(corpus, "-o", "x")
    assert [read_manifest(Path(each)).digest for each in ("x", "x.replaced")] == [new, old]
    write_corpus(tmp_path, "Iron does not.")
    index(corpus, "-o", "x")
    assert read_manifest(Path("x.replaced")).digest == new
    assert beside(tmp_path) == {"corpus.jsonl", "x", "x.replaced"}


@pytest.mark.parametrize("unreadable", ["old", "new"])
def test_an_index_that_is_replaced_is_kept_also_where_nobody_can_read_now_whether_it_differs(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    """It was deleted, although a run may need it."""
    old = index_json(corpus, "-o", "x")["digest"]
    write_corpus(tmp_path, "Iron rusts.")
    new = index_json(corpus, "-o", "new")["digest"]
    read = Path.read_text

    def failing(path: Path, *how: Any, **more: Any) -> str:
        if (path == tmp_path / "x" / MANIFEST) if unreadable == "new" else path.parent.suffix == ".outgoing":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return read(path, *how, **more)

    with unfinished(Path("x")) as folder:
        shutil.copytree("new", folder, dirs_exist_ok=True)
        monkeypatch.setattr(Path, "read_text", failing)
    monkeypatch.undo()
    assert {name: read_manifest(tmp_path / name).digest for name in ("x", "x.replaced")} == {
        "x": new,
        "x.replaced": old,
    }


def test_an_index_that_cannot_be_kept_beside_the_new_one_is_told_with_both_places(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a hidden folder and the system's error were told, as if nothing had been replaced."""
    old = index_json(corpus, "-o", "x")["digest"]
    write_corpus(tmp_path, "Iron rusts.")
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if target.suffix == ".replaced":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    told = index(corpus, "-o", "x", exit_code=1).stderr
    monkeypatch.undo()
    (hidden,) = (name for name in beside(tmp_path) if name.endswith(".outgoing"))
    assert f"error: {tmp_path / 'x'} is the new index, but the one before it cannot be renamed to x.replaced" in told
    assert f"{hidden} is moved there by the next build" in told
    new = read_manifest(tmp_path / "x").digest
    monkeypatch.chdir(tmp_path)
    index(corpus, "-o", "x")
    assert [read_manifest(tmp_path / name).digest for name in ("x", "x.replaced")] == [new, old]


def test_a_folder_that_cannot_be_listed_is_one_line(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x").mkdir()

    def failing(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "iterdir", failing)
    assert index(corpus, "-o", "x", exit_code=1).stderr == (
        "error: x: Input/output error. Check the disk, or the server, that has it.\n"
    )


def test_a_folder_of_something_else_that_is_replaced_is_not_kept(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "diary.txt").touch()
    index(corpus, "-o", "x", "--force")
    assert beside(tmp_path) == {"corpus.jsonl", "x"}


@pytest.mark.parametrize(("text", "message"), [("", "field 'text'"), ("the of", "No passage has a word")])
def test_an_index_stays_as_it_was_where_the_new_one_cannot_be_built(
    tmp_path: Path, corpus: Path, text: str, message: str, request: pytest.FixtureRequest
) -> None:
    before = index_json(corpus, "-o", "x")["digest"]
    request.getfixturevalue("builder_apart")  # which tells its error to another process
    write_corpus(tmp_path, text)
    result = index(corpus, "-o", "x", exit_code=1)
    assert f"{message}" in result.stderr
    assert "Traceback" not in result.stderr
    assert read_manifest(Path("x")).digest == before
    assert beside(tmp_path) == {"corpus.jsonl", "x"}


def test_a_folder_of_something_else_is_deleted_only_by_force(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    result = index(corpus, "-o", "thesis", exit_code=1)
    assert "thesis is not empty and not an index. Name another folder" in result.stderr
    assert beside(tmp_path / "thesis") == {"chapter1.tex"}
    index(corpus, "-o", "thesis", "--force")
    assert MANIFEST in beside(tmp_path / "thesis")


def test_a_folder_of_another_program_with_a_manifest_is_no_index(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / MANIFEST).write_text('{"manifest_version": 3, "name": "of a browser"}')
    (tmp_path / "extension" / "code.js").touch()
    result = index(corpus, "-o", "extension", exit_code=1)
    assert "extension is not empty and not an index. Name another folder" in result.stderr
    assert beside(tmp_path / "extension") == {MANIFEST, "code.js"}


def test_an_index_does_not_replace_the_folder_of_its_corpus_not_even_by_force(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_corpus(tmp_path / "data", "Iron is Fe.")
    for corpus in (Path("data"), Path("data") / "corpus.jsonl"):
        result = index(corpus, "-o", "data", "--force", exit_code=1)
        assert f"data has the corpus, {corpus}, which the index would replace. Name another folder" in result.stderr
    assert beside(tmp_path / "data") == {"corpus.jsonl"}
    missing = index(Path("data") / "no.jsonl", "-o", "data", "--force", exit_code=1)
    assert "has the corpus" not in missing.stderr, "there is none"


def test_what_a_killed_command_left_is_deleted_by_the_next_and_never_what_one_still_uses(
    tmp_path: Path, corpus: Path
) -> None:
    killed = f"""
import os, signal, pathlib
from producer.corpus.index_folder import unfinished
with unfinished(pathlib.Path({str(tmp_path / "x")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    left = beside(tmp_path) - {"corpus.jsonl"}
    assert [each.endswith(".unfinished") for each in left] == [True]

    with unfinished(Path("y")) as other, unfinished(Path("x")) as live:
        assert not left & beside(tmp_path)
        index(corpus, "-o", "x")
        assert live.is_dir()
        assert other.is_dir()
        (live / MANIFEST).touch()

    assert beside(tmp_path) == {"corpus.jsonl", "x", "y"}


@pytest.mark.parametrize("renamed", [1, 2])
def test_an_index_is_not_lost_by_a_command_that_is_killed_while_it_replaces_it(
    tmp_path: Path, corpus: Path, renamed: int
) -> None:
    old = index_json(corpus, "-o", "x")["digest"]
    write_corpus(tmp_path, "Iron rusts.")
    new = index_json(corpus, "-o", "new")["digest"]
    killed = f"""
import os, pathlib, shutil, signal
from producer.corpus.index_folder import unfinished
rename, done = pathlib.Path.rename, []
def rename_and_die(*paths):
    done.append(rename(*paths))
    if len(done) == {renamed}:
        os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.rename = rename_and_die
with unfinished(pathlib.Path({str(tmp_path / "x")!r})) as folder:
    shutil.copytree({str(tmp_path / "new")!r}, folder, dirs_exist_ok=True)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    shutil.rmtree(tmp_path / "new")

    write_corpus(tmp_path, "")
    index(corpus, "-o", "x", exit_code=1)

    there = {"x": old} if renamed == 1 else {"x": new, "x.replaced": old}
    assert beside(tmp_path) == {"corpus.jsonl", *there}
    assert {name: read_manifest(Path(name)).digest for name in there} == there


def test_commands_that_finish_at_once_replace_the_index_one_after_the_other(tmp_path: Path) -> None:
    def build(number: int) -> None:
        with unfinished(tmp_path / "x") as folder:
            (folder / MANIFEST).write_text(str(number))
            together.wait()

    for _ in range(50):
        together = Barrier(3)
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(build, range(3)))
        assert beside(tmp_path) == {"x"}


def test_the_current_folder_can_be_an_index_that_is_replaced(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index(corpus, "-o", "x")
    write_corpus(tmp_path, "Iron rusts.")
    monkeypatch.chdir("x")
    assert index_json(corpus, "-o", ".")["digest"] == read_manifest(tmp_path / "x").digest


@pytest.mark.parametrize("empty", ["CORPUS", "-o"])
def test_an_unset_variable_is_not_taken_for_the_current_folder(tmp_path: Path, corpus: Path, empty: str) -> None:
    (tmp_path / "thesis.md").write_text("Mine.")
    words = ("", "-o", "x") if empty == "CORPUS" else (corpus, "-o", "", "--force")
    said = index(*words, exit_code=2).stderr.splitlines()[-1]
    assert (empty in said, said.endswith(": it is empty.")) == (True, True)
    assert beside(tmp_path) == {"corpus.jsonl", "thesis.md"}


def test_a_file_is_never_replaced(corpus: Path) -> None:
    assert "is a file, expected a folder" in index(corpus, "-o", corpus, "--force", exit_code=1).stderr


def test_a_folder_of_texts_is_cut_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "long.md").write_text("word " * 400)
    assert index_json("texts", "-o", "cut")["plan"]["counts"]["passages"] == 3
    assert index_json("texts", "-o", "whole", "--tokens", 0)["plan"]["counts"]["passages"] == 1
    index("texts", "-o", "mine", "--tokens", 300, "--overlap", 50, "--by-heading")
    assert read_manifest(Path("mine")).plan.chunking == Chunking(tokens=300, overlap=50, by_heading=True)


def test_an_overlap_as_long_as_the_chunk_is_a_usage_error(corpus: Path) -> None:
    result = index(corpus, "-o", "x", "--tokens", 5, "--overlap", 5, exit_code=2)
    assert "overlap 5 must be smaller than tokens (5)" in result.stderr


def test_a_missing_corpus_leaves_nothing_behind(tmp_path: Path) -> None:
    assert "no such file or folder" in index("none.jsonl", "-o", "deep/x", exit_code=1).stderr
    assert beside(tmp_path / "deep") == set()


def test_bad_documents_are_skipped_only_when_asked_for_and_kept(corpus: Path) -> None:
    with corpus.open("a") as file:
        file.write('{"id": "p0", "text": "Iron again."}\n{"id": "p2", "text": "", "title": "Nothing"}\n')
    refused = index(corpus, "-o", "x", exit_code=1)
    assert "2 of 4 documents are bad; correct them, or skip them with --skip-bad:" in refused.stderr
    told = index(corpus, "-o", "x", "--skip-bad").stdout
    assert "skipped   2 documents: 1 × id: duplicate, 1 × text: the passage is empty; see x/rejected" in told
    assert "ignored   title; add fields to the passages" in told
    rejected = [json.loads(line) for line in Path("x/rejected.jsonl").read_text().splitlines()]
    assert [(each["line"], each["row"]["id"]) for each in rejected] == [(3, "p0"), (4, "p2")]


def test_what_was_left_out_is_no_part_of_the_index(corpus: Path) -> None:
    with corpus.open("a") as file:
        file.write('{"id": "p2", "text": ""}\n')
    index(corpus, "-o", "x", "--skip-bad")
    Path("x/rejected.jsonl").unlink()
    assert [each.id for each in load_index(Path("x")).search(["zinc"], 1)[0]] == ["p1"]


def test_a_corpus_of_bad_documents_alone_is_refused(tmp_path: Path) -> None:
    result = index(write_corpus(tmp_path, "", " "), "-o", "x", "--skip-bad", exit_code=1)
    assert "contains no passages" in result.stderr
    assert beside(tmp_path) == {"corpus.jsonl"}


def test_a_title_is_indexed_with_the_text_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"pmid": 7, "title": "Iron", "abstract": "It rusts."}\n')
    index("corpus.jsonl", "-o", "x", "--map", "id=pmid,text=title+abstract")
    assert [(each.id, each.text) for each in load_index(Path("x")).search(["iron"], 1)[0]] == [("7", "Iron\nIt rusts.")]
    assert "'txt=abstract' is not PART=FIELD. Did you mean 'text'?" in (
        index("corpus.jsonl", "-o", "x", "--map", "txt=abstract", exit_code=1).stderr
    )


def test_passages_with_the_same_text_are_told(tmp_path: Path) -> None:
    told = index(write_corpus(tmp_path, "Iron rusts.", "Iron rusts.", "Zinc."), "-o", "x").stdout
    assert "repeats   1 passage with exactly the same text as another" in told
    assert "the graph" not in told


@pytest.mark.usefixtures("builder_apart")
def test_passages_with_the_same_text_are_told_to_hide_others_in_a_graph(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, "Iron rusts.", "Iron rusts.", "Zinc.")
    told = index(corpus, "-o", "x", "--kind", "dense", "--structure", "hnsw").stdout
    assert "the graph also misses others: use --structure exact" in " ".join(told.split())


def test_documents_without_ids_are_told_to_be_called_by_their_texts(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "named.jsonl").write_text('{"docid": "d1", "text": "Iron rusts."}\n')
    told = index("named.jsonl", "-o", "x").stdout
    assert "ids       hashes of the texts, as there is no field id or _id; if another has them, add" in told
    assert "ids  " not in index("named.jsonl", "-o", "x", "--map", "id=docid").stdout
    assert "ids  " not in index(corpus, "-o", "x").stdout


def test_files_of_a_folder_that_are_no_texts_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a.md", "b.html", "c.html"):
        (folder / name).write_text("Iron rusts.")
    assert "ignored   2 .html files: only .txt and .md are read" in index(folder, "-o", "x").stdout
    assert index_json(folder, "-o", "x")["files_left_alone"] == {".html": 2}


def test_a_text_is_a_document_that_is_cut_as_in_a_folder(tmp_path: Path) -> None:
    """`.md` was an unknown suffix: a single handbook needed a folder of its own."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "handbook.md").write_text("Iron rusts. " * 200)
    of_file, of_folder = (index_json(each, "-o", "x") for each in (folder / "handbook.md", folder))
    assert of_file["plan"]["counts"]["passages"] > 1
    assert of_file["digest"] == of_folder["digest"]
    (folder / "empty.txt").write_text("")
    assert "notes/empty.txt: the file is empty." in index("notes/empty.txt", "-o", "x", exit_code=1).stderr
    assert "notes/none.txt: no such file" in index("notes/none.txt", "-o", "x", exit_code=1).stderr


@pytest.mark.parametrize("name", ["notes", "notes/a.md"])
def test_fields_of_texts_cannot_be_mapped(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Iron rusts.")
    assert "--map: texts have no fields" in index(name, "-o", "x", "--map", "text=body", exit_code=2).stderr


@pytest.mark.parametrize(("option", "value"), [("--k1", "nan"), ("--k1", "inf"), ("--b", "nan"), ("--b", "1.1")])
def test_a_parameter_of_bm25_that_is_no_such_number_is_a_usage_error(corpus: Path, option: str, value: str) -> None:
    told = index(corpus, "-o", "x", option, value, exit_code=2).stderr
    assert option in told
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        ("bm25", "--encoder", "all-minilm-l6-v2"),
        ("bm25", "--query-prompt", "query: "),
        ("bm25", "--passage-prompt", "passage: "),
        ("bm25", "--structure", "exact"),
        ("bm25", "--precision", "binary"),
        ("bm25", "--device", "cpu"),
        ("dense", "--stop-words", "none"),
        ("dense", "--words", "any"),
        ("dense", "--k1", "0.9"),
        ("dense", "--b", "0.4"),
    ],
)
def test_an_option_of_the_other_kind_of_search_is_a_usage_error(
    corpus: Path, kind: str, option: str, value: str
) -> None:
    told = index(corpus, "-o", "x", "--kind", kind, option, value, exit_code=2).stderr
    assert f"{option} has no effect with --kind {kind}" in told
