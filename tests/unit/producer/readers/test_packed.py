"""Compressed files and zips are unpacked as they are read; what is packed otherwise, or is no text, is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from contract.errors import QuestionFileError
from producer.readers import Source, understand
from tests.unit.producer.readers.reading import CSV, JSONL, ROWS, questions, read


def zstd(content: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"folder/{name}", content)
    return packed.getvalue()


def excel() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (gzip.compress(JSONL), "mcqueue's own JSONL (gzip)"),
        (zstd(JSONL[:50]) + zstd(JSONL[50:]), "mcqueue's own JSONL (zstandard)"),
        (b"\x50\x2a\x4d\x18\4\0\0\0size" + zstd(JSONL), "mcqueue's own JSONL (zstandard)"),
        (zipped(q=JSONL), "mcqueue's own JSONL (zip)"),
        (gzip.compress(CSV.encode("utf-16")), "MMLU CSV (UTF-16-LE, gzip)"),
        (zipped(q=CSV.encode("utf-8-sig")), "MMLU CSV (zip)"),
        (zipped(q=gzip.compress(JSONL)), "mcqueue's own JSONL (zip)"),
        (zipped(q=zstd(JSONL[:50]) + zstd(JSONL[50:])), "mcqueue's own JSONL (zip)"),
    ],
)
def test_packed_files_are_unpacked_as_they_are_read(tmp_path: Path, content: bytes, title: str) -> None:
    file = read(tmp_path, content)

    assert file.title == title
    assert [each.question for each in questions(file)] == [row["question"] for row in ROWS]
    assert [each.answer for each in questions(file)] == ["A", "B", "A"], "it can be read twice"


def test_parquet_in_a_zip_is_named_instead_of_left_out(tmp_path: Path) -> None:
    with pytest.raises(
        QuestionFileError, match=r"Parquet, which is not read from a zip: folder/b\.parquet\. Unpack it"
    ):
        read(tmp_path, zipped(**{"a.jsonl": JSONL, "b.parquet": b"PAR1"}))


def test_an_empty_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuestionFileError, match="the zip is empty"):
        read(tmp_path, zipped())


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(JSONL)[:-12],
        gzip.compress(JSONL)[:20] + b"\x00" * 30,
        zstd(JSONL)[:12],
        zstd(JSONL)[:10] + b"\xff" * 40,
        zipped(q=JSONL)[:-10],
        zipped(q=gzip.compress(JSONL)[:-12]),
        zipped(q=zstd(JSONL)[:12]),
        b"PK\x03\x04 and nothing",
        b"PAR1 and nothing",
    ],
    # Not the bytes: in some is the second in which they were made, and each process makes its own.
    ids=[
        "gzip cut",
        "gzip overwritten",
        "zstd cut",
        "zstd overwritten",
        "zip cut",
        "gzip cut in a zip",
        "zstd cut in a zip",
        "no zip",
        "no parquet",
    ],
)
def test_damaged_packages_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(QuestionFileError, match="damaged or truncated"):
        list(read(tmp_path, content).rows())


def test_packed_parquet_is_named_as_such(tmp_path: Path) -> None:
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"question": "q"}]), written)

    with pytest.raises(QuestionFileError, match=r"is Parquet compressed as gzip.*Decompress it"):
        read(tmp_path, gzip.compress(written.getvalue()))


def test_a_tar_archive_is_named_as_such(tmp_path: Path) -> None:
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("q.jsonl")
        entry.size = len(JSONL)
        archive.addfile(entry, io.BytesIO(JSONL))

    with pytest.raises(QuestionFileError, match="is a tar archive"):
        read(tmp_path, packed.getvalue())


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(20), "old Excel file. Save it as CSV"),
        (excel(), "an Excel file. Save it as CSV"),
        (bz2.compress(JSONL), "compressed as bzip2. Unpack it"),
        (lzma.compress(JSONL), "compressed as xz. Unpack it"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 12\n", "Git LFS.*git lfs pull"),
        (b"\n<!DOCTYPE html><html>no such page</html>", "is a web page"),
    ],
)
def test_what_is_something_else_is_named_with_the_remedy(tmp_path: Path, content: bytes, wanted: str) -> None:
    (tmp_path / "q.jsonl").write_bytes(content)

    with pytest.raises(QuestionFileError, match=wanted):
        understand(Source(tmp_path / "q.jsonl", "q.jsonl"))
