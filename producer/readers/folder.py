"""Reading a folder or zip of question files as one set, as MMLU, C-Eval and BIG-bench are distributed.

The part of a file's path that distinguishes it from the others becomes the subject of its questions, unless they name
one themselves: `anatomy` for `data/test/anatomy_test.csv`, `fact_checker/politifact` for
`fact_checker/politifact/task.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from contract.errors import QuestionFileError, nearest
from producer.readers.source import Source
from producer.readers.splits import (
    ALL,
    several_splits,
    split_called,
    split_of_name,
    splits_counted,
    splits_within,
    stem_without_split,
)
from producer.readers.stream import files_in_zip

__all__ = ["Member", "listed", "members"]

#: The split that each path indicates; empty if it indicates none.
Splits = Mapping[PurePosixPath, str]

_SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv"}
_PACKED = {".gz", ".zst"}


class Member(NamedTuple):
    """One of the files."""

    source: Source
    #: The part of its path that distinguishes it from the others; empty if it is the only one.
    name: str
    #: The split that its path indicates; empty if it indicates none.
    split: str


def members(source: Source) -> list[Member]:
    """Return the question files of a folder or zip that `--split` and `--subset` select, in path order.

    If no path indicates a split, the records may do so: `--split` then selects none of the files. Raises
    QuestionFileError if there are none, or if there are several splits and none is selected.
    """
    if source.how.answers:
        hint = "Name one of the files, or put the answers into the question files."
        raise QuestionFileError("has several files, but --answers is for a single one.", path=source.shown, hint=hint)
    paths = list(_paths(source))
    if parquet := [path for path in sorted(paths) if path.suffix.lower() == ".parquet" and not _is_hidden(path)]:
        # A folder that has some is a dataset.
        hint = "Unpack it, and pass the folder or one of its files."
        message = f"contains Parquet, which is not read from a zip: {listed(parquet)}."
        raise QuestionFileError(message, path=source.shown, hint=hint)
    there = sorted(filter(_may_hold_questions, paths))
    names_for = _names
    if not there:
        there, names_for = sorted(_articles(source, paths)), _names_of_folders
    if not there:
        hint = f"Expected files that end in {', '.join(sorted(_SUFFIXES))}."
        raise QuestionFileError("contains no question files.", path=source.shown, hint=hint)
    splits = _splits_of(there)
    of_split = _of_split(splits, source)
    chosen = _of_subset(of_split, source)
    # The files of a subset have the same names as when the whole folder is read.
    whole = of_split if source.how.split else _of_the_same_set(chosen, of_split, splits, source)
    names = dict(zip(whole, names_for(whole), strict=True))
    return [Member(_member(source, path), names[path], splits[path]) for path in chosen]


def _paths(source: Source) -> list[PurePosixPath]:
    if not source.path.is_dir():
        return [PurePosixPath(each) for each in files_in_zip(source.path)]
    found = list(source.path.rglob("*"))
    _refuse_linked_folders(found, source)
    return [PurePosixPath(each.relative_to(source.path).as_posix()) for each in found if each.is_file()]


def _refuse_linked_folders(found: Iterable[Path], source: Source) -> None:
    """Raise QuestionFileError for a link to a folder with question files: `rglob` does not follow it.

    One that leads to a folder of this one, as `latest` may, is none: the files there are read.
    """
    for link in (each for each in found if each.is_symlink() and each.is_dir()):
        if _is_inside(link, source.path) and not _is_inside(link.resolve(), source.path.resolve()):
            inside = (PurePosixPath(each.relative_to(source.path)) for each in link.rglob("*") if each.is_file())
            if any(map(_may_hold_questions, inside)):
                message = f"{link.relative_to(source.path)} is a link to a folder, and these are not followed."
                hint = "Put the folder itself there, or remove the link."
                raise QuestionFileError(message, path=source.shown, hint=hint)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether `path` is in `folder`, and not hidden there."""
    return path.is_relative_to(folder) and not _is_hidden(PurePosixPath(path.relative_to(folder)))


def _may_hold_questions(path: PurePosixPath) -> bool:
    suffix = PurePosixPath(path.stem).suffix if path.suffix.lower() in _PACKED else path.suffix
    return suffix.lower() in _SUFFIXES and not _is_hidden(path)


def listed(paths: Sequence[PurePath]) -> str:
    """Return the first of the paths for a message."""
    return ", ".join(map(str, paths[:10])) + (", …" if len(paths) > 10 else "")


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _articles(source: Source, paths: Iterable[PurePosixPath]) -> Iterator[PurePosixPath]:
    """Yield the `.txt` files that start with an object, as in RACE, which has one file per article.

    Only for folders: the texts in a zip are not looked into.
    """
    if not source.path.is_dir():
        return
    for path in paths:
        if path.suffix == ".txt" and not _is_hidden(path) and _starts_with_object(source.path / path):
            yield path


def _starts_with_object(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def _member(source: Source, path: PurePosixPath) -> Source:
    how = replace(source.how, subset="", split="")
    shown = str(PurePosixPath(source.shown) / path)
    if source.path.is_dir():
        return Source(source.path / path, shown, how)
    return Source(source.path, shown, how, member=str(path))


def _splits_of(paths: Sequence[PurePosixPath]) -> Splits:
    """Return the split of each path; only where none is named in the usual way, by a word within the file names."""
    usual = {path: _split_of(path) for path in paths}
    if any(usual.values()):
        return usual
    return dict(zip(paths, splits_within([_stem(path) for path in paths]), strict=True))


def _of_split(splits: Splits, source: Source) -> list[PurePosixPath]:
    """Return the paths of the requested split, or all if none is requested or indicated."""
    there = Counter(splits.values())
    wanted = source.how.split
    if wanted in ("", ALL) or not any(there):
        return list(splits)
    if not there[wanted.lower()]:
        hint = nearest(wanted, list(there)) or "A split is a folder's name, or the end of a file name."
        raise QuestionFileError(f"no split {wanted!r} among {splits_counted(there)}.", path=source.shown, hint=hint)
    return [path for path, split in splits.items() if split == wanted.lower()]


def _of_the_same_set(
    chosen: list[PurePosixPath], paths: list[PurePosixPath], splits: Splits, source: Source
) -> list[PurePosixPath]:
    """Return those of `paths` that belong to the same set as the `chosen` ones: if there are splits, the same split.

    Raises QuestionFileError if the chosen ones are of several splits although no split is requested.
    """
    if source.how.subset == ALL or len({splits[path] for path in paths} - {""}) <= 1:
        return paths
    theirs = Counter(splits[path] for path in chosen)
    if len({*theirs} - {""}) > 1:
        raise several_splits(source.shown, theirs, "files")
    return [path for path in paths if splits[path] in theirs]


def _of_subset(paths: list[PurePosixPath], source: Source) -> list[PurePosixPath]:
    """Return the paths whose path, name or stem matches the requested subset, which may be a pattern."""
    wanted = source.how.subset
    if not wanted:
        return paths
    chosen = [path for path in paths if any(fnmatch(each, wanted) for each in (str(path), path.name, _stem(path)))]
    if not chosen:
        hint = nearest(wanted, [_stem(path) for path in paths]) or "Patterns are allowed: --subset 'high_school_*'."
        raise QuestionFileError(f"no file {wanted!r} among {listed(paths)}.", path=source.shown, hint=hint)
    return chosen


def _split_of(path: PurePosixPath) -> str:
    """Return the split that the path indicates: by the innermost folder named after one, or by the end of the name."""
    folders = map(split_called, reversed(path.parts[:-1]))
    return next(filter(None, folders), "") or split_of_name(_stem(path))


def _stem(path: PurePosixPath) -> str:
    return PurePosixPath(path.stem).stem if path.suffix.lower() in _PACKED else path.stem


def _names(paths: Sequence[PurePosixPath]) -> list[str]:
    """Return the part of each path that distinguishes it from the others."""
    splits = {_split_of(path) for path in paths}
    of_one_split = next(iter(splits)) if len(splits) == 1 else ""
    parts = [_parts_without_split(path, of_one_split) for path in paths]
    while len({each[0] for each in parts}) == 1 and all(len(each) > 1 for each in parts):
        parts = [each[1:] for each in parts]
    while len({each[-1] for each in parts}) == 1 and all(len(each) > 1 for each in parts):
        parts = [each[:-1] for each in parts]
    names = ["/".join(filter(None, each)) for each in parts]
    if len(names) == 1 or not any(names):
        return [""] * len(names)
    times = Counter(names)
    return [name if name and times[name] == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def _names_of_folders(paths: Sequence[PurePosixPath]) -> list[str]:
    """Return the distinguishing part of each path's folder: the name of an article's file is not a subject."""
    folders = sorted({path.parent for path in paths})
    names = dict(zip(folders, _names(folders), strict=True))
    return [names[path.parent].strip(".") for path in paths]


def _parts_without_split(path: PurePosixPath, split: str) -> list[str]:
    """Return the folders and the stem of a path, without the words that only indicate its split."""
    stem = _stem(path)
    if split and split_of_name(stem) == split:
        stem = stem_without_split(stem)
    return [*(each for each in path.parts[:-1] if not split or each.lower() != split), stem]
