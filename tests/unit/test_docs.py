"""The documentation is true: its commands exist, its links lead somewhere, its reference is the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from producer.cli import main as producer
from scripts.reference import FOLDER, pages
from tests.docs import DOCS, blocks
from tests.support import ROOT
from workers.cli import main as workers

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
GROUPS = {"producer": producer, "workers": workers}


def commands(page: Path) -> list[list[str]]:
    """Every `python -m producer|workers …` of the page's blocks, as words behind `-m`."""
    lines = "\n".join(blocks(page, "console") + blocks(page, "sh")).replace("\\\n", " ").splitlines()
    found = [shlex.split(line) for line in lines if "python -m " in line and not line.startswith("{")]
    return [words[words.index("-m") + 1 :] for words in found if words[words.index("-m") + 1] in GROUPS]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_command_exists_with_its_options(page: Path) -> None:
    for name, *words in commands(page):
        group = GROUPS[name]
        while words and words[0].startswith("-"):  # options of the group itself, each with a value
            words = words[2:]
        found = group.all_commands()[words[0]]
        known = {option for each in found.params if isinstance(each, click.Option) for option in each.opts}
        asked = {word.split("=")[0] for word in words[1:] if word.startswith("--")}
        assert asked <= known, f"{words}: {asked - known}"


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        pytest.param(command, argument, id=f"{name} {command.name} {argument.name}")
        for name, group in GROUPS.items()
        for command in group.all_commands().values()
        for argument in command.params
        if isinstance(argument, click.Argument)
    ],
)
def test_usage_shows_in_brackets_what_need_not_be_given_and_nothing_else(
    command: click.Command, argument: click.Argument
) -> None:
    (shown,) = argument.get_usage_pieces(click.Context(command))
    assert shown.startswith("[") == (not argument.required), shown


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", pages())
def test_the_reference_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == pages()[name], "run python -m scripts.reference"


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.name == "README.md" or f"({page.relative_to(ROOT / 'docs')})" in contents


def test_every_setting_is_explained() -> None:
    rows = [line.split(" | ") for line in pages()["settings.md"].splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if not re.sub(r"\([≥>≤<][^)]*\)", "", row[2]).strip(" |")] == []


def test_every_option_is_explained() -> None:
    rows = [line.rsplit(" | ", 1) for line in pages()["commands.md"].splitlines() if line.startswith("| `--")]
    assert [row[0] for row in rows if not re.sub(r"\[default: [^]]*\]", "", row[1]).strip(" |")] == []
