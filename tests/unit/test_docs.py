"""The documentation is true: its commands exist, its links lead somewhere, its reference is the code's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev

import click
import pytest

from producer.cli import main as producer
from producer.stats.paired import Pairs
from producer.stats.proportion import share
from scripts.reference import FOLDER, pages
from tests.docs import BLOCK, DOCS, blocks
from tests.support import ROOT
from workers.cli import main as workers

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
#: A command within a sentence.
CODE = re.compile(r"`(python -m [^`]+)`")
COMMAND = re.compile(r"python -m (.*)")
#: What explains a command that stands before it.
REMARK = re.compile(r"\s{2,}|#")
PAGES = ["README.md", "configs/README.md", *(str(page.relative_to(ROOT)) for page in DOCS)]
GROUPS = {"producer": producer, "workers": workers}


def commands(page: Path) -> list[list[str]]:
    """Every `python -m producer|workers …` in blocks and sentences of a page, as words behind `-m`, without remarks."""
    lines = "\n".join(blocks(page)).replace("\\\n", " ").splitlines()
    lines += [" ".join(each.split()) for each in CODE.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))]
    found = [REMARK.split(each.group(1))[0].split() for line in lines if (each := COMMAND.search(line))]
    return [words for words in found if words[0] in GROUPS and words[1:]]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_command_exists_with_its_options(page: str) -> None:
    for name, *words in commands(ROOT / page):
        group = GROUPS[name]
        while words[0].startswith("-"):  # options of the group itself, each with a value
            words = words[2:]
        while words[1:2] == ["|"]:  # several commands in one line
            assert words[0] in group.commands, f"{name} {words[0]}"
            words = words[2:]
        found = group.all_commands()[words[0]]
        known = {option for each in found.params if isinstance(each, click.Option) for option in each.opts}
        asked = {word.strip("[]…'").split("=")[0] for word in words[1:] if word.lstrip("['").startswith("-")}
        assert asked <= known, f"{words}: {asked - known}"
        for word in words:
            assert not word.startswith("configs/") or (ROOT / word).exists(), word


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


def test_the_code_that_computes_figures_again_finds_those_of_the_program(tmp_path: Path) -> None:
    (code,) = [each for each in blocks(ROOT / "docs" / "statistics.md", "python") if "binomtest" in each]
    pairs = Pairs(both=5, only_a=2, only_b=9, neither=4)
    right = [(True, True)] * pairs.both + [(True, False)] * pairs.only_a
    right += [(False, True)] * pairs.only_b + [(False, False)] * pairs.neither
    names = {"FILE_A": str(tmp_path / "a.csv"), "FILE_B": str(tmp_path / "b.csv")}
    for file, outcomes in zip(names.values(), zip(*right, strict=True), strict=True):
        rows = [f"q{at},B,{'correct' if each else 'wrong'}" for at, each in enumerate(outcomes)]
        Path(file).write_text("\n".join(["question_id,answer,outcome", *rows]))
    given = "\n".join(["import pandas", *(f"{name} = {file!r}" for name, file in names.items()), code])
    printed = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, check=True).stdout
    low, high, p_value = map(float, re.findall(r"\b\d\.\d+(?:e-\d+)?", printed))
    accuracy = pairs.accuracy_a
    assert (low, high) == pytest.approx((accuracy.low, accuracy.high))
    assert p_value == pytest.approx(pairs.p_value())


def test_the_code_that_counts_the_votes_of_texts_finds_what_they_say(tmp_path: Path) -> None:
    (code,) = [each for each in blocks(ROOT / "docs" / "statistics.md", "python") if "shares" in each]
    file = tmp_path / "results.csv"
    rows = [
        ("anatomy", "correct", "A", '{""A"": 0.6, ""B"": 0.4}'),
        ("anatomy", "wrong", "B", '{""A"": 0.8, ""B"": 0.2}'),
        ("philosophy", "correct", "A,B", '{""A"": 0.4, ""B"": 0.4}'),
        ("philosophy", "failed", "A", ""),
    ]
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    file.write_text("\n".join(["subject,outcome,answer,choice_scores", *lines]))
    given = f"import pandas\nFILE_A = {str(file)!r}\n{code}"
    printed = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, check=True).stdout

    *table, shares = printed.splitlines()
    assert [line.split() for line in table[-2:]] == [["STEM", "0.5", "2"], ["humanities", "0.5", "2"]]
    of_questions = [0.6, 0.2, 0.8, 0]
    mean, error, any_right = map(float, shares.split())
    assert (mean, any_right) == pytest.approx((fmean(of_questions), 3 / 4))
    assert error == pytest.approx(stdev(of_questions) / 2)


def test_the_code_that_ranks_the_right_choice_counts_the_first_right_one_among_three(tmp_path: Path) -> None:
    pages = blocks(ROOT / "docs" / "statistics.md", "python")
    code = "\n".join(each for each in pages if "shares" in each or "def rank" in each)
    file = tmp_path / "results.csv"
    ranked = {"A": -0.5, "C": -1.5, "B": -2.5, "D": "-inf"}
    rows = [(keys, json.dumps(ranked).replace('"', '""')) for keys in ("A", "C", "B", "D", "D,B")] + [("A", "")]
    lines = [f'law,wrong,"{keys}","{scores}"' for keys, scores in rows]
    file.write_text("\n".join(["subject,outcome,answer,choice_scores", *lines]))
    given = f"import pandas\nFILE_A = {str(file)!r}\n{without_votes(code)}"
    printed = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, check=True).stdout

    among_three, precision = map(float, printed.split()[-2:])
    assert (among_three, precision) == pytest.approx((4 / 6, (1 + 1 / 2 + 1 / 3 + 1 / 3) / 6))


def without_votes(code: str) -> str:
    """The code without its lines on the texts of a vote, whose scores are shares."""
    return "\n".join(line for line in code.splitlines() if "shares" not in line and "of_texts" not in line)


def test_the_code_that_flattens_a_summary_keeps_every_number_and_nothing_else(tmp_path: Path) -> None:
    (code,) = [each for each in blocks(ROOT / "docs" / "statistics.md", "python") if "json_normalize" in each]
    summary = {"total": 3, "note": "x", "fresh": True, "none": None, "accuracy_all": {"value": 0.5, "of": 3}}
    (tmp_path / "summary.json").write_text(json.dumps({**summary, "by_subject": {"law": {"total": 3}}}))
    given = f"import json, pandas\n{code}\nprint(json.dumps(numbers))"
    ran = subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert json.loads(ran.stdout) == {"total": 3, "accuracy_all/value": 0.5, "accuracy_all/of": 3}


def test_the_table_of_how_many_questions_has_what_the_program_computes() -> None:
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").partition("## How many questions?")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("- How often")[0].splitlines() if "0." in line]
    _, *table = rows
    assert len(table) == 6
    for questions, *cells in table:
        count = int(questions.replace(",", ""))
        shares = [share(count // 2, count), share(count * 4 // 5, count)]
        widths = [(each.high - each.low) / 2 for each in shares if each]
        discordant = [count // 10, count // 5, count * 3 // 10]
        found = [Pairs(both=count - each, only_a=each // 2, only_b=each - each // 2, neither=0) for each in discordant]
        assert cells == [f"{each:.3f}" for each in (*widths, *(pairs.detectable() or 0 for pairs in found))]


def test_the_code_that_writes_what_was_retrieved_for_trec_eval_has_a_line_for_each_passage(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "docs" / "retrieval.md", "python")
    rows = ["question_id,retrieved_ids,retrieval_scores", 'q1,"[""a"",""b""]","[2.5,1.25]"', "q2,,", "q3,[],[]"]
    (tmp_path / "results.csv").write_text("\n".join(rows))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "run.trec").read_text() == "q1 Q0 a 1 2.5 mcqueue\nq1 Q0 b 2 1.25 mcqueue\n"


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
