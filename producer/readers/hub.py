"""Reading Hugging Face datasets: from the hub (`hf:owner/name`), a `save_to_disk` folder, or a cloned repository.

Requires the extra `hf`. Only the hub requires network access.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contract.errors import InputError, QuestionFileError, first_line, nearest
from contract.wording import number
from producer.readers.field_names import spelled
from producer.readers.folder import listed
from producer.readers.record import Record
from producer.readers.source import Source
from producer.readers.splits import split_called

__all__ = ["is_dataset", "only_a_column_names_splits", "read_dataset"]

#: Names of files that hold questions rather than descriptions of the dataset.
_OF_QUESTIONS = re.compile(r".+\.(parquet|arrow|jsonl|ndjson|csv|tsv)(\.gz|\.zst)?", re.IGNORECASE)
#: The list of subsets in a dataset's card.
_CONFIGS = re.compile(r"^configs:", re.MULTILINE)
#: Loggers that print by a handler of their own what goes into this process's log as well.
_TELL_TWICE = ("datasets", "huggingface_hub")
#: Files that mark a folder as a saved dataset.
_SAVED = ("dataset_dict.json", "dataset_info.json", "state.json")


def is_dataset(source: Source) -> bool:
    """Whether the source is on the hub, or a folder that looks like a saved dataset or a dataset repository."""
    if source.hub_name:
        return True
    folder = source.path
    there = (each for kind in ("*.parquet", "*.arrow") for each in folder.rglob(kind))
    return folder.is_dir() and (_is_saved(folder) or any(there))


def _is_saved(folder: Path) -> bool:
    return any((folder / each).is_file() for each in _SAVED)


def read_dataset(source: Source) -> Iterator[Record]:
    """Yield the records of the requested split, or the only one. Class labels become names; unknown ones are None.

    Images, sounds and the like are left as they are stored: no question is asked about them.
    """
    rows = _rows(source)
    _leave_encoded(rows.info.features)
    names = _class_names(rows.features)
    for at, row in enumerate(rows, start=1):
        fields = {name: _named(value, names.get(name)) for name, value in row.items()}
        yield Record(at, fields, fields)


def only_a_column_names_splits(source: Source) -> bool:
    """Whether the dataset has no split but `train`, and a column `split` that names others, or the wanted one.

    The library calls all rows of a folder `train` if no file is named after a split.
    """
    found = _load(source)
    splits = found if isinstance(found, Mapping) else {str(found.split or "train"): found}
    if list(splits) != ["train"]:
        return False
    rows, wanted = splits["train"], source.how.split.lower()
    return any(split_called(each) or each == wanted for each in _values_of_split(rows))


def _values_of_split(rows: Any) -> list[str]:
    """Return the different words in a column `split`; none if there is no such column, or no words are in it."""
    classes = _class_names(rows.features)
    for name, kind in rows.features.items():
        if spelled(name) == "split" and (name in classes or str(getattr(kind, "dtype", "")).endswith("string")):
            words = [_named(each, classes.get(name)) for each in rows.unique(name)]
            return [each.strip().lower() for each in words if isinstance(each, str)]
    return []


def _rows(source: Source) -> Any:
    found = _load(source)
    if not isinstance(found, Mapping):
        _refuse_other_split(found.split, source)
        return found
    splits = list(found)
    wanted = source.how.split or (splits[0] if len(splits) == 1 else "")
    if wanted not in found:
        what = f"no split {wanted!r} among" if wanted else f"{len(splits)} splits:"
        hint = nearest(wanted, splits) or "Choose one with --split NAME."
        raise QuestionFileError(f"{what} {', '.join(splits)}.", path=source.shown, hint=hint)
    return found[wanted]


def _refuse_subset_of_saved(source: Source) -> None:
    """Raise QuestionFileError for a subset of a saved dataset: ignored, it would still be part of the run's title."""
    wanted = source.how.subset
    if wanted and not source.hub_name and _is_saved(source.path):
        hint = "Remove --subset. To select the questions of one subject, use --subject NAME."
        raise QuestionFileError(f"is a saved dataset: it has no subset {wanted!r}.", path=source.shown, hint=hint)


def _refuse_other_split(saved: Any, source: Source) -> None:
    """Raise QuestionFileError if a split was saved alone and is not known to be the requested one."""
    wanted = source.how.split
    if wanted and (saved is None or wanted != str(saved)):
        what = "a saved dataset without splits" if saved is None else f"only the split {str(saved)!r}"
        hint = "Remove --split, or pass the folder in which that split was saved."
        raise QuestionFileError(f"is {what}: it has no split {wanted!r}.", path=source.shown, hint=hint)


def _load(source: Source) -> Any:
    _refuse_subset_of_saved(source)
    datasets = _library()
    subset = source.how.subset or None
    with _explaining(source):
        if source.hub_name:
            return datasets.load_dataset(source.hub_name, subset)
        if _is_saved(source.path):
            return datasets.load_from_disk(str(source.path))
        builder = datasets.load_dataset_builder(str(source.path.resolve()), subset)
    _refuse_unread_files(builder.builder_configs.values(), source)
    with _explaining(source):
        builder.download_and_prepare()
        return builder.as_dataset()


@contextmanager
def _explaining(source: Source) -> Iterator[None]:
    try:
        yield
    except Exception as trouble:  # noqa: BLE001 - the library may raise anything
        where, hint = "the folder", "Check its files and --subset."
        if source.hub_name:
            where = "the hub"
            hint = "Check the name, the network and --subset; a downloaded dataset can be read from its folder."
        # The second line lists the subsets, if one must be chosen.
        said = " ".join(filter(None, str(trouble).strip().splitlines()[:2])) or first_line(trouble)
        message = f"cannot load a dataset from {where}: {said.rstrip('. ')}."
        raise QuestionFileError(message, path=source.shown, hint=hint) from None


def _refuse_unread_files(configs: Iterable[Any], source: Source) -> None:
    """Raise QuestionFileError if the library would leave out question files of the folder.

    By default, it reads only files whose names say a split, if there are any, and only those of the most common format.
    """
    if _says_what_is_read(source.path):
        return
    read = {Path(each) for config in configs for files in (config.data_files or {}).values() for each in files}
    folder = source.path.resolve()
    there = (each for each in sorted(folder.rglob("*")) if _OF_QUESTIONS.fullmatch(each.name) and each.is_file())
    unread = (each.relative_to(folder) for each in there if each not in read)
    left = [each for each in unread if not any(part.startswith(".") for part in each.parts)]
    if left:
        message = f"the library datasets would leave out {number(len(left), 'file')}: {listed(left)}."
        hint = (
            "Name one file; or move those that belong together to a folder of their own, where either all names or none"
            " end in a split (test, train)."
        )
        raise QuestionFileError(message, path=source.shown, hint=hint)


def _says_what_is_read(folder: Path) -> bool:
    """Whether the dataset's card says which files belong to which subset and split."""
    card = folder / "README.md"
    return card.is_file() and bool(_CONFIGS.search(card.read_text(errors="replace")))


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise InputError(
            "Hugging Face datasets require the library datasets.", hint="Install it: pip install 'mcqueue[hf]'"
        ) from None
    datasets.disable_progress_bars()
    for each in _TELL_TWICE:
        logging.getLogger(each).handlers.clear()
    return datasets


def _leave_encoded(feature: Any) -> None:
    """Have images, sounds and the like, at any depth, read as they are stored; JSON becomes plain data all the same."""
    if isinstance(feature, Mapping):
        for each in feature.values():
            _leave_encoded(each)
    elif hasattr(feature, "feature"):
        _leave_encoded(feature.feature)
    elif hasattr(feature, "decode") and not isinstance(feature, _library().Json):
        feature.decode = False


def _class_names(features: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return field → names of its classes."""
    return {name: list(each.names) for name, each in features.items() if hasattr(each, "names")}


def _named(value: Any, names: Sequence[str] | None) -> Any:
    if names is None or not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None
