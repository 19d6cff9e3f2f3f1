"""Command-line options for reading a question file, which override what is detected, and for selecting questions."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from contract.commands import Command
from contract.errors import InputError, nearest
from producer.intake.selection import Selection
from producer.readers import PARTS, HowToRead

__all__ = [
    "check_encoding",
    "file_argument",
    "how_to_read",
    "map_pairs",
    "reading_options",
    "selection_of",
    "selection_options",
]

_BASE = "base"
#: Python's codecs that are not for files, but for domain names and its own source code.
_NOT_FOR_FILES = frozenset(["idna", "punycode", "unicode-escape", "raw-unicode-escape"])

_READING = (
    click.option("--layout", default="", metavar="NAME", help="Read the file as this layout, whatever it looks like."),
    click.option(
        "--map",
        "mapping",
        multiple=True,
        metavar="PART=FIELD,…",
        help="Fields of the parts, for example question=stem,choices=a+b+c,answer=key; base=1 if indices count from 1.",
    ),
    click.option(
        "--encoding", default="", metavar="NAME", help="Encoding of FILE and --answers, if it is not UTF-8 or UTF-16."
    ),
    click.option(
        "--subset",
        default="",
        metavar="NAME",
        help="Select one set of a file with several, or the matching files of a folder or zip.",
    ),
    click.option(
        "--split",
        default="",
        metavar="NAME",
        help="Select one split of a folder, dataset or file that has several.",
    ),
    click.option(
        "--answers",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="A file with one answer per line, in the questions' order; blank where there is no key.",
    ),
)
_SELECTION = (
    click.option("--limit", type=click.IntRange(min=1), help="Use only the first N questions; the rest is not read."),
    click.option("--sample", type=click.IntRange(min=1), help="Use N questions at random, in the file's order."),
    click.option("--stratified", is_flag=True, help="Give each subject the same share of --sample as of the file."),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of --sample. Default: the configuration's seed."),
    click.option("--subject", "subjects", multiple=True, metavar="NAME", help="Use only questions of this subject."),
)


def file_argument(command: Command) -> Command:
    """Add the argument `FILE`. Several, as a shell makes of a pattern, are refused, with what reads them instead."""
    return click.argument("file", metavar="FILE", nargs=-1, required=True, callback=_only)(command)


def _only(_context: click.Context, _argument: click.Parameter, files: tuple[str, ...]) -> str:
    if len(files) > 1:
        begin = ", ".join(files[:2]) + (", …" if len(files) > 2 else "")
        raise click.UsageError(
            f"FILE is one file or folder, not {len(files)} ({begin}). For one run over all of them, put them into a"
            " folder and name that; for a run of each, and one table, list them in a suite (docs/questions.md)."
        )
    return files[0]


def reading_options(command: Command) -> Command:
    """Add the options that `how_to_read` reads."""
    return _with(_READING, command)


def selection_options(command: Command) -> Command:
    """Add the options that `selection_of` reads."""
    return _with(_SELECTION, command)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def how_to_read(options: Mapping[str, Any]) -> HowToRead:
    """Return the reading options among `options` as HowToRead. Raises InputError for invalid values."""
    layout, encoding = options["layout"], options["encoding"]
    mapping = _mapping(options["mapping"])
    if layout and mapping:
        raise click.UsageError("--layout and --map are mutually exclusive.")
    return HowToRead(
        layout=layout,
        mapping=mapping,
        encoding=check_encoding(encoding) if encoding else "",
        subset=options["subset"],
        split=options["split"],
        answers=options["answers"],
    )


def selection_of(options: Mapping[str, Any], seed: int) -> Selection:
    """Return the selection that `options` ask for; `seed` is the configuration's."""
    limit, sample, stratified = options["limit"], options["sample"], options["stratified"]
    own_seed, subjects = options["seed"], options["subjects"]
    if limit and sample:
        raise click.UsageError("--limit and --sample are mutually exclusive.")
    if own_seed is not None and not sample:
        raise click.UsageError("--seed requires --sample. To set the run's own seed, use --set seed=N.")
    if stratified and not sample:
        raise click.UsageError("--stratified requires --sample.")
    return Selection(limit, sample, seed if own_seed is None else own_seed, frozenset(subjects), stratified)


def _mapping(given: tuple[str, ...]) -> dict[str, str]:
    mapping = map_pairs(given, [*PARTS, _BASE])
    if (base := mapping.get(_BASE, "0")) not in {"0", "1"}:
        raise InputError(f"--map: base={base} is neither 0 nor 1.", hint="It is the index of the first choice.")
    return mapping


def map_pairs(given: tuple[str, ...], parts: Sequence[str]) -> dict[str, str]:
    """Return part → what `--map PART=FIELD,…` says of it, which may be empty. Raises InputError for unknown parts."""
    mapping: dict[str, str] = {}
    listed = f"Parts: {', '.join(parts)}."
    for each in (pair.strip() for text in given for pair in text.split(",") if pair.strip()):
        part, equals, field = (word.strip() for word in each.partition("="))
        if part not in parts or not equals:
            hint = f"For example {part}=FIELD." if part in parts else nearest(part, list(parts)) or listed
            raise InputError(f"--map: {each!r} is not PART=FIELD.", hint=hint)
        mapping[part] = field
    return mapping


def check_encoding(name: str) -> str:
    """Return Python's name of the text encoding `name`: utf-16 for UTF-16, utf16 and u16.

    Raises InputError if there is none, or if text in it cannot be divided into lines.
    """
    try:
        known = codecs.lookup(name)
        line_end = "\n".encode(name)
    except (LookupError, ValueError):
        raise InputError(
            f"--encoding: unknown text encoding {name!r}.",
            hint="For example utf-8, utf-16, latin-1, cp1252, gb18030.",
        ) from None
    if not known._is_text_encoding or known.name in _NOT_FOR_FILES:
        raise InputError(f"--encoding: {name!r} is not a text encoding.", hint="For example latin-1.")
    if line_end != b"\n" and not known.name.startswith(("utf-8", "utf-16", "utf-32")):
        # In EBCDIC, for example, this byte is another character.
        message = f"--encoding: {name!r} does not end lines with the byte 0x0a, so lines cannot be told apart."
        raise InputError(message, hint="Convert the file to UTF-8.")
    return known.name
