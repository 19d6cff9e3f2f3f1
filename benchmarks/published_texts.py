"""Published texts of models: which choice do the rules for written answers read in them?

FOLDER holds what these repositories publish: MMLU-Pro's `eval_results/model_outputs_*.zip`, MIRAGE's `benchmark.json`
beside `prediction/`, BIG-Bench Hard's `code-davinci-002-outputs/` and GAOKAO-Bench's `Results/`. Each of their prompts
asks for the answer in certain words ("The answer is (X)", `"answer_choice": "X"`, "【答案】 X"). A text that says these
words of one letter only, and of one that is a choice, is `clear`; it is then counted which choice is read in it. Of the
others, which say them of several letters or not at all, many of them cut off, it is counted in how many any choice is
read.
"""

from __future__ import annotations

import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from benchmarks.command import Parser, command_line, existing_folder, from_zero, positive, run
from benchmarks.made_up import made_up_spec
from benchmarks.record import print_table, write
from contract.errors import InputError
from contract.mode import Mode
from contract.question import Question
from contract.spec import Sampling
from workers.scoring.extract import Extraction, rules_version
from workers.scoring.generate import named

SPEC = made_up_spec((), model="none", mode=Mode.GENERATE, sampling=Sampling())
SHOWN = 300


class Published(NamedTuple):
    """A text, and the letters of which it says the words that the prompt asked for."""

    model: str
    question: Question
    text: str
    announced: frozenset[str]

    @property
    def clear(self) -> str | None:
        """The only letter announced, if it is a choice."""
        letters = [*self.announced]
        return letters[0] if len(letters) == 1 and letters[0] in self.question.labels else None


_ANSWER_IS = re.compile(r"\banswer is:? (\([A-Z]\)(?:(?:,|,? and|,? or) \(?[A-Z]\b)*)")
_GAOKAO = re.compile(r"【答案】[\s:：]*([A-Z](?:[\s，,、和]*[A-Z])*)(?![A-Za-z])")
_LETTER = re.compile(r"[A-Z](?![a-z])")


def _announced(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    """Return all letters in what `pattern` finds."""
    return frozenset(letter for said in pattern.findall(text) for letter in _LETTER.findall(said))


def mmlu_pro(folder: Path) -> Iterator[Published]:
    """Yield the texts in MMLU-Pro's archives, one per model."""
    for path in sorted(folder.rglob("model_outputs_*.zip")):
        with zipfile.ZipFile(path) as archive:
            inside = next(each for each in archive.namelist() if each.endswith(".json") and "__MACOSX" not in each)
            rows = json.loads(archive.read(inside))
        for row in rows.values() if isinstance(rows, dict) else rows:
            text = isinstance(row, dict) and (row.get("generated_text") or row.get("model_outputs"))
            if text and (question := _question(row["question"], row["options"])):
                model = path.stem.removeprefix("model_outputs_").partition("_5shots")[0]
                yield Published(model, question, text, _announced(_ANSWER_IS, text))


_FIELD = re.compile(r'"answer_choice"\s*:\s*"([^"]*)"')


def mirage(folder: Path) -> Iterator[Published]:
    """Yield MIRAGE's answers about medicine, in JSON, half of them to prompts with retrieved passages."""
    for predictions in sorted(folder.rglob("prediction/")):
        sets = json.loads((predictions.parent / "benchmark.json").read_text(encoding="utf-8"))
        for path in sorted(predictions.rglob("*.json")):
            name, _, _, model, *_ = path.relative_to(predictions).parts
            asked = sets[name][path.stem.partition("_")[2]]
            texts = json.loads(path.read_text(encoding="utf-8"))
            if texts and (question := _question(asked["question"], asked["options"].values())):
                yield Published(model, question, texts[0], _announced(_FIELD, texts[0]))


_OPTION = re.compile(r"^\(([A-Z])\) (.+)$", re.MULTILINE)


def bbh(folder: Path) -> Iterator[Published]:
    """Yield the chains of thought in BIG-Bench Hard's folder; those of tasks without choices are left out."""
    for path in sorted(folder.rglob("code-davinci-002-cot/*_few_shot_template_0-255000.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["outputs"]:
            asked = row["input"].rpartition("\n\nQ: ")[2]
            if question := _question(asked.partition("\nOptions:")[0], [text for _, text in _OPTION.findall(asked)]):
                text = row["prediction"]
                own = text.partition("\n\nQ:")[0]  # it may go on with questions of its own
                yield Published("code-davinci-002", question, text, _announced(_ANSWER_IS, own))


_CHOICE = re.compile(r"([A-D])\s*[．.、:：]\s*(.+?)(?=\s*[A-D]\s*[．.、:：]|$)", re.DOTALL)


def gaokao(folder: Path) -> Iterator[Published]:
    """Yield the answers to GAOKAO-Bench's questions with four choices, of which one is right."""
    for path in sorted(folder.rglob("*_obj/*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for row in content.get("example", ()):
            choices = [*_CHOICE.finditer(row["question"])][-4:]
            if [each[1] for each in choices] != ["A", "B", "C", "D"] or list(map(len, row["standard_answer"])) != [1]:
                continue
            asked = row["question"][: choices[0].start()]
            if question := _question(asked, [each[2].strip() for each in choices]):
                text = row["model_output"]
                yield Published(content["model_name"], question, text, _announced(_GAOKAO, text))


SOURCES: Mapping[str, Callable[[Path], Iterator[Published]]] = {
    "MMLU-Pro": mmlu_pro,
    "MIRAGE": mirage,
    "BIG-Bench Hard": bbh,
    "GAOKAO-Bench": gaokao,
}


def _question(text: str, choices: Iterable[object]) -> Question | None:
    """Return the question, unless it lacks choices, or has some twice."""
    shown = tuple(str(each) for each in choices if each != "N/A")
    try:
        return Question(id="q", question=text, choices=shown) if len(set(shown)) == len(shown) > 0 else None
    except ValidationError:
        return None


class Read(NamedTuple):
    """A published text, and what is read in it."""

    published: Published
    found: Extraction

    @property
    def kind(self) -> str:
        """The column in which it is counted."""
        clear = self.published.clear
        if clear is None:
            return "others read" if self.found.label else "others not read"
        return "as announced" if self.found.label == clear else "another" if self.found.label else "not read"


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=existing_folder)
    parser.option("--texts", positive, 2000, "at most so many texts of each model, drawn at random")
    parser.option("--show", from_zero, 0, "so many clear texts of each source that are not read as announced")
    options = parser.parse_args()
    rows = []
    for source, published in SOURCES.items():
        by_model: dict[str, list[Published]] = {}
        for each in published(options.folder):
            by_model.setdefault(each.model, []).append(each)
        drawn = [text for texts in by_model.values() for text in _drawn(texts, options.texts)]
        if drawn:
            read = [Read(each, named(each.question, each.text, SPEC)) for each in drawn]
            rows.append(_row(source, len(by_model), read))
            _show(read, options.show)
    if not rows:
        raise InputError(f"{options.folder}: has no texts of {', '.join(SOURCES)}.")
    print_table("Published texts", rows)
    command = command_line(("--show",), hidden={options.folder: "FOLDER"})
    print(write("published_texts", rows, options, command=command, rules=rules_version()))
    return 0


def _drawn(texts: list[Published], most: int) -> list[Published]:
    return texts if len(texts) <= most else random.Random(0).sample(texts, most)


def _row(source: str, models: int, read: list[Read]) -> dict[str, Any]:
    """Return a row of the table."""
    kinds = Counter(each.kind for each in read)
    clear = [each for each in read if each.published.clear]
    reasons = Counter(each.found.rule for each in clear if each.kind == "not read")
    return {
        "source": source,
        "models": models,
        "texts": len(read),
        "clear": len(clear),
        **{kind: kinds[kind] for kind in ("as announced", "another", "not read", "others read", "others not read")},
        "why not read": "; ".join(f"{count:,} {reason}" for reason, count in reasons.most_common()),
    }


def _show(read: list[Read], most: int) -> None:
    unlike = [each for each in read if each.kind in {"another", "not read"}]
    for each in unlike[:most]:
        model, clear, text = each.published.model, each.published.clear, each.published.text.strip()[-SHOWN:]
        print(f"{model}: {clear} is read as {each.found.label} ({each.found.rule}) in: … {text}\n")


if __name__ == "__main__":
    run(main)
