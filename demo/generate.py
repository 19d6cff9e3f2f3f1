"""Generate the demo: questions about the chemical elements, and passages that answer them.

`elements.csv` holds plain facts that anyone can check. It yields `questions.jsonl`,
with four choices each, `examples.jsonl`, a few others to show solved before a
question, and `corpus.jsonl`, one passage per element. Everything is drawn from one
seed, so that the same bytes can be generated again:

    python demo/generate.py            write the files
    python demo/generate.py --check    exit 1 if the files differ from these facts
"""

import argparse
import csv
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
LABELS = "ABCD"
EXAMPLES = 12
NEAREST = 6  # number of nearest wrong answers from which three distractors are drawn
NATURAL = 94  # elements up to plutonium occur in nature; the others are little known
CLEAR_CATEGORIES = {"alkali metal", "alkaline earth metal", "halogen", "noble gas"}

Facts = dict[str, str]
Row = dict[str, object]
Distance = Callable[[Facts, Facts], int]


def number_gap(one: Facts, other: Facts) -> int:
    """Return the distance of two elements in the periodic table."""
    return abs(int(one["number"]) - int(other["number"]))


def year_gap(one: Facts, other: Facts) -> int:
    """Return the number of years between two discoveries."""
    return abs(int(one["discovered"]) - int(other["discovered"]))


def period_gap(one: Facts, other: Facts) -> int:
    """Return the number of rows of the table between two elements."""
    return abs(int(one["period"]) - int(other["period"]))


def look_alike(one: Facts, other: Facts) -> int:
    """Return 0 if the other symbol starts like this element's symbol or name, else 1."""
    return int(other["symbol"][0] not in one["symbol"][0] + one["name"][0])


def unlike(one: Facts, other: Facts) -> int:
    """Return 0 for elements of the same category, else 1."""
    return int(one["category"] != other["category"])


@dataclass(frozen=True)
class Family:
    """A kind of question: given the fact `given`, find the fact `answer`."""

    subject: str
    count: int
    given: str
    answer: str
    question: str
    slug: str
    distance: Distance  # the nearest elements make the most plausible distractors
    asked: Callable[[Facts], bool]  # which elements the family asks about


def natural(facts: Facts) -> bool:
    """Return whether the element occurs in nature."""
    return int(facts["number"]) <= NATURAL


def clear_category(facts: Facts) -> bool:
    """Return whether the category of this element is undisputed."""
    return facts["category"] in CLEAR_CATEGORIES


def not_solid(facts: Facts) -> bool:
    """Return whether the element is a gas or a liquid, as few are."""
    return facts["state"] in {"gas", "liquid"}


def not_given_away(facts: Facts) -> bool:
    """Return whether no word of the namesake starts like the element's own name."""
    start = facts["name"][:3].lower()
    return not any(word.startswith(start) for word in facts["namesake"].lower().split())


FAMILIES = (
    Family(
        subject="symbol",
        count=30,
        given="name",
        answer="symbol",
        question="What is the chemical symbol of {element}?",
        slug="symbol-of-{element}",
        distance=look_alike,
        asked=natural,
    ),
    Family(
        subject="name-from-symbol",
        count=30,
        given="symbol",
        answer="name",
        question="Which element has the chemical symbol {symbol}?",
        slug="element-with-symbol-{symbol}",
        distance=look_alike,
        asked=natural,
    ),
    Family(
        subject="atomic-number",
        count=12,
        given="name",
        answer="number",
        question="What is the atomic number of {element}?",
        slug="atomic-number-of-{element}",
        distance=number_gap,
        asked=natural,
    ),
    Family(
        subject="element-by-number",
        count=12,
        given="number",
        answer="name",
        question="Which element has the atomic number {number}?",
        slug="element-number-{number}",
        distance=unlike,
        asked=natural,
    ),
    Family(
        subject="category",
        count=20,
        given="category",
        answer="name",
        question="Which of these elements is {kind}?",
        slug="{category}-number-{number}",
        distance=number_gap,
        asked=clear_category,
    ),
    Family(
        subject="state",
        count=10,
        given="state",
        answer="name",
        question="Which of these elements is a {state} at 20 degrees Celsius?",
        slug="{state}-number-{number}",
        distance=number_gap,
        asked=not_solid,
    ),
    Family(
        subject="period",
        count=10,
        given="name",
        answer="period",
        question="In which period of the periodic table is {element}?",
        slug="period-of-{element}",
        distance=period_gap,
        asked=natural,
    ),
    Family(
        subject="namesake",
        count=26,
        given="name",
        answer="namesake",
        question="What is the element {element} named after?",
        slug="namesake-of-{element}",
        distance=number_gap,
        asked=not_given_away,
    ),
    Family(
        subject="discovery",
        count=10,
        given="name",
        answer="discovered",
        question="In which year was {element} discovered?",
        slug="discovery-of-{element}",
        distance=year_gap,
        asked=natural,
    ),
)


@dataclass(frozen=True)
class Question:
    """A line of the questions file, with its fields in order."""

    id: str
    question: str
    choices: list[str]
    answer: str
    subject: str
    source_id: str


@dataclass(frozen=True)
class Wording:
    """Different ways to state the same facts, usable if all of the required facts are known."""

    needs: tuple[str, ...]
    templates: tuple[str, ...]


# One sentence per group of wordings, from the first wording whose facts are all known.
SENTENCES = (
    (
        Wording(
            ("name",),
            (
                "{name} is the chemical element with the symbol {symbol} and atomic number {number}.",
                "The chemical symbol of {element} is {symbol}, and its atomic number is {number}.",
                "{name}, written {symbol}, has the atomic number {number}.",
            ),
        ),
    ),
    (
        Wording(
            ("group",),
            (
                "It stands in group {group} and period {period} of the periodic table.",
                "In the periodic table it is found in period {period}, group {group}.",
            ),
        ),
        Wording(
            ("period",),
            (
                "It stands in period {period} of the periodic table, in the f-block.",
                "In the periodic table it is found in the f-block, in period {period}.",
            ),
        ),
    ),
    (
        Wording(
            ("category", "state"),
            (
                "It is {kind}, and at 20 degrees Celsius it is a {state}.",
                "At 20 degrees Celsius this element, {kind}, is a {state}.",
            ),
        ),
        Wording(("category",), ("It is {kind}.", "Chemists class it as {kind}.")),
        Wording(
            ("state",),
            (
                "At 20 degrees Celsius it is a {state}.",
                "It is a {state} at 20 degrees Celsius.",
            ),
        ),
    ),
    (
        Wording(
            ("discovered",),
            (
                "It was discovered in {discovered}.",
                "The year of its discovery is {discovered}.",
            ),
        ),
    ),
    (
        Wording(
            ("namesake",),
            (
                "It is named after {namesake}.",
                "Its name comes from {namesake}.",
            ),
        ),
    ),
)


def read_elements() -> list[Facts]:
    """Return the facts of every element, with the two forms that sentences need."""
    with (HERE / "elements.csv").open(encoding="utf-8", newline="") as lines:
        return [with_forms(facts) for facts in csv.DictReader(lines)]


def with_forms(facts: Facts) -> Facts:
    """Add the name inside a sentence and the category with its article."""
    article = "an" if facts["category"][:1] in set("aeiou") else "a"
    return facts | {"element": facts["name"].lower(), "kind": f"{article} {facts['category']}"}


def dice(seed: int, purpose: str) -> random.Random:
    """Return a separate generator for each purpose, so that one change affects only one thing."""
    return random.Random(f"{seed}:{purpose}")


def is_wrong(family: Family, right: Facts, other: Facts) -> bool:
    """Return whether the other element's answer is known to be wrong for this question."""
    columns = (family.given, family.answer)
    return all(other[column] and other[column] != right[column] for column in columns)


def distractors(family: Family, right: Facts, elements: list[Facts], rng: random.Random) -> list[str]:
    """Return three distinct wrong answers, drawn from the elements nearest to the right one."""
    wrong = [other for other in elements if is_wrong(family, right, other)]
    rng.shuffle(wrong)  # random order among equally near elements
    wrong.sort(key=lambda other: family.distance(right, other))
    values = list(dict.fromkeys(other[family.answer] for other in wrong))
    return rng.sample(values[:NEAREST], 3)


def asked_elements(family: Family, elements: list[Facts], rng: random.Random) -> list[Facts]:
    """Return the elements that a family asks about."""
    known = [facts for facts in elements if facts[family.given] and facts[family.answer]]
    return rng.sample([facts for facts in known if family.asked(facts)], family.count)


def assert_one_answer(family: Family, right: Facts, choices: list[str], elements: list[Facts]) -> None:
    """Check the finished choices against every element: exactly one of them may be true."""
    true = {facts[family.answer] for facts in elements if facts[family.given] == right[family.given]}
    assert len(set(choices)) == len(LABELS), choices
    assert true & set(choices) == {right[family.answer]}, choices


def family_questions(family: Family, elements: list[Facts], seed: int) -> Iterator[Question]:
    """Yield every question of a family, with the right answer first."""
    rng = dice(seed, family.subject)
    for right in asked_elements(family, elements, rng):
        choices = [right[family.answer], *distractors(family, right, elements, rng)]
        assert_one_answer(family, right, choices, elements)
        yield make_question(family, right, choices)


def make_question(family: Family, right: Facts, choices: list[str]) -> Question:
    """Return a question about one element, with the right choice first."""
    return Question(
        id=family.slug.format_map(right).lower().replace(" ", "-"),
        question=family.question.format_map(right),
        choices=choices,
        answer=LABELS[0],
        subject=family.subject,
        source_id=passage_id(right),
    )


def place_answer(question: Question, label: str, rng: random.Random) -> Question:
    """Shuffle the wrong choices and put the right one at the label's position."""
    right, *choices = question.choices
    rng.shuffle(choices)
    choices.insert(LABELS.index(label), right)
    return replace(question, choices=choices, answer=label)


def make_questions(elements: list[Facts], seed: int) -> list[Question]:
    """Return all questions, with families mixed and each label correct equally often."""
    rng = dice(seed, "order")
    questions = [question for family in FAMILIES for question in family_questions(family, elements, seed)]
    labels = list(LABELS) * (len(questions) // len(LABELS))
    rng.shuffle(questions)
    rng.shuffle(labels)
    return [place_answer(question, label, rng) for question, label in zip(questions, labels, strict=True)]


def passage_id(facts: Facts) -> str:
    """Return the id by which questions cite the passage about an element."""
    return f"element-{int(facts['number']):03}"


def sentence(wordings: tuple[Wording, ...], facts: Facts, rng: random.Random) -> str:
    """Return a sentence from the first wording whose facts are all known, or an empty string."""
    for wording in wordings:
        if all(facts[need] for need in wording.needs):
            return rng.choice(wording.templates).format_map(facts)
    return ""


def make_passage(facts: Facts, seed: int) -> Row:
    """Return a line of the corpus file: every known fact about one element."""
    rng = dice(seed, passage_id(facts))
    parts = [sentence(wordings, facts, rng) for wordings in SENTENCES]
    return {"id": passage_id(facts), "title": facts["name"], "text": " ".join(filter(None, parts))}


def is_plain(question: Question) -> bool:
    """Return whether the label is not also a choice: "B" could mean the second choice, or boron."""
    return question.answer not in question.choices


def as_lines(rows: list[Row]) -> bytes:
    """Return the bytes of a file with one JSON object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def make_files(seed: int) -> dict[Path, bytes]:
    """Return the content of all files that this script generates."""
    elements = read_elements()
    questions = make_questions(elements, seed)
    asked = {question.id for question in questions}
    others = [each for each in make_questions(elements, seed + 1) if each.id not in asked and is_plain(each)]
    return {
        HERE / "questions.jsonl": as_lines([asdict(question) for question in questions]),
        HERE / "examples.jsonl": as_lines([asdict(question) for question in others[:EXAMPLES]]),
        HERE / "corpus.jsonl": as_lines([make_passage(facts, seed) for facts in elements]),
    }


def check(files: dict[Path, bytes]) -> int:
    """Report every file that is missing or differs from what would be generated."""
    stale = [path.name for path, made in files.items() if not path.exists() or path.read_bytes() != made]
    for name in stale:
        print(f"{name} differs from what elements.csv yields: run python demo/generate.py", file=sys.stderr)
    return int(bool(stale))


def write(files: dict[Path, bytes]) -> int:
    """Write every file and report its length."""
    for path, made in files.items():
        path.write_bytes(made)
        print(f"{path.name}: {len(made.splitlines())} lines")
    return 0


def main() -> int:
    """Write the files, or check the existing ones."""
    options = argparse.ArgumentParser(description="Generate the demo questions and passages.")
    options.add_argument("--seed", type=int, default=7, help="seed for questions, distractors and wordings")
    options.add_argument("--check", action="store_true", help="write nothing; exit 1 if the files differ")
    chosen = options.parse_args()
    files = make_files(chosen.seed)
    return check(files) if chosen.check else write(files)


if __name__ == "__main__":
    sys.exit(main())
