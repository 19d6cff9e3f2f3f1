"""The documentation is true: its `console` blocks run, its other commands exist, its reference is the code's."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from producer.cli import main as producer
from scripts.reference import FOLDER, pages
from tests.support import ROOT, SIMULATED_MODEL, processes_of_session, wait_until
from workers.cli import main as workers

DOCS = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
GROUPS = {"producer": producer, "workers": workers}


def blocks(page: Path, kind: str) -> list[str]:
    return [text for each, text in BLOCK.findall(page.read_text(encoding="utf-8")) if each == kind]


def commands(page: Path) -> list[list[str]]:
    """Every `python -m producer|workers …` of the page's blocks, as words behind `-m`."""
    lines = "\n".join(blocks(page, "console") + blocks(page, "sh")).replace("\\\n", " ").splitlines()
    found = [shlex.split(line.rstrip("&")) for line in lines if "python -m " in line and not line.startswith("{")]
    return [words[words.index("-m") + 1 :] for words in found if words[words.index("-m") + 1] in GROUPS]


@pytest.mark.parametrize("page", [page for page in DOCS if blocks(page, "console")], ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_in_their_order(page: Path, redis_url: str, tmp_path: Path) -> None:
    for name in ("configs", "demo"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MCQUEUE_REDIS_URL": redis_url,
        "MCQUEUE_ENGINE": "simulated",
        "MCQUEUE_MODEL": SIMULATED_MODEL,
    }
    script = "\n".join(["set -euo pipefail", *blocks(page, "console")])
    log = tmp_path / "log"
    with log.open("wb") as output:
        shell = subprocess.Popen(
            ["bash", "-x", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert shell.wait(timeout=200) == 0, log.read_text()
    finally:
        end_session(shell)


def end_session(shell: subprocess.Popen[bytes]) -> None:
    """End what the page started in the background as Ctrl-C would, and the hard way what stays."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGTERM)
    try:
        wait_until(lambda: not processes_of_session(shell.pid), "the page's processes to end")
    finally:
        for each in processes_of_session(shell.pid):
            each.kill()
        shell.wait()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_command_exists_with_its_options(page: Path) -> None:
    for name, *words in commands(page):
        group = GROUPS[name]
        while words and words[0].startswith("-"):  # options of the group itself, each with a value
            words = words[2:]
        found = group.commands[words[0]]
        known = {option for each in found.params if isinstance(each, click.Option) for option in each.opts}
        asked = {word.split("=")[0] for word in words[1:] if word.startswith("--")}
        assert asked <= known, f"{words}: {asked - known}"


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
    assert [row[0] for row in rows if not row[2].strip(" |")] == []
