"""Corpora: what becomes a passage, how it is called, and what a person reads where one cannot be."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.errors import QuestionFileError
from contract.index import Chunking, StoredPassage
from producer.corpus import chunks
from producer.corpus.chunks import cut
from producer.corpus.document import Document
from producer.corpus.read import Corpus, Unfit
from producer.corpus.store import store_passages
from producer.corpus.validation import DocumentCheck

ROWS = [
    {"id": "iron", "text": "Iron rusts.", "path": "metals/iron.md"},
    {"id": "zinc", "text": "Zinc, however, does not.", "path": ""},
]


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def documents(path: Path) -> list[Document]:
    """The documents of a corpus, all of which are good."""
    return documents_of(Corpus(path))


def documents_of(corpus: Corpus) -> list[Document]:
    return list(DocumentCheck(corpus.path).good(corpus.documents()))


def document(text: str, name: str = "d") -> Document:
    return Document(name, text, "", "", "made up", None)


def texts(text: str, **chunking: Any) -> list[str]:
    return [each.text for each in cut(document(text), Chunking(**chunking))]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
def test_every_format_says_the_same_documents(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"corpus.{suffix}"
    if suffix == "jsonl":
        write(path, *ROWS)
    elif suffix == "json":
        path.write_text(json.dumps(ROWS, indent=2))
    elif suffix == "csv":
        write(path, "id,text,path", "iron,Iron rusts.,metals/iron.md", '"zinc","Zinc, however, does not.",')
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    found = [{"id": each.id, "text": each.text, "path": each.path} for each in documents(path)]
    assert found == ROWS


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corpus.tsv", "id\ttext\tpath\niron\tIron rusts.\tmetals/iron.md\nzinc\tZinc, however, does not.\t\n"),
        ("corpus.csv", "id;text;path\niron;Iron rusts.;metals/iron.md\nzinc;Zinc, however, does not.;\n"),
    ],
)
def test_a_table_may_have_tabs_or_semicolons_between_its_cells(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    found = [{"id": each.id, "text": each.text, "path": each.path} for each in documents(tmp_path / name)]
    assert found == ROWS


def test_a_table_of_texts_alone_and_one_of_very_long_ones_are_read(tmp_path: Path) -> None:
    long = "word " * 60_000
    assert [each.text for each in documents(write(tmp_path / "c.csv", "text", "one; two", long))] == [
        "one; two",
        long.strip(),
    ]


@pytest.mark.parametrize("table", [b"text\rone\rtwo\r", b"sep=;\ntext\none\ntwo\n"])
def test_a_table_of_texts_alone_is_read_as_spreadsheets_write_it(tmp_path: Path, table: bytes) -> None:
    (tmp_path / "c.csv").write_bytes(table)
    assert [each.text for each in documents(tmp_path / "c.csv")] == ["one", "two"]


def test_documents_in_an_object_are_called_by_their_keys(tmp_path: Path) -> None:
    by_id = {"iron": {"title": "Iron", "text": "It rusts."}, "7": {"id": "zinc", "text": "Zinc does not."}}
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps(by_id))
    corpus = Corpus(path)
    assert [(each.id, each.text) for each in documents_of(corpus)] == [
        ("iron", "It rusts."),
        ("zinc", "Zinc does not."),
    ]
    assert not corpus.lacks_ids


def test_entries_of_json_may_be_texts_alone(tmp_path: Path) -> None:
    listed, by_id = tmp_path / "listed.json", tmp_path / "by-id.json"
    listed.write_text('["Iron rusts.", "Zinc does not."]')
    by_id.write_text('{"iron": "Iron rusts.", "zinc": "Zinc does not."}')
    of_list, of_object = Corpus(listed), Corpus(by_id)
    assert [each.text for each in documents_of(of_list)] == ["Iron rusts.", "Zinc does not."]
    assert [(each.id, each.text) for each in documents_of(of_object)] == [
        ("iron", "Iron rusts."),
        ("zinc", "Zinc does not."),
    ]
    assert (of_list.lacks_ids, of_object.lacks_ids) == (True, False)


def test_a_packed_corpus_says_the_same_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", *ROWS)
    packed = tmp_path / "corpus.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [each._replace(shown="") for each in documents(packed)] == [
        each._replace(shown="") for each in documents(path)
    ]


def test_a_packed_corpus_that_is_cut_short_is_told_so(tmp_path: Path) -> None:
    packed = tmp_path / "corpus.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(b'{"text": "%d"}\n' % number for number in range(9999)))[:-999])
    with pytest.raises(QuestionFileError, match=r"corpus\.jsonl\.gz: the compressed data is damaged or truncated"):
        documents(packed)


def test_fields_by_other_names_become_parts_of_a_document(tmp_path: Path) -> None:
    rows = (
        {"pmid": 7, "title": "Iron", "abstract": "It rusts.", "year": 1999},
        {"pmid": 8, "title": None, "abstract": "It does not."},
        {"pmid": 9, "abstract": "It floats."},
    )
    mapping = {"id": ["pmid"], "text": ["title", "abstract"]}
    corpus = Corpus(write(tmp_path / "c.jsonl", *rows), mapping=mapping)
    assert [(each.id, each.text) for each in documents_of(corpus)] == [
        ("7", "Iron\nIt rusts."),
        ("8", "It does not."),
        ("9", "It floats."),
    ]
    assert corpus.left_alone() == ["year"]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"id": ["pmidd"]}, "field 'pmidd': no document has such a field; found pmid, title, text. Did you mean"),
        ({"text": ["title", "txet"]}, "field 'txet': no document has such a field"),
        ({"path": ["file"]}, "field 'file': no document has such a field"),
        ({"text": ["body"]}, "field 'body': no document has such a field"),
    ],
)
def test_a_mapped_field_that_no_document_has_refuses_the_corpus(
    tmp_path: Path, mapping: dict[str, list[str]], message: str
) -> None:
    path = write(tmp_path / "c.jsonl", {"pmid": 7, "title": "Iron", "text": "It rusts."})
    with pytest.raises(QuestionFileError) as trouble:
        list(DocumentCheck(path, lambda _: None).good(Corpus(path, mapping=mapping).documents()))
    assert str(trouble.value).startswith(f"{path}: {message}")


def test_texts_in_another_encoding_are_read_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "café.txt").write_bytes("Crème brûlée".encode("cp1252"))
    with pytest.raises(QuestionFileError, match="If it should read 'Crème brûlée', add --encoding cp1252"):
        documents(tmp_path / "texts")
    assert documents_of(Corpus(tmp_path / "texts", "cp1252"))[0].text == "Crème brûlée"


MESS = (
    {"id": "a", "text": "one"},
    {"id": "b", "text": ""},
    {"id": "a", "text": "two"},
    "{",
    {"id": "c", "text": " "},
    {"id": "d", "text": "three"},
)


def test_all_bad_documents_are_told_together_and_counted_by_kind(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", *MESS)
    with pytest.raises(QuestionFileError) as trouble:
        documents(path)
    text = str(trouble.value)
    assert text.startswith(f"{path}: 4 of 6 documents are bad; correct them, or skip them with --skip-bad:\n")
    listed = text.splitlines()[1:-1]
    assert [line.split(": ")[0].strip() for line in listed] == [f"{path}:{at}" for at in (2, 3, 4)]
    assert listed[0].endswith("The same in 1 more: line 5")
    assert text.endswith("by kind: 2 × text: the passage is empty; 1 × id: duplicate; 1 × malformed JSON")


def test_bad_documents_that_have_a_place_leave_the_good_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", *MESS)
    bad: list[dict[str, Any]] = []
    gate = DocumentCheck(path, bad.append)
    assert [(each.id, each.text) for each in gate.good(Corpus(path).documents())] == [("a", "one"), ("d", "three")]
    assert (gate.rows, gate.troubles.count) == (6, 4)
    assert [(each["line"], each["kind"]) for each in bad] == [
        (2, "the passage is empty"),
        (3, "duplicate"),
        (4, "malformed JSON"),
        (5, "the passage is empty"),
    ]
    assert bad[1]["row"] == MESS[2]


def test_passages_that_repeat_a_text_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "x"}, {"id": "c", "text": "y"})
    assert store_passages(documents(path), Chunking(), tmp_path / "p.arrow", path).repeated == 1


def test_a_folder_gives_its_texts_by_their_path(tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.MD", "a/notes.pdf", ".hidden.txt", ".git/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}\n")
    corpus = Corpus(tmp_path)
    found = [(each.id, each.path, each.text) for each in documents_of(corpus)]
    assert found == [("a/c.MD", "a/c.MD", "text of a/c.MD"), ("b.txt", "b.txt", "text of b.txt")]
    assert corpus.other_files == {".pdf": 1}


def test_links_in_a_folder_are_read_or_told(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    for each in (folder, elsewhere):
        each.mkdir()
        (each / "a.txt").write_text(f"text of {each.name}")
    for name, to in (("b.txt", elsewhere / "a.txt"), ("c.txt", "nowhere"), ("d", elsewhere), ("e", folder)):
        (folder / name).symlink_to(to)
    os.mkfifo(folder / "f.txt")

    read = list(Corpus(folder).documents())

    assert [each.text for each in read if isinstance(each, Document)] == ["text of corpus", "text of elsewhere"]
    assert [str(each.trouble).partition(": ")[2] for each in read if isinstance(each, Unfit)] == [
        "is a link that leads to no file. Correct or remove the link.",
        "is a link to a folder, and these are not followed. Put the folder itself there, or remove the link.",
        "is a link to a folder, and these are not followed. Put the folder itself there, or remove the link.",
    ]


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "a"))

    (tmp_path / "a").mkdir()
    (tmp_path / "b.txt").write_text("Iron rusts.")
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: fail(path) if Path(path).name == "a" else scan(path))
    with pytest.raises(QuestionFileError, match=r"/a: cannot be read: Permission denied"):
        documents(tmp_path)


def test_a_file_whose_name_cannot_be_an_id_is_a_bad_document(tmp_path: Path) -> None:
    for name in (b"a\xff.txt", b"b.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("Iron rusts.")
    with pytest.raises(QuestionFileError, match=r"a\\xff\.txt: the file's name is not UTF-8\. Rename the file\."):
        documents(tmp_path)


def test_a_folder_without_texts_is_told_to_have_other_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "README"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(QuestionFileError) as trouble:
        documents(tmp_path)
    assert "has no .txt or .md files, but 2 .jsonl, 1 without a suffix. Name a file" in str(trouble.value)


def test_words_of_beir_and_pyserini_and_numbers_as_ids_are_understood(tmp_path: Path) -> None:
    rows = ({"_id": "x", "title": "T", "text": "one"}, {"id": 7, "contents": "two"})
    found = documents(write(tmp_path / "c.jsonl", *rows))
    assert [(each.id, each.text) for each in found] == [("x", "one"), ("7", "two")]


def test_without_an_id_a_document_is_called_by_its_text(tmp_path: Path) -> None:
    first = documents(write(tmp_path / "c.jsonl", {"text": "one"}, {"text": "two"}))
    again = documents(write(tmp_path / "c.jsonl", {"text": "zero"}, {"text": "two"}))
    assert first[1].id == again[1].id
    assert first[0].id != first[1].id


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "b", "text": " \n"}, "c.jsonl:2: field 'text': the passage is empty. Add its text"),
        ({"id": "b", "texts": "x"}, "c.jsonl:2: field 'text': missing; found id, texts. Did you mean 'texts'?"),
        (
            {"id": "b", "body": "x"},
            "c.jsonl:2: field 'text': missing; found id, body. Put the passage's text",
        ),
        ({"id": "b", "text": 7}, "c.jsonl:2: field 'text': found 7, expected text."),
        ({"id": "b", "text": None}, "c.jsonl:2: field 'text': found None, expected text."),
        ({"id": True, "text": "x"}, "c.jsonl:2: field 'id': found True. An id is text or a whole number"),
        ({"id": " ", "text": "x"}, "c.jsonl:2: field 'id': found ' '."),
        ({"id": "b", "text": "x", "path": 7}, "c.jsonl:2: field 'path': found 7, expected text."),
        ("[1]", "c.jsonl:2: found [1], expected an object."),
        ("{", "c.jsonl:2: malformed JSON"),
        ('{"text": "\\ud800"}', "c.jsonl:2: field 'text': the text contains half a surrogate pair"),
        ('{"text": "x", "id": "\\ud800"}', "c.jsonl:2: field 'id': the text contains half a surrogate pair"),
        ('{"text": "x", "path": "\\ud800"}', "c.jsonl:2: field 'path': the text contains half a surrogate pair"),
    ],
)
def test_a_bad_passage_is_told_with_file_line_field_and_remedy(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "c.jsonl", {"id": "a", "text": "good"}, row)
    with pytest.raises(QuestionFileError) as trouble:
        documents(path)
    assert str(trouble.value).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.csv", "id,text\na,b,c\n", "c.csv:2: found 3 cells, expected 2."),
        ("c.csv", 'id,text\na,"b\n', "c.csv:2: malformed CSV"),
        ("c.csv", "id,text, text\na,b,c\n", "c.csv:1: header: there are two columns 'text'."),
        ("c.csv", '"id,text\na,b\n', "c.csv:1: malformed CSV: header"),
        ("c.csv", '"id,text\n' + "a,b\n" * 50_000, "c.csv:1: malformed CSV: header"),
        ("c.csv", "id,text\na,\n", "c.csv:2: field 'text': the passage is empty."),
        ("c.parquet", "no parquet", "c.parquet: malformed Parquet"),
        ("c.parquet.gz", "no parquet", "c.parquet.gz: unknown suffix '.parquet.gz'"),
        (
            "c.docx",
            "?",
            "c.docx: unknown suffix '.docx', expected .csv, .tsv, .json, .jsonl (",
        ),
        (
            "c.json",
            '[{"text": "a"},\n{"text": "b"]',
            "c.json:2: malformed JSON: Expecting ',' delimiter, at column 13. Correct the file there and repeat the",
        ),
        (
            "c.json",
            '[{"text": "a"},\n{"text": "b\nc"}]',
            "c.json:2: malformed JSON: Invalid control character, at column 12. Correct the file there and repeat the",
        ),
        ("c.json", '[{"text": "a"}, {"txt": "b"}]', "c.json:1: field 'text': missing; found txt. Did you mean 'txt'?"),
        (
            "c.json",
            '{"text": "a"}\n{"text": "b"}\n',
            "c.json:2: there is more text after the end, at column 1. Expected",
        ),
        (
            "c.json",
            '{"documents": [{"text": "a"}]}',
            "c.json:1: found [{'text': 'a'}] under 'documents', expected an object. If this list has the",
        ),
        ("c.json", '{"a": 7}', "c.json:1: found 7 under 'a', expected an object. Write it as an object"),
        ("c.json", '{"id": "a", "text": "x"}', "c.json:1: found 'x' under 'text', expected an object. Write it as"),
        ("c.json", '{"\\ud800": {"text": "x"}}', "c.json:1: field 'id': the text contains half a surrogate pair."),
        ("c.json", '{" ": {"text": "x"}}', "c.json:1: field 'id': found ' '. An id is text"),
        (
            "c.json",
            "text\na\n",
            "c.json:1: found 't' at the start of the file, at column 1. Expected one list of objects",
        ),
        ("folder/empty.md", "\n", "folder/empty.md: the file is empty."),
    ],
)
def test_a_bad_file_is_told_with_its_path(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(QuestionFileError) as trouble:
        documents(path if path.parent == tmp_path else path.parent)
    assert str(trouble.value).startswith(f"{tmp_path}/{message}")


def test_a_missing_corpus_is_told_with_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", *ROWS)
    with pytest.raises(QuestionFileError, match=r"no such file or folder\. Did you mean 'corpus\.jsonl'"):
        documents(tmp_path / "corpsu.jsonl")


@pytest.mark.parametrize(
    "rows", [({"id": "a", "text": "x"}, {"id": "a", "text": "y"}), ({"text": "x"}, {"text": "x "})]
)
def test_two_documents_of_one_id_are_refused(tmp_path: Path, rows: tuple[Any, ...]) -> None:
    path = write(tmp_path / "c.jsonl", *rows)
    with pytest.raises(QuestionFileError, match=r"c\.jsonl:2: field 'id': '.*' is already used on line 1\. Give each"):
        store_passages(DocumentCheck(path).good(Corpus(path).documents()), Chunking(), tmp_path / "p.arrow", path)


def test_a_corpus_without_a_passage_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl")
    with pytest.raises(QuestionFileError, match="contains no passages"):
        store_passages(DocumentCheck(path).good(Corpus(path).documents()), Chunking(), tmp_path / "p.arrow", path)


def test_a_document_that_is_not_cut_keeps_its_id() -> None:
    assert [*cut(document("One. Two.", "iron"), Chunking())] == [StoredPassage("iron", "iron", "", "", "One. Two.")]


def test_chunks_hold_so_many_tokens_and_repeat_so_many() -> None:
    assert texts("a b, c\nd e", tokens=3) == ["a b,", "c\nd e"]
    assert texts("a b, c\nd e", tokens=3, overlap=1) == ["a b,", ", c\nd", "d e"]
    assert texts("a b c d e", tokens=3, overlap=2) == ["a b c", "b c d", "c d e"]
    assert texts("a b", tokens=3, overlap=2) == ["a b"]
    assert texts("a b c", tokens=3, overlap=1) == ["a b c"]


def test_no_chunk_repeats_only_what_stood_before() -> None:
    for length in range(1, 30):
        words = [f"w{number}" for number in range(length)]
        chunks = [chunk.split() for chunk in texts(" ".join(words), tokens=7, overlap=3)]
        assert [word for number, chunk in enumerate(chunks) for word in chunk[3 if number else 0 :]] == words
        assert all(len(chunk) <= 7 for chunk in chunks)
        assert all(len(chunk) > 3 for chunk in chunks[1:])


def test_lines_are_not_looked_at_again_at_each_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 8,000 headings took 22 s to cut."""
    heading, looks = chunks._HEADING, []

    class Counted:
        def match(self, line: str) -> re.Match[str] | None:
            looks.append(line)
            return heading.match(line)

    monkeypatch.setattr(chunks, "_HEADING", Counted())
    texts("# One\n" * 100, by_heading=True)

    assert len(looks) == 100


def test_headings_begin_chunks_and_stay_with_their_text() -> None:
    text = "Before.\n# One\n## Inner\nText 1.\n\n```\n# no heading\n```\n### Two\nText 2.\n#hashtag\n# Three"
    assert texts(text, by_heading=True) == [
        "Before.",
        "# One\n## Inner\nText 1.\n\n```\n# no heading\n```",
        "### Two\nText 2.\n#hashtag",
        "# Three",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "```print(1)```",
        "```\n```python\n# no heading\n```",
        "````\n```\n# no heading\n````",
        "~~~ a`b\n# no heading\n~~~~",
    ],
)
def test_headings_after_code_begin_chunks_however_the_code_is_marked(code: str) -> None:
    assert texts(f"# One\n{code}\n# Two\nText.", by_heading=True) == [f"# One\n{code}", "# Two\nText."]


def test_a_long_section_is_cut_further() -> None:
    assert texts("# A\none two three\n# B\nfour", by_heading=True, tokens=3) == ["# A\none", "two three", "# B\nfour"]


def test_ids_of_chunks_stay_when_documents_are_added() -> None:
    chunking = Chunking(tokens=2)
    alone = [*cut(document("one two three", "old"), chunking)]
    others = [document("something else entirely", "aaa"), document("one two three", "old"), document("new", "zzz")]
    together = [passage for each in others for passage in cut(each, chunking)]
    assert [each.id for each in alone] == ["old#1", "old#2"]
    assert set(alone) < set(together)
    assert len({each.id for each in together}) == len(together)


def test_a_long_text_is_cut_in_the_memory_of_a_few_of_its_passages(tmp_path: Path) -> None:
    long = document("a few words " * 60_000, "long")
    tracemalloc.start()
    try:
        stored = store_passages([long], Chunking(tokens=6, overlap=2), tmp_path / "p.arrow", tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored.counts.passages == 45_000
    assert most < 8_000_000
