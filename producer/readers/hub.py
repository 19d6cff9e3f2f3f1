"""Hugging Face datasets: by name on the hub (`hf:owner/name`), a folder of `save_to_disk`, or a dataset's repository.

Needs the extra `hf`. Only the hub needs a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contract.errors import InputError, QuestionFileError, first_line, nearest
from producer.readers.record import Record
from producer.readers.source import Source

__all__ = ["is_dataset", "read_dataset"]

#: Files that say that a folder holds a dataset.
_SAVED = ("dataset_dict.json", "dataset_info.json", "state.json")


def is_dataset(folder: Path) -> bool:
    """Whether the folder looks like a saved dataset, or like a dataset's repository."""
    return _is_saved(folder) or bool(_data_files(folder))


def _is_saved(folder: Path) -> bool:
    return any((folder / each).is_file() for each in _SAVED)


def _data_files(folder: Path) -> list[Path]:
    return sorted(each for kind in ("*.parquet", "*.arrow") for each in folder.rglob(kind))


def read_dataset(source: Source) -> Iterator[Record]:
    """Records of the wanted split, or of the only one. A class is given by its name; an unknown one is None."""
    rows = _rows(source)
    names = _class_names(getattr(rows, "features", None))
    for number, row in enumerate(rows, start=1):
        fields = {name: _named(value, names.get(name)) for name, value in row.items()}
        yield Record(number, number, fields, fields)


def _rows(source: Source) -> Any:
    _refuse_subset_of_saved(source)
    datasets = _library()
    found = _load(source, datasets)
    if not isinstance(found, Mapping):
        _refuse_other_split(found.split, source)
        return found
    splits = list(found)
    wanted = source.how.split or (splits[0] if len(splits) == 1 else "")
    if wanted not in found:
        what = f"no split {wanted!r} among" if wanted else f"{len(splits)} splits:"
        hint = nearest(wanted, splits) or f"Choose one with --split, for example --split {splits[-1]}."
        raise QuestionFileError(f"{what} {', '.join(splits)}.", path=source.shown, hint=hint)
    return found[wanted]


def _refuse_subset_of_saved(source: Source) -> None:
    """Whoever asks for a part of what has none would believe to have it, and the run would say so."""
    wanted = source.how.subset
    if wanted and not source.hub_name and _is_saved(source.path):
        hint = "It was saved as what it is; leave --subset out. --subject NAME takes the questions of one subject."
        raise QuestionFileError(f"is a saved dataset: it has no subset {wanted!r}.", path=source.shown, hint=hint)


def _refuse_other_split(saved: Any, source: Source) -> None:
    """The same of splits: one that was saved alone may know its name."""
    wanted = source.how.split
    if wanted and (saved is None or wanted != str(saved)):
        what = "a saved dataset without splits" if saved is None else f"the split {str(saved)!r} alone"
        hint = "Leave the split out, or name the folder in which it was saved."
        raise QuestionFileError(f"is {what}: it has no split {wanted!r}.", path=source.shown, hint=hint)


def _load(source: Source, datasets: Any) -> Any:
    subset = source.how.subset or None
    try:
        if source.hub_name:
            return datasets.load_dataset(source.hub_name, subset)
        if _is_saved(source.path):
            return datasets.load_from_disk(str(source.path))
        return datasets.load_dataset(str(source.path.resolve()), subset)
    except Exception as trouble:  # noqa: BLE001 - the library and what it calls raise what they like
        where = "the hub" if source.hub_name else "the folder"
        raise QuestionFileError(
            f"{where} gives no dataset: {first_line(trouble)}.",
            path=source.shown,
            hint="Check the name, the network and --subset; a dataset once fetched can be read by its folder.",
        ) from None


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise InputError(
            "Hugging Face datasets need the library datasets.", hint="Install it: pip install 'mcqueue[hf]'"
        ) from None
    datasets.disable_progress_bars()
    return datasets


def _class_names(features: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Field → names of its classes."""
    return {name: list(each.names) for name, each in (features or {}).items() if hasattr(each, "names")}


def _named(value: Any, names: Sequence[str] | None) -> Any:
    if names is None or not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None
