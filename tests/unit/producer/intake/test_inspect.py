"""What `inspect` tells of a file, and what `enqueue` says it read."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from benchmarks.layout_files import CASES, lines
from benchmarks.stand import set_words
from contract.ledger import MemoryLedger
from producer.intake.profile import Lengths
from tests.support import build_test_index
from tests.unit.producer.conftest import Producer, WriteRows
from tests.unit.producer.intake.inspected import SIX, yes_or_no


def test_it_counts_what_stands_in_the_file(write_rows: WriteRows, producer: Producer) -> None:
    found = producer.json("inspect", write_rows(*SIX))

    assert (found["layout"], found["format"], found["rows"], found["read"], found["skipped"]) == (
        "own",
        "JSONL",
        6,
        5,
        1,
    )
    assert found["skipped_kinds"] == {"choices: too many or too few": 1}
    assert (found["questions"], found["choices"]) == (5, {"2": 3, "3": 2})
    assert (found["answers"], found["without_key"]) == ({"A": 3, "B": 1}, 1)
    assert (found["repeated"], found["same_text"]) == (1, 2)
    assert found["subjects"] == {"sky": 1}
    assert found["languages"] == {"en": 3, "fr": 1, "zh": 1}
    assert found["characters"]["question"] == {"p50": 42, "p95": 54, "p99": 54, "max": 54}
    assert found["prompts"][0] == "Question: Which colour is the sky, and why is it so?\nAnswer:"


def test_it_tells_a_person_the_same_and_writes_nothing(
    write_rows: WriteRows, producer: Producer, ledger: MemoryLedger
) -> None:
    result = producer("inspect", write_rows(*SIX))

    assert "5 read + 1 skipped = 6 rows" in result.stdout
    assert "5 questions as mcqueue's own JSONL, 2 to 3 choices, labels A–C" in result.stdout
    assert "questions.jsonl:6: field 'choices': found 1, expected 2 to 26" in result.stdout
    assert "1 duplicate (choices in any order), 1 with other choices or contexts\n" in result.stdout
    assert "1 row cannot be asked" in result.stderr
    assert ledger.runs() == []


def test_a_full_temporary_folder_is_told_with_the_remedy(
    write_rows: WriteRows, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`inspect` alone unpacks a model that guesses languages, and named no place."""

    def full(_text: str) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("py3langid.classify", full)
    result = producer("inspect", write_rows(*SIX), exit_code=1)
    assert "cannot be stored in a temporary file: No space left on device" in result.stderr
    assert "TMPDIR" in result.stderr


def test_it_counts_repeats_as_enqueue_does_also_where_each_has_an_id_of_its_own(
    write_rows: WriteRows, producer: Producer
) -> None:
    path = str(write_rows(*({**row, "id": f"q{n}"} for n, row in enumerate(SIX[:5]))))

    assert producer.json("inspect", path)["repeated"] == 1
    assert producer.json("enqueue", path)["repeated"] == 1


def test_a_fault_in_every_row_stands_there_once(write_rows: WriteRows, producer: Producer) -> None:
    result = producer("inspect", str(write_rows(*({"question": f"q{n}", "choices": ["x"]} for n in range(3)))))

    assert result.stdout.count("found 1, expected 2 to 26") == 1
    assert "The same in 2 more: lines 2, 3\n" in result.stdout


def test_examples_without_the_reasons_that_their_prompt_asks_for_are_told(
    write_rows: WriteRows, producer: Producer
) -> None:
    shots = {"question": "shown?", "choices": ["yes", "no"], "answer": "A", "why": "So it is."}
    write_rows(shots, name="dev.jsonl")
    path = str(write_rows(*yes_or_no("AB")))

    def told(*settings: str) -> bool:
        words = set_words(["few_shot={k: 1, file: dev.jsonl}", *settings])
        found = producer("enqueue", path, "--dry-run", *words)
        return "its examples answer with a letter alone" in found.stderr

    assert told("mode=generate")
    assert not told("mode=generate", "prompt=lettered")
    assert not told("mode=generate", "few_shot.rationale=why")
    assert not told("mode=likelihood")


def test_no_mode_is_advised_a_field_of_reasons_that_it_refuses(write_rows: WriteRows, producer: Producer) -> None:
    """With the prompt `reasoned`, also a judge's run was told to name few_shot.rationale, which it then refused."""
    write_rows({"question": "shown?", "choices": ["yes", "no"], "answer": "A"}, name="dev.jsonl")
    words = ["--set", "few_shot={k: 1, file: dev.jsonl}", "--set", "prompt=reasoned"]
    path = write_rows(*yes_or_no("AB"))

    for mode in ("judge", "letter", "likelihood"):
        found = producer("enqueue", path, "--dry-run", *words, "--set", f"mode={mode}")
        assert "rationale" not in found.stderr


def test_a_prompt_has_the_place_of_passages_that_are_not_retrieved_yet(
    tmp_path: Path, write_rows: WriteRows, producer: Producer
) -> None:
    """`enqueue --dry-run` showed that place; `inspect` showed the prompt of a closed book."""
    index = build_test_index(tmp_path / "facts", ["Iron is a metal."])
    words = (write_rows(*yes_or_no("AB")), "--set", "rag.enabled=true", "--set", f"rag.index={index}")

    found, planned = producer.json("inspect", *words), producer.json("enqueue", *words, "--dry-run")

    assert found["prompts"][0] == planned["prompt"]
    assert "‹the passages retrieved for it›" in found["prompts"][0]
    assert found["prompts"][0] in "\n".join(map(str.strip, producer("inspect", *words).stdout.splitlines()))


def test_a_template_that_fails_on_a_question_that_is_shown_is_an_error(
    tmp_path: Path, write_rows: WriteRows, producer: Producer
) -> None:
    template = tmp_path / "mine.j2"
    template.write_text("{{ question }} {{ choices[7].text }}")

    found = producer("inspect", write_rows(*yes_or_no("AB")), "--set", f"prompt={template}", exit_code=1)

    assert "cannot be rendered for question" in found.stderr
    assert "A template may use question, choices" in found.stderr
    assert found.stdout == ""


def test_a_mode_for_prompts_is_refused_as_no_command_would_ask_questions_in_it(five: Path, producer: Producer) -> None:
    """The questions were shown as they would be asked, without their choices."""
    for command in ("inspect", "enqueue"):
        result = producer(command, five, "--set", "mode=free", exit_code=1)
        assert "For questions, use mode: generate." in result.stderr


def test_beside_a_deployment_of_several_models_none_needs_to_be_named(
    tmp_path: Path, write_rows: WriteRows, producer: Producer
) -> None:
    (tmp_path / "two.yaml").write_text("models: [{model: first}, {model: second}]")
    words = ("--deploy", str(tmp_path / "two.yaml"), "inspect", write_rows(*SIX))

    producer(*words)
    producer(*words, "--set", "model=first")


def test_enqueue_says_what_it_read(tmp_path: Path, producer: Producer) -> None:
    (tmp_path / "arc").write_text(CASES["ARC"].content)

    result = producer("enqueue", "arc", "--dry-run")

    assert "2 questions as ARC-style JSONL, 3 choices, labels A–C" in result.stdout


def test_the_field_of_gold_passages_is_among_the_fields_in_any_layout(tmp_path: Path, producer: Producer) -> None:
    row = {"question": "Which?", "choices": ["x", "y"], "answer": "A", "gold": ["p1", "p2"]}
    for name, other in (("own", "choices"), ("another", "options")):
        renamed = {other if field == "choices" else field: value for field, value in row.items()}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(renamed) + "\n")
        assert "gold passages ← gold" in producer("inspect", str(tmp_path / f"{name}.jsonl")).stdout


def test_of_an_old_models_answer_beside_the_key_the_person_says_which_is_which(
    tmp_path: Path, producer: Producer
) -> None:
    (tmp_path / "old.csv").write_text("question,A,B,C,answer,gold_label\nWhich is a colour?,red,seven,loud,B,A\n")
    refused = producer("enqueue", "old.csv", "--dry-run", exit_code=1)
    fields = "question ← question · choices ← A, B, C · answer ← answer (also there: gold_label) · id ← none\n"
    told = {"question": ["question"], "choices": ["A", "B", "C"], "answer": ["answer"], "also_there": ["gold_label"]}
    none_of: dict[str, list[str]] = {"id": [], "subject": [], "context": [], "gold_passages": []}

    assert "Use --map answer=gold_label for the latter, --map answer=answer for the former" in refused.stderr

    chosen = ("--map", "answer=answer")
    for command in (("inspect", "old.csv", *chosen), ("enqueue", "old.csv", "--dry-run", *chosen)):
        shown = producer(*command).stdout
        assert fields in shown
        assert shown.rstrip().endswith("B. seven"), "the key stands below the prompt"
        assert producer.json(*command)["fields"] == told | none_of | {"unused": ["gold_label"]}
    assert producer.json("inspect", "old.csv", *chosen)["keys"] == [["B"]]
    assert producer.json("enqueue", "old.csv", "--dry-run", *chosen)["key"] == ["B"]
    assert fields in producer("enqueue", "old.csv", *chosen).stdout

    mapped = producer("inspect", "old.csv", "--map", "answer=gold_label").stdout
    assert "answer ← gold_label (also there: answer) ·" in mapped
    assert mapped.rstrip().endswith("A. red")


def test_it_is_told_how_the_examples_are_read_which_count_as_the_questions_do(
    tmp_path: Path, producer: Producer
) -> None:
    options = ["red", "seven", "loud"]
    asked = [{"question": f"q{at}", "options": options, "answer": at} for at in (1, 3)]
    (tmp_path / "asked.jsonl").write_text(lines(*asked))
    (tmp_path / "pool.jsonl").write_text(lines({"question": "e", "options": options, "answer": 1}))
    few_shot = ("--set", "few_shot.k=1", "--set", "few_shot.file=pool.jsonl")

    shown = producer("enqueue", "asked.jsonl", "--dry-run", "--set", "mode=letter", *few_shot).stdout

    assert "pool.jsonl as plain JSONL, answers by index from 1\n" in shown
    assert "Answer: A" in shown
    producer("inspect", "asked.jsonl", *few_shot)


def test_it_is_told_where_only_the_name_says_what_an_index_counts_from(tmp_path: Path, producer: Producer) -> None:
    row = {"question": "q", "options": ["red", "seven", "loud"], "answer_index": 1}
    (tmp_path / "q.jsonl").write_text(lines(row))
    (tmp_path / "sure.jsonl").write_text(lines(row, {**row, "answer_index": 0}))

    for command in (("inspect",), ("inspect", "--json"), ("enqueue", "--dry-run")):
        said = producer(*command, "q.jsonl").stderr
        assert "answer_index is assumed to count from 0. If it counts from 1, add --map base=1." in said
        assert "assumed to count" not in producer(*command, "sure.jsonl").stderr


def test_backslashes_that_json_took_for_control_characters_are_warned_of(tmp_path: Path, producer: Producer) -> None:
    fraction = r'{"question": "Is \frac 1 2 it?", "choices": ["a", "b"], "answer": "A"}'
    letter = r'{"question": "Is it?", "choices": ["a", "\beta"], "answer": "A"}'
    (tmp_path / "q.jsonl").write_text(f"{fraction}\n{letter}\n")

    for command in (("inspect", "q.jsonl"), ("enqueue", "q.jsonl", "--dry-run")):
        assert "2 questions with a backspace or form feed" in producer(*command).stderr


def test_choices_with_the_same_text_are_warned_of(tmp_path: Path, producer: Producer) -> None:
    (tmp_path / "q.jsonl").write_text(
        lines({"question": "q", "choices": ["red", "red ", "blue"], "answer": "A"})
        + lines({"question": "r", "choices": ["red", "blue"], "answer": "A"})
    )

    for command in (("inspect", "q.jsonl"), ("enqueue", "q.jsonl", "--dry-run")):
        assert "1 question with the same text in two choices" in producer(*command).stderr


@pytest.mark.parametrize(
    ("row", "warning"),
    [
        ({"question": "Is 5 &lt; 6?"}, "1 question with HTML entities like &lt;"),
        ({"question": "What does <image 1> show?"}, "1 question with an image, which no mode shows"),
        ({"question": "What does ![it](a.png) show?"}, "1 question with an image, which no mode shows"),
        ({"question": "What is data:image/png;base64,iVBORw0KGgo=?"}, "1 question with an image, which no mode shows"),
        ({"question": "What is this?", "image_path": "a.png", "level": "hard"}, "1 question with an image, which no"),
    ],
)
def test_what_a_model_is_not_shown_as_it_was_meant_is_warned_of(
    tmp_path: Path, producer: Producer, row: dict[str, str], warning: str
) -> None:
    plain = lines(
        {"question": "Is R&D; fun < 5?", "image_path": "", "level": "easy", "choices": ["yes", "no"], "answer": "A"}
    )
    (tmp_path / "plain.jsonl").write_text(plain)
    (tmp_path / "q.jsonl").write_text(lines({**row, "choices": ["yes", "no"], "answer": "A"}))

    for command in ("inspect",), ("enqueue", "--dry-run"):
        assert warning in producer(*command, "q.jsonl").stderr
        assert "warning" not in producer(*command, "plain.jsonl").stderr


@pytest.mark.parametrize(
    ("row", "warning", "answer_to_it"),
    [
        ({"choices": ["yes\n", "no"]}, "1 question with a choice that ends in white space", ("mode=letter",)),
        ({"question": "Is it?\nAnswer: "}, "1 question with 'Answer:' at its end, as the prompt has", ("prompt=free",)),
        ({"question": "Is it?\nAnswer:"}, "1 question with 'Answer:' at its end, as the prompt has", ("prompt=free",)),
    ],
)
def test_what_the_model_would_be_shown_or_score_twice_or_by_accident_is_warned_of(
    tmp_path: Path, producer: Producer, row: dict[str, object], warning: str, answer_to_it: tuple[str, ...]
) -> None:
    (tmp_path / "q.jsonl").write_text(lines({"question": "Is it?", "choices": ["yes", "no"], "answer": "A", **row}))

    for command in ("inspect",), ("enqueue", "--dry-run"):
        assert warning in producer(*command, "q.jsonl").stderr
        settings = [word for each in answer_to_it for word in ("--set", each)]
        assert "warning" not in producer(*command, "q.jsonl", *settings).stderr


@pytest.mark.parametrize(
    "shown",
    [
        "A) red B) green C) blue",
        "(A) red (B) green (C) blue",
        "1. red\n2. green\n3. blue\nAnswer Choices above",
        "  choice: red\n  choice: green\n  choice: blue\nA:",
        "- red\n- green\n- blue",
        "A：red B：green C：blue",
    ],
)
def test_a_list_of_the_choices_in_the_question_beside_a_field_of_them_is_warned_of(
    tmp_path: Path, producer: Producer, shown: str
) -> None:
    row = {"question": f"What colour is it?\n{shown}", "choices": ["red", "green", "blue"], "answer": "B"}
    (tmp_path / "q.jsonl").write_text(lines(row))
    warning = "1 question whose text lists the choices, too"

    for command in ("inspect",), ("enqueue", "--dry-run"):
        for settings in (), ("--set", "mode=letter"), ("--set", "mode=generate", "--set", "prompt=free"):
            assert warning in producer(*command, "q.jsonl", *settings).stderr
    assert "warning" not in producer("inspect", "q.jsonl", "--set", "prompt=free").stderr


@pytest.mark.parametrize(
    "question",
    ["Is it red, green or blue?", "Is it (A) red or green or blue?", "1. It is red. 2. It is green. 3. It is blue."],
)
def test_choices_that_a_question_only_speaks_of_are_no_list(tmp_path: Path, producer: Producer, question: str) -> None:
    (tmp_path / "q.jsonl").write_text(lines({"question": question, "choices": ["red", "green", "blue"], "answer": "B"}))

    assert "warning" not in producer("inspect", "q.jsonl").stderr


@pytest.mark.parametrize(
    "choices",
    [
        ["(A) red", "(B) green", "(C) blue", "because the sky is"],
        ["A.red", "B. green", "C  blue", "D. grey"],
    ],
)
def test_labels_that_only_some_choices_begin_with_are_warned_of(
    tmp_path: Path, producer: Producer, choices: list[str]
) -> None:
    rows = [{"question": f"q{n}", "options": ["(A) x", "(B) y", "(C) z"], "label": "B"} for n in range(3)]
    (tmp_path / "q.jsonl").write_text(lines(*rows, {"question": "q", "options": choices, "label": "B"}))

    for command in ("inspect",), ("enqueue", "--dry-run"):
        assert "1 question with labels before some of the choices" in producer(*command, "q.jsonl").stderr


@pytest.mark.parametrize(
    ("right", "wrong", "settings", "told"),
    [
        (" red", "green", ("mode=letter",), True),
        ("red ", "green", ("mode=letter",), True),
        (" red", "green", (), False),  # the prompt shows no choices
        (" red", "green", ("mode=letter", "prompt=trimmed.j2"), False),
        (" red", " green", ("mode=letter",), False),
        ("red", " green", ("mode=letter",), False),
    ],
)
def test_white_space_that_tells_the_right_choice_is_warned_of(
    tmp_path: Path, producer: Producer, right: str, wrong: str, settings: tuple[str, ...], *, told: bool
) -> None:
    (tmp_path / "trimmed.j2").write_text(
        "{{ question }}\n{% for choice in choices %}{{ choice.label }}. {{ choice.text | trim }}\n{% endfor %}Answer:"
    )
    rows = [{"question": f"Is it {n}?", "choices": [right, wrong, "blue"], "answer": "A"} for n in range(9)]
    rows.append({"question": "Is it 9?", "choices": ["red", "green", " blue"], "answer": "A"})
    (tmp_path / "q.jsonl").write_text(lines(*rows))
    words = [word for each in settings for word in ("--set", each)]

    for command in ("inspect",), ("enqueue", "--dry-run"):
        said = producer(*command, "q.jsonl", *words).stderr
        assert ("white space tells the right choice: in 9 of 10 questions" in said) == told
        assert ("white space tells" in said) == told


def test_white_space_that_is_as_often_beside_a_wrong_choice_tells_nothing(tmp_path: Path, producer: Producer) -> None:
    rows = [{"question": f"Is it {n}?", "choices": [" yes", "no"], "answer": "AAAAABBBB"[n % 9]} for n in range(99)]
    (tmp_path / "q.jsonl").write_text(lines(*rows))

    assert "white space tells" not in producer("inspect", "q.jsonl", "--set", "mode=letter").stderr


@pytest.mark.parametrize("choices", [["A. thaliana", "yeast", "mice"], ["(A) and (B)", "(B) only", "neither"]])
def test_a_choice_that_begins_like_a_label_is_no_label(tmp_path: Path, producer: Producer, choices: list[str]) -> None:
    (tmp_path / "q.jsonl").write_text(lines({"question": "Which?", "choices": choices, "answer": 0}))

    assert "labels before some" not in producer("inspect", "q.jsonl").stderr


def test_a_list_of_the_choices_in_the_question_is_left_out_by_the_layout_inline(
    tmp_path: Path, producer: Producer
) -> None:
    text = "What colour is it?\nAnswer Choices: (A) red (B) green (C) blue"
    rows = [{"question": text, "options": {"A": "red", "B": "green", "C": "blue"}, "label": "B"}] * 2
    (tmp_path / "q.jsonl").write_text(lines(*rows))

    found = producer("inspect", "q.jsonl", "--layout", "inline")

    assert "lists the choices" not in found.stderr
    assert "Question: What colour is it?\nAnswer:" in found.stdout.replace("            ", "")


def test_enqueue_counts_the_kinds_of_what_it_skipped(write_rows: WriteRows, producer: Producer) -> None:
    path = write_rows(*SIX, "{broken", {**SIX[0], "answer": "Z"}, {**SIX[0], "answer": "Y"})

    refused = producer("enqueue", path, "--dry-run", exit_code=1)
    skipped = producer.json("enqueue", path, "--skip-bad")

    assert (
        "by kind: 2 × answer: names no choice; 1 × choices: too many or too few; 1 × malformed JSON" in refused.stderr
    )
    assert (skipped["read"], skipped["skipped"], skipped["rows"]) == (5, 4, 9)
    assert skipped["skipped_kinds"]["answer: names no choice"] == 2
    rejected = [json.loads(line) for line in Path(skipped["rejected"]).read_text().splitlines()]
    assert [(each["line"], each["kind"]) for each in rejected] == [
        (6, "too many or too few"),
        (7, "malformed JSON"),
        (8, "names no choice"),
        (9, "names no choice"),
    ]


@pytest.mark.parametrize(
    ("options", "wanted", "exit_code"),
    [
        (("--layout", "arc", "--map", "question=q"), "mutually exclusive", 2),
        (("--map", "questoin=q"), "Did you mean 'question'", 1),
        (("--map", "base=2"), "neither 0 nor 1", 1),
        (("--encoding", "klingon"), "unknown text encoding 'klingon'", 1),
        (("--encoding", "base64"), "unknown text encoding 'base64'", 1),
        (("--encoding", "idna"), "'idna' is not a text encoding", 1),
        (("--encoding", "unicode_escape"), "'unicode_escape' is not a text encoding", 1),
        (("--encoding", "cp037"), "'cp037' does not end lines with the byte 0x0a", 1),
        (("--layout", "ark"), "Did you mean 'arc'", 1),
        (("--stratified",), "--stratified requires --sample", 2),
        (("--seed", "1"), "--seed requires --sample", 2),
        (("--sample", "0"), "'--sample': 0 is not in the range", 2),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    five: Path, producer: Producer, options: tuple[str, ...], wanted: str, exit_code: int
) -> None:
    assert wanted in producer("enqueue", five, *options, exit_code=exit_code).stderr


def test_options_of_reading_reach_the_reader(tmp_path: Path, producer: Producer) -> None:
    (tmp_path / "q.csv").write_bytes("t,eins,zwei,k\nWie heißt es?,ä,ö,2\n".encode("latin-1"))
    (tmp_path / "two.jsonl").write_text(lines({"goal": "g", "sol1": "x", "sol2": "y"}))
    (tmp_path / "two.lst").write_text("1\n")
    mapped = ("--map", "question=t,choices=eins+zwei", "--map", "answer=k,base=1", "--encoding", "latin-1")

    by_hand = producer.json("inspect", "q.csv", *mapped)
    labelled = producer.json("inspect", "two.jsonl", "--answers", "two.lst")

    assert (by_hand["answers"], by_hand["encoding"]) == ({"B": 1}, "iso8859-1")
    assert labelled["answers"] == {"B": 1}


def test_the_answers_of_a_separate_file_have_the_encoding_that_is_given(tmp_path: Path, producer: Producer) -> None:
    """The message said to add --encoding cp1252, which changed nothing."""
    (tmp_path / "q.jsonl").write_text(lines({"goal": "g", "sol1": "caf\u00e9", "sol2": "tea"}))
    (tmp_path / "answers.txt").write_bytes("café\n".encode("cp1252"))
    words = ("--map", "question=goal,choices=sol1+sol2", "--answers", "answers.txt")

    refused = producer("inspect", "q.jsonl", *words, exit_code=1)

    assert "add --encoding cp1252" in refused.stderr
    assert producer.json("inspect", "q.jsonl", *words, "--encoding", "cp1252")["answers"] == {"A": 1}


@pytest.mark.parametrize("spelling", ["UTF-16", "utf16", "utf_16_le", "u16", "UTF-32", "UTF8", "utf-8-sig"])
def test_an_encoding_may_be_spelled_as_python_allows(tmp_path: Path, producer: Producer, spelling: str) -> None:
    rows = lines({"question": "Wie heißt es?", "choices": ["ä", "ö"], "answer": "B"}) * 2
    (tmp_path / "q.jsonl").write_bytes(rows.encode(spelling))

    assert producer.json("inspect", "q.jsonl", "--encoding", spelling)["read"] == 2


def test_a_percentile_is_a_length_that_occurs() -> None:
    lengths = Lengths()
    for n in range(1, 101):
        lengths.add(n)

    assert lengths.to_json() == {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert Lengths().to_json() == {"p50": 0, "p95": 0, "p99": 0, "max": 0}


def test_a_part_without_its_field_is_told_how_to_name_one(five: Path, producer: Producer) -> None:
    """It was told "Did you mean 'question'?" of what it was."""
    told = producer("inspect", five, "--map", "question", exit_code=1).stderr
    assert "--map: 'question' is not PART=FIELD. For example question=FIELD." in told
