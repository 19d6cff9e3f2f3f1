"""The export in lm-evaluation-harness' layout."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from contract.choice_order import arrangements
from contract.ledger import MemoryLedger, Run, Taken
from contract.mode import Mode, Normalization
from contract.question import Question
from contract.spec import ChatTemplate, FewShot, Judge, Prompt, RunSpec, Sampling
from contract.verdict import Failure, Outcome, Passage, Verdict
from producer.export.results import Exported, export
from tests.support import interrupted_run, make_questions, settle

PROMPT = Prompt(
    name="labelled",
    text="{% if context %}{{ context }}\n{% endif %}{{ question }}{% for c in choices %}\n{{ c.label }}. {{ c.text }}"
    "{% endfor %}\nAnswer:",
)
#: Silver is the likeliest as a whole, "Größe" per character, "gold!" nothing.
QUESTIONS = (
    Question(id="a", question="Which?", choices=("silver", "Größe", "gold!"), answer="B", subject="s"),
    Question(id="b", question="And?", choices=("x", "y"), answer="A", also_right=("B",)),
    Question(id="c", question="Who knows?", choices=("x", "y")),
    Question(id="d", question="Too long?", choices=("x", "y"), answer="A"),
    Question(id="e", question="Not yet?", choices=("x", "y"), answer="A"),
)
SUMS = {"A": -5.5, "B": -5.0, "C": -6.0}
#: Inside what Python's own floats lose in a division and a multiplication.
CLOSE = 1e-12


def spec_of(mode: Mode, **more: Any) -> RunSpec:
    sampling = Sampling(max_tokens=9, stop=("\n",)) if mode.writes else None
    judge = Judge(prompt=PROMPT) if mode is Mode.JUDGE else None
    given = {"sampling": sampling, "judge": judge, "prompt": PROMPT, **more}
    return RunSpec(questions_digest="0" * 64, model="org/m", mode=mode, **given)


def verdicts(**first: Any) -> tuple[Verdict, ...]:
    """Of the first four questions; what is given belongs to a."""
    weighed: dict[str, Any] = {"choice_scores": {"A": -1.0, "B": -2.0}, "choice": "A"}
    return (
        Verdict(**{"question_id": "a", "outcome": Outcome.CORRECT, "choice": "B", "choice_scores": SUMS, **first}),
        Verdict(question_id="b", outcome=Outcome.CORRECT, **weighed),
        Verdict(question_id="c", outcome=Outcome.ANSWERED, **weighed),
        Verdict(question_id="d", outcome=Outcome.FAILED, error=Failure(type="RequestRejected", message="long")),
    )


class Written:
    """An export read back: `samples` by doc_id, `results`, and what was remarked."""

    def __init__(self, done: Exported) -> None:
        self.paths = done.files[:-1]
        lines = [json.loads(line) for line in self.paths[0].read_text(encoding="utf-8").splitlines()]
        self.samples: dict[int, dict[str, Any]] = {line["doc_id"]: line for line in lines}
        self.results: dict[str, Any] = json.loads(self.paths[1].read_text(encoding="utf-8"))
        self.remarks = "\n".join(done.remarks)


def exported(
    directory: Path,
    spec: RunSpec,
    *given: Verdict,
    questions: tuple[Question, ...] = QUESTIONS,
    source: str = "data/Elements v2.jsonl",
    taken: Taken | None = None,
) -> Written:
    ledger = MemoryLedger()
    count = len(questions)
    run = Run(run_id="run-1", spec=spec, source=source, taken=taken, questions=count, chance=0.5, created_at=1.5)
    ledger.open_run(run)
    ledger.add_questions("run-1", questions)
    ledger.commit("run-1", given or verdicts())
    return Written(export(ledger, "run-1", directory, ("lm-eval",)))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_files_are_named_and_placed_as_its_readers_look_for_them(tmp_path: Path) -> None:
    found = exported(tmp_path, spec_of(Mode.LIKELIHOOD))

    folder = tmp_path / "lm-eval" / "org__m"
    assert list(found.paths) == [
        folder / "samples_elements-v2_1970-01-01T00-00-01.500000.jsonl",
        folder / "results_1970-01-01T00-00-01.500000.json",
    ]
    # How its utilities take the task and the date out of a name.
    name = found.paths[0].name
    assert name[name.find("_") + 1 : name.rfind("_")] == "elements-v2"
    assert name[name.rfind("_") + 1 :].replace(".jsonl", "") == found.paths[1].stem.removeprefix("results_")


def test_a_sample_of_weighed_choices_is_one_of_its_multiple_choice_tasks(tmp_path: Path) -> None:
    found = exported(tmp_path, spec_of(Mode.LIKELIHOOD))

    prompt = "Which?\nA. silver\nB. Größe\nC. gold!\nAnswer:"
    doc = QUESTIONS[0].model_dump(mode="json")
    pairs = [["-5.5", "None"], ["-5.0", "None"], ["-6.0", "None"]]
    assert found.samples[0] == {
        "doc_id": 0,
        "doc": doc,
        "target": "1",
        "arguments": {
            "gen_args_0": {"arg_0": prompt, "arg_1": " silver"},
            "gen_args_1": {"arg_0": prompt, "arg_1": " Größe"},
            "gen_args_2": {"arg_0": prompt, "arg_1": " gold!"},
        },
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc", "acc_norm", "acc_bytes"],
        "doc_hash": sha(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha(prompt),
        "target_hash": sha("1"),
        "acc": 1.0,
        "acc_norm": 0.0,  # -5.5 / 6 of silver is more than -5.0 / 5 of Größe …
        "acc_bytes": 1.0,  # … and less than -5.0 / 7, as ö and ß are two bytes each
    }
    assert found.samples[1]["target"] == "[0, 1]"
    assert 'is_greedy, after each log-likelihood, is "None"' in found.remarks


@pytest.mark.parametrize("normalization", sorted({*Normalization} - {Normalization.MUTUAL_INFO}))
def test_log_likelihoods_are_sums_whatever_the_run_divided_them_by(
    tmp_path: Path, normalization: Normalization
) -> None:
    tokens = {"A": 1, "B": 4, "C": 2}
    scores = {
        label: SUMS[label] / normalization.length(text, tokens[label])
        for label, text in zip("ABC", QUESTIONS[0].choices, strict=True)
    }  # fmt: skip
    own = {"none": "acc", "character": "acc_norm", "byte": "acc_bytes", "token": "acc_norm_token"}[normalization]
    right = max(scores, key=lambda label: scores[label]) == "B"
    outcome = Outcome.CORRECT if right else Outcome.WRONG

    spec = spec_of(Mode.LIKELIHOOD, normalization=normalization)
    found = exported(tmp_path, spec, *verdicts(choice_scores=scores, outcome=outcome, choice_tokens=tokens))

    sample = found.samples[0]
    assert [float(pair[0]) for pair in sample["filtered_resps"]] == pytest.approx(list(SUMS.values()), abs=CLOSE)
    assert (sample["acc"], sample["acc_norm"], sample["acc_bytes"]) == (1.0, 0.0, 1.0)
    assert sample[own] == float(right), "the run's own metric is the verdict"


def test_mutual_information_has_the_requests_without_the_question_behind_those_with_it(tmp_path: Path) -> None:
    unconditional = {"A": -3.0, "B": -1.5, "C": -9.0}
    scores = {label: SUMS[label] - unconditional[label] for label in SUMS}
    spec = spec_of(Mode.LIKELIHOOD, normalization=Normalization.MUTUAL_INFO, unconditional_prompt="Answer:")
    weighed = {"choice_scores": scores, "unconditional_scores": unconditional, "choice": "C"}
    found = exported(tmp_path, spec, *verdicts(**weighed, outcome=Outcome.WRONG))

    sample = found.samples[0]
    assert [(each["arg_0"] == "Answer:", each["arg_1"]) for each in sample["arguments"].values()] == [
        (without, f" {choice}") for without in (False, True) for choice in QUESTIONS[0].choices
    ]
    assert [float(pair[0]) for pair in sample["filtered_resps"]] == [-5.5, -5.0, -6.0, -3.0, -1.5, -9.0]
    metrics = {name: sample[name] for name in sample["metrics"]}
    assert metrics == {"acc": 1.0, "acc_norm": 0.0, "acc_bytes": 1.0, "acc_mutual_info": 0.0}


def test_choices_that_are_equally_likely_as_a_whole_stay_so_after_a_division_by_their_lengths(tmp_path: Path) -> None:
    # -2.625 / 19 · 19 is less than -2.625, and the second choice was taken for the likelier one.
    texts = ("x" * 19, "x" * 8)
    scores = {label: -2.625 / len(text) for label, text in zip("AB", texts, strict=True)}
    assert scores["A"] * 19 < scores["B"] * 8
    question = Question(id="a", question="Which?", choices=texts, answer="A")
    spec = spec_of(Mode.LIKELIHOOD, normalization=Normalization.CHARACTER)
    first = Verdict(question_id="a", outcome=Outcome.CORRECT, choice="A", choice_scores=scores)

    (sample,) = exported(tmp_path, spec, first, questions=(question,)).samples.values()

    assert sample["acc"] == 1.0


def test_an_impossible_choice_is_written_as_python_reads_it(tmp_path: Path) -> None:
    found = exported(tmp_path, spec_of(Mode.LETTER), *verdicts(choice_scores={**SUMS, "A": -math.inf}))

    assert float(found.samples[0]["filtered_resps"][0][0]) == -math.inf


def test_letters_are_weighed_as_the_letters_that_were_shown(tmp_path: Path) -> None:
    spec = next(
        spec
        for spec in (spec_of(Mode.LETTER, shuffle=True, seed=seed) for seed in range(20))
        if not arrangements(QUESTIONS[0], spec)[0].as_enqueued
    )
    found = exported(tmp_path, spec)

    sample = found.samples[0]
    (arrangement,) = arrangements(QUESTIONS[0], spec)
    assert [each["arg_1"] for each in sample["arguments"].values()] != [" A", " B", " C"]
    for choice, each in zip(QUESTIONS[0].choices, sample["arguments"].values(), strict=True):
        assert f"\n{each['arg_1'].strip()}. {choice}\n" in each["arg_0"], "the label stands before its choice"
    assert sample["filtered_resps"] == [[str(SUMS[label]), "None"] for label in "ABC"], "in doc's order"
    assert (sample["target"], sample["metrics"], sample["acc"]) == ("1", ["acc"], 1.0)
    assert arrangement.question.choices != QUESTIONS[0].choices
    assert "no acc_norm" in found.remarks
    assert "choices were shuffled" in found.remarks


def test_a_written_answer_has_its_text_and_the_choice_read_from_it(tmp_path: Path) -> None:
    unread = Verdict(question_id="e", outcome=Outcome.UNANSWERED, raw_text="no idea")
    found = exported(tmp_path, spec_of(Mode.GENERATE), *verdicts(raw_text="It is B."), unread)

    sample = found.samples[0]
    assert sample["arguments"]["gen_args_0"]["arg_1"] == {
        "until": ["\n"], "max_gen_toks": 9, "do_sample": False, "temperature": 0.0, "top_p": 1.0
    }  # fmt: skip
    assert (sample["target"], sample["resps"], sample["filtered_resps"]) == ("B", [["It is B."]], ["B"])
    assert (sample["filter"], sample["metrics"], sample["exact_match"]) == ("extract", ["exact_match"], 1.0)
    assert (found.samples[4]["filtered_resps"], found.samples[4]["exact_match"]) == (["[invalid]"], 0.0)
    config = found.results["configs"]["elements-v2"]
    assert (config["output_type"], config["filter_list"][0]["name"]) == ("generate_until", "extract")
    assert "mode generate has no log-likelihoods" in found.remarks
    assert found.remarks.splitlines()[0] == f"lm-eval: {config['metadata']['missing'][0]}"


def test_sampling_is_described_with_what_the_run_chose(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"top_k": 20, "repetition_penalty": 1.1, "reasoning_effort": "low"}
    found = exported(tmp_path, spec_of(Mode.GENERATE, sampling=Sampling(**chosen)), *verdicts(raw_text="It is B."))

    basic = {"until", "max_gen_toks", "do_sample", "temperature", "top_p"}
    described = found.results["configs"]["elements-v2"]["generation_kwargs"]
    assert {name: value for name, value in described.items() if name not in basic} == chosen


def test_every_vote_is_a_response_to_the_one_request(tmp_path: Path) -> None:
    spec = spec_of(Mode.VOTE, sampling=Sampling(samples=3, temperature=0.7))
    votes = [verdict.model_copy(update={"raw_text": '["A", "B", "B"]'}) for verdict in verdicts()]
    found = exported(tmp_path, spec, *votes)

    assert (found.samples[0]["resps"], found.samples[0]["filtered_resps"]) == ([["A", "B", "B"]], ["B"])
    assert found.results["configs"]["elements-v2"]["repeats"] == 3
    assert "exact_match,majority" in found.results["results"]["elements-v2"]


def test_what_a_judge_has_graded_is_the_text_against_the_right_choices_text(tmp_path: Path) -> None:
    found = exported(tmp_path, spec_of(Mode.JUDGE), *verdicts(raw_text="the size"))

    sample = found.samples[0]
    assert (sample["target"], sample["filtered_resps"], sample["acc"]) == ("Größe", ["the size"], 1.0)
    assert "acc is the judge's grade" in found.remarks


def test_free_prompts_are_texts_without_target_or_metric(tmp_path: Path) -> None:
    question = Question(id="p", question="Say something.", choices=())
    spec = spec_of(Mode.FREE, prompt=Prompt(name="bare", text="{{ question }}"))
    answer = Verdict(question_id="p", outcome=Outcome.ANSWERED, raw_text="Something.")
    found = exported(tmp_path, spec, answer, questions=(question,))

    sample = found.samples[0]
    assert (sample["target"], sample["resps"], sample["metrics"]) == ("", [["Something."]], [])
    assert "key" not in found.remarks


def test_a_circular_run_has_only_the_metric_that_wants_every_rotation(tmp_path: Path) -> None:
    spec = spec_of(Mode.LIKELIHOOD, circular=True, normalization=Normalization.CHARACTER)
    found = exported(tmp_path, spec, *verdicts(outcome=Outcome.WRONG, rotations=3, rotations_right=2))

    assert (found.samples[0]["metrics"], found.samples[0]["acc_norm"]) == (["acc_norm"], 0.0)
    assert "every rotation" in found.remarks


def test_the_prompt_is_the_one_that_was_sent_with_examples_and_passages(tmp_path: Path) -> None:
    pool = tuple(Question(id=f"x{n}", question=f"Ex {n}?", choices=("u", "v"), answer="B") for n in range(2))
    spec = spec_of(Mode.LETTER, few_shot=FewShot(k=1, pool=pool), chat_template=ChatTemplate.AUTO)
    passages = (Passage(id="p", score=1, text="Seen."), Passage(id="q", score=0, text="Not seen.", shown=False))
    found = exported(tmp_path, spec, *verdicts(passages=passages))

    prompt = found.samples[0]["arguments"]["gen_args_0"]["arg_0"]
    assert prompt.startswith("Ex 0?\nA. u\nB. v\nAnswer: B\n\nSeen.\nWhich?\nA. silver")
    assert found.results["n-shot"] == {"elements-v2": 1}
    assert "before they are put into the model's chat template" in found.remarks


def test_turns_of_a_chat_are_written_as_messages_with_the_answers_that_begin_the_next(tmp_path: Path) -> None:
    pool = tuple(Question(id=f"x{n}", question=f"Ex {n}?", choices=("u", "v"), answer="B") for n in range(2))
    shots = FewShot(k=1, pool=pool)
    spec = spec_of(Mode.LETTER, few_shot=shots, chat_template=ChatTemplate.TURNS, description="Größe zählt.")
    found = exported(tmp_path, spec, *verdicts())

    asked = found.samples[0]["arguments"]["gen_args_0"]
    said = json.loads(asked["arg_0"])
    assert [(each["role"], each["content"].splitlines()[0]) for each in said] == [
        ("system", "Größe zählt."),
        ("user", "Ex 0?"),
        ("assistant", "B"),
        ("user", "Which?"),
    ]
    assert asked["arg_1"] == "A"
    assert found.results["fewshot_as_multiturn"] is True
    assert exported(tmp_path / "plain", spec_of(Mode.LETTER), *verdicts()).results["fewshot_as_multiturn"] is False


@pytest.mark.parametrize("chat", [ChatTemplate.NEVER, ChatTemplate.AUTO, ChatTemplate.TURNS])
def test_words_that_the_answer_begins_with_are_part_of_the_prompt(tmp_path: Path, chat: ChatTemplate) -> None:
    found = exported(tmp_path, spec_of(Mode.LETTER, chat_template=chat, answer_prefix="It is"), *verdicts())

    asked = found.samples[0]["arguments"]["gen_args_0"]
    if chat is ChatTemplate.TURNS:
        assert json.loads(asked["arg_0"])[-1] == {"role": "assistant", "content": "It is"}
    else:
        assert asked["arg_0"].endswith("\nAnswer: It is")
    assert asked["arg_1"] == " A"
    assert found.results["configs"]["elements-v2"]["gen_prefix"] == "It is"


def test_subsets_and_splits_of_a_file_are_tasks_of_their_own(tmp_path: Path) -> None:
    taken = Taken(subset="virology", split="test")

    found = exported(tmp_path, spec_of(Mode.LETTER), source="data/mmlu.json, subset virology, split test", taken=taken)

    assert list(found.results["results"]) == ["mmlu-virology-test"]
    assert found.paths[0].name.startswith("samples_mmlu-virology-test_")


def test_a_file_whose_name_is_as_long_as_a_name_can_be_is_exported_too(tmp_path: Path) -> None:
    assert exported(tmp_path, spec_of(Mode.LETTER), source=f"data/{'q' * 249}.jsonl").paths[0].is_file()


def test_the_results_sum_up_the_samples_and_say_what_is_not_among_them(tmp_path: Path) -> None:
    wrong = Verdict(question_id="e", outcome=Outcome.WRONG, choice="B", choice_scores={"A": -2.0, "B": -1.0})
    found = exported(tmp_path, spec_of(Mode.LETTER), *verdicts(), wrong)

    task = found.results["results"]["elements-v2"]
    assert task == {
        "name": "elements-v2",
        "alias": "elements-v2",
        "sample_len": 4,
        "acc,none": 2 / 3,
        "acc_stderr,none": pytest.approx(math.sqrt(2 / 3 * 1 / 3 / 2)),
    }
    assert found.results["n-samples"] == {"elements-v2": {"original": 5, "effective": 4}}
    assert found.results["higher_is_better"] == {"elements-v2": {"acc": True}}
    assert sorted(found.samples) == [0, 1, 2, 4], "doc_id is the place in the question file"
    hashes = "".join(each["doc_hash"] + each["prompt_hash"] + each["target_hash"] for each in found.samples.values())
    assert found.results["task_hashes"] == {"elements-v2": sha(hashes)}
    assert (found.samples[2]["target"], found.samples[2]["metrics"], found.samples[2]["acc"]) == ("", ["acc"], None)
    assert all(sample.keys() == found.samples[0].keys() for sample in found.samples.values())
    assert "1 of 5 questions failed: no sample, not in any metric." in found.remarks
    assert "1 question without a key" in found.remarks


def test_an_unfinished_run_says_how_many_questions_are_missing(tmp_path: Path) -> None:
    found = exported(tmp_path, spec_of(Mode.LETTER))

    assert "lm-eval: 1 of 5 questions unsettled: no sample, not in any metric." in found.remarks
    assert found.results["configs"]["elements-v2"]["metadata"]["missing"] == [
        each.removeprefix("lm-eval: ") for each in found.remarks.splitlines()
    ]


def test_questions_that_are_not_written_yet_are_counted_as_unsettled(ledger: MemoryLedger, tmp_path: Path) -> None:
    """Of 10 questions, "2 of 5" were told to be unsettled, right above "7 of 10"."""
    run = interrupted_run(ledger, make_questions(10), written=5)
    settle(ledger, run.run_id, *(f"q{n}" for n in range(3)), choice="A")

    done = export(ledger, run.run_id, tmp_path, ("lm-eval",))

    assert "lm-eval: 7 of 10 questions unsettled: no sample, not in any metric." in done.remarks
