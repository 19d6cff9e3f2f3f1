"""What a person wants asked: files, overrides, templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.errors import RunConfigError
from contract.mode import Mode, Normalization
from contract.prompts import render
from contract.question import Question
from contract.settings import Settings
from contract.spec import Prompt, RunSpec, Sampling
from producer.runs.parts import FewShotConfig, RagConfig
from producer.runs.runconfig import RunConfig, load_run_config
from producer.runs.templates import built_in, load_prompt
from tests.support import ROOT, build_test_index, make_question

SHIPPED = sorted((ROOT / "configs" / "runs").glob("*.yaml"))
QUESTION = Question(id="q", question="Is <b> & 1 > 0?", choices=("no", "<i>yes</i>"), context="Given.")


def spec_of(*overrides: str, path: Path | None = None) -> RunSpec:
    """What is asked by the configuration file in `path`, if any, with `overrides` of it."""
    return load_run_config(path, list(overrides)).to_spec("0" * 64, Settings(model="served"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_run_configuration_makes_a_spec(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)  # the files they name count from there
    index = build_test_index(tmp_path / "facts", ["A fact."])
    elsewhere = {"rag": [f"rag.index={index}"], "mmlu": ["few_shot.file=demo/examples.jsonl", "few_shot.split="]}

    spec = spec_of(*elsewhere.get(path.stem, []), path=path)

    assert spec.model == "served"
    assert (spec.rag.index if spec.rag else "") == ("facts" if path.stem == "rag" else "")
    named = {"chat": "letter", "mmlu": "letter", **{name: name for name in ("letter", "generate", "vote", "judge")}}
    assert spec.mode == named.get(path.stem, "likelihood")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_run_configuration_leaves_the_prompt_to_its_mode_so_that_another_can_be_set(path: Path) -> None:
    assert load_run_config(path, []).prompt == ""


def test_there_are_run_configurations() -> None:
    assert {path.stem for path in SHIPPED} >= {"letter", "likelihood", "likelihood-normalized"}


def test_set_lies_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("normalization: byte\nseed: 3\n")

    config = load_run_config(path, ["seed=4", "model=m"])

    assert config == RunConfig(model="m", normalization=Normalization.BYTE, seed=4)


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("rag.index=indexes/x", "rag: index alone has no effect: set rag.enabled to true, or to false"),
        ("few_shot.file=x.jsonl", "few_shot: file alone has no effect: set few_shot.k"),
        ("mod=letter", "unknown setting 'mod'. Did you mean 'mode'?"),
        ("rag={enabled: true, index: i, rerank_from: 9}", "rag: rerank_from has no effect without rag.reranker"),
        ("retrieval_top_k=3", "unknown setting 'retrieval_top_k'. In a run's configuration it is rag.retrieval_top_k"),
        (
            "mode=leter",
            "mode: Input should be 'letter', 'likelihood', 'generate', 'vote' or 'judge', found 'leter'. Did you mean"
            " 'letter'?",
        ),
        (
            "mode=[letter]",
            "mode: Input should be 'letter', 'likelihood', 'generate', 'vote' or 'judge', found ['letter'].",
        ),
        ("rag.kind=bm52", "rag.kind: Input should be 'bm25', 'dense' or 'hybrid', found 'bm52'. Did you mean 'bm25'?"),
        ("sampling.stop=xx", "sampling.stop: expected a list, for example ['xx'], found 'xx'."),
        ("rag.topk=3", "unknown setting 'rag.topk'. Did you mean 'rag.retrieval_top_k'?"),
        ("k=3", "unknown setting 'k'. Did you mean 'few_shot.k'"),
        ("few_shot.examples=3", "'few_shot.examples'. There are few_shot.k, few_shot.file, few_shot.split, "),
        ("temperature=1", "unknown setting 'temperature'. Did you mean 'sampling.temperature'?"),
        ("judge.server=judge.example", "judge.server: expected http://host or https://host, found 'judge.example'"),
        ("judge.model=x", "--set: configuration: judge has no effect in mode likelihood"),
        ("seed=-1", "seed"),
        ("seed", "expected name=value"),
        ("batch_size=8", "'batch_size' belongs to the deployment"),
        ("vllm_args.dtype=half", "'vllm_args' belongs to the deployment"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(override: str, wanted: str) -> None:
    with pytest.raises(RunConfigError) as caught:
        load_run_config(None, [override])

    assert wanted in str(caught.value)


def test_a_mistake_between_settings_is_blamed_on_no_single_layer(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("mode: letter")
    with pytest.raises(RunConfigError) as caught:
        load_run_config(file, ["judge.model=x"])
    assert str(caught.value).startswith(f"{file} and --set: configuration: judge has no effect in mode letter")


def test_a_key_inside_a_judges_url_is_refused_unseen_as_the_url_is_part_of_the_results() -> None:
    with pytest.raises(RunConfigError, match="judge_api_key") as caught:
        load_run_config(None, ["mode=judge", "judge.server=https://me:hush@judge.example/v1", "judge.model=j"])
    assert "hush" not in str(caught.value)


def test_white_space_around_the_words_of_an_answer_is_left_to_the_delimiter() -> None:
    assert load_run_config(None, ["answer_prefix=' The answer is '"]).answer_prefix == "The answer is"


@pytest.mark.parametrize("mode", ["generate", "vote", "judge", "free"])
def test_a_delimiter_that_no_prompt_shows_is_refused(mode: str) -> None:
    """It changed nothing but the id of the run."""
    asked = [f"mode={mode}", "delimiter=' = '", *(["sampling={samples: 3, temperature: 1}"] if mode == "vote" else [])]
    examples = "few_shot={k: 2, file: dev.jsonl}"
    refused = f"delimiter has no effect in mode {mode}: only few-shot examples without a rationale and answer_prefix"

    with pytest.raises(RunConfigError, match=refused):
        load_run_config(None, asked)
    if mode in {"generate", "vote"}:
        with pytest.raises(RunConfigError, match=refused):
            load_run_config(None, [*asked, examples, "few_shot.rationale=why"])
    assert load_run_config(None, [*asked, examples]).delimiter == " = "
    assert load_run_config(None, [*asked, "answer_prefix=So"]).delimiter == " = "
    assert load_run_config(None, ["mode=letter", "delimiter=' = '"]).delimiter == " = "


def test_a_vote_is_between_several_texts_that_can_differ_unless_something_else_is_set() -> None:
    plain = load_run_config(None, ["mode=vote"])
    assert (plain.sampling.samples, plain.sampling.temperature, plain.sampling.max_tokens) == (5, 0.7, 256)

    chosen = load_run_config(None, ["mode=vote", "sampling.samples=9", "sampling.temperature=1"])
    assert (chosen.sampling.samples, chosen.sampling.temperature) == (9, 1.0)

    assert load_run_config(None, ["mode=generate"]).sampling == Sampling(samples=1, temperature=0)


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("sampling.samples=1", "mode vote needs sampling.samples of at least 2"),
        ("sampling.temperature=0", "mode vote needs a sampling.temperature above 0"),
        ("sampling=3", "sampling: Input should be a valid dictionary"),
    ],
)
def test_a_vote_of_equal_texts_is_refused(override: str, wanted: str) -> None:
    with pytest.raises(RunConfigError, match=wanted):
        load_run_config(None, ["mode=vote", override])


def test_normalization_without_likelihood_is_refused() -> None:
    with pytest.raises(RunConfigError, match="normalization byte has no effect in mode"):
        load_run_config(None, ["mode=letter", "normalization=byte"])


def test_without_a_prompt_the_mode_decides() -> None:
    assert {mode.value: load_prompt("", mode).name for mode in Mode} == {
        "likelihood": "question",
        "letter": "lettered",
        "generate": "reasoned",
        "vote": "reasoned",
        "judge": "open",
        "free": "free",
    }


def test_the_built_in_prompts_read_as_they_should() -> None:
    texts = {name: render(load_prompt(name, Mode.LETTER), QUESTION, None) for name in ("question", "lettered")}

    assert set(built_in()) == {"question", "lettered", "reasoned", "open", "grade", "free"}
    assert texts == {
        "question": "Question: Is <b> & 1 > 0?\nAnswer:",
        "lettered": "Is <b> & 1 > 0?\nA. no\nB. <i>yes</i>\nAnswer:",
    }


def test_a_label_of_choices_that_the_prompt_does_not_show_is_not_asked_for() -> None:
    with pytest.raises(RunConfigError, match="prompt 'question' shows no choices, but mode letter asks for the label"):
        spec_of("mode=letter", "prompt=question")

    assert spec_of("mode=likelihood", "prompt=question")


def test_a_template_that_does_not_show_the_question_is_refused_unless_it_says_so(tmp_path: Path) -> None:
    """With braces as of an f-string it was scored as if it had been asked."""
    path = tmp_path / "typo.j2"
    path.write_text("{question}\nAnswer:")
    with pytest.raises(RunConfigError, match=r"prompt 'typo' does not show the question\. Add {{ question }}"):
        spec_of(f"prompt={path}")
    path.write_text("{% set hidden = question %}Answer:")
    assert spec_of(f"prompt={path}")


@pytest.mark.parametrize("shown", ["{{ choices }}", "{% for each in choices %}{{ each }} {% endfor %}"])
def test_choices_that_would_be_shown_as_python_prints_them_are_refused(tmp_path: Path, shown: str) -> None:
    path = tmp_path / "bare.j2"
    path.write_text("{{ question }} " + shown)
    with pytest.raises(RunConfigError, match=r"as Python prints them.* {% for choice in choices %}"):
        load_prompt(str(path), Mode.LETTER)


def test_a_judge_that_is_not_shown_the_answer_is_refused() -> None:
    with pytest.raises(RunConfigError, match=r"judge\.prompt 'question' does not show the answer .* {{ response }}"):
        spec_of("mode=judge", "judge.prompt=question")


def test_a_template_may_show_choices_by_their_number(tmp_path: Path) -> None:
    """It was tried with two choices only, and refused for sets that have four."""
    path = tmp_path / "four.j2"
    path.write_text("{{ question }} {{ choices[3].text }} or {{ choices[0].text }}?")
    assert spec_of(f"prompt={path}")


def test_rotations_of_choices_that_the_prompt_does_not_show_are_refused() -> None:
    with pytest.raises(RunConfigError, match="prompt 'question' shows no choices, so circular would ask the same"):
        spec_of("mode=likelihood", "circular=true")

    assert spec_of("mode=likelihood", "circular=true", "prompt=lettered").circular


@pytest.mark.parametrize("where", ["rag.enabled=true", "rag.use_context_field=true"])
def test_what_is_retrieved_or_given_for_a_prompt_that_shows_none_of_it_is_refused(where: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.j2"
    path.write_text("{{ question }} =")
    index = build_test_index(tmp_path / "facts", ["A fact."])
    overrides = [f"prompt={path}", where, *([f"rag.index={index}"] if "enabled" in where else [])]

    with pytest.raises(RunConfigError, match="prompt 'mine' shows no context"):
        spec_of(*overrides)


def test_a_template_of_ones_own_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.j2"
    path.write_text("{{ question }} =\n\n")

    assert load_prompt(str(path), Mode.LIKELIHOOD) == Prompt(name="mine", text="{{ question }} =")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{% if question %}\n{{ question ", "mine.j2:2: not a Jinja template"),
        ("Q\n{{ questoin }}", "mine.j2:2: unknown variable 'questoin'. Did you mean 'question'?"),
        ("Q\n{{ question|uper }}", "mine.j2:2: not a Jinja template: No filter named 'uper'."),
        ("{{ choices[0].txt }}", "no attribute 'txt'"),
        ("{{ question.__class__ }}", "cannot be rendered"),
        ("{{ 1 / 0 }}", "cannot be rendered"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "maximum recursion depth exceeded"),
        ("{{ 'x' * 10**18 }}", "for question 'a trial': MemoryError."),
        ("  \n", "the template is empty"),
    ],
)
def test_a_template_that_cannot_work_is_refused_with_file_and_line(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "mine.j2"
    path.write_text(text)

    with pytest.raises(RunConfigError) as caught:
        load_prompt(str(path), Mode.LIKELIHOOD)

    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("questoin", "Did you mean 'question'? Built-in prompts:"), ("no.j2", "no such prompt template")],
)
def test_an_unknown_template_is_refused(name: str, wanted: str) -> None:
    with pytest.raises(RunConfigError) as caught:
        load_prompt(name, Mode.LIKELIHOOD)

    assert wanted in str(caught.value)


def test_a_template_may_treat_a_context_as_text_where_there_is_none(tmp_path: Path) -> None:
    numbered = "{% for p in context.split('\n') if p %}[{{ loop.index }}] {{ p }}\n{% endfor %}{{ context[:1] }}Q:"
    (tmp_path / "mine.j2").write_text(f"{numbered} {{{{ question }}}}")
    prompt = load_prompt(str(tmp_path / "mine.j2"), Mode.LIKELIHOOD)
    question = make_question(1, question="Which?")
    assert render(prompt, question, None) == "Q: Which?"
    assert render(prompt, question, "x\ny") == "[1] x\n[2] y\nxQ: Which?"


def test_a_template_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.j2"
    path.write_bytes(b"\xff{{ question }}")

    with pytest.raises(RunConfigError, match="byte 0 is not UTF-8"):
        load_prompt(str(path), Mode.LIKELIHOOD)


@pytest.mark.parametrize(
    ("description", "wanted"),
    [
        ("About {{ subject", "description:1: not a Jinja template"),
        ("About {{ subjcet }}.", "description:1: unknown variable 'subjcet'. Did you mean 'subject'?"),
        ("About {{ question }}.", "description:1: unknown variable 'question'"),
        ("About {{ subject|uper }}.", "description:1: not a Jinja template: No filter named 'uper'."),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_a_description_that_cannot_be_shown_is_refused(description: str, wanted: str) -> None:
    with pytest.raises(RunConfigError) as caught:
        RunConfig(description=description).to_spec("0" * 64, Settings(model="m"))

    assert wanted in str(caught.value)


def test_examples_come_from_the_split_that_is_named(tmp_path: Path) -> None:
    for split in ("dev", "test"):
        line = {"question": f"Which of {split}?", "choices": ["x", "y"], "answer": "B"}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(line))

    few_shot = spec_of("few_shot.k=1", f"few_shot.file={tmp_path}", "few_shot.split=dev").few_shot

    assert few_shot is not None
    assert [each.question for each in few_shot.pool] == ["Which of dev?"]


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        (["mode=generate", "few_shot.rationale=why"], "example q2 has no text in 'why', but level"),
        (
            ["mode=letter", "few_shot.rationale=cot"],
            "reasoning before a letter, which mode letter",
        ),
    ],
)
def test_reasoning_that_is_not_there_or_not_asked_for_is_refused(
    tmp_path: Path, overrides: list[str], wanted: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "q1", "question": "1?", "choices": ["x", "y"], "answer": "B", "why": "Because.", "level": 1},
        {"id": "q2", "question": "2?", "choices": ["x", "y"], "answer": "B", "level": 2},
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))

    with pytest.raises(RunConfigError) as caught:
        spec_of("few_shot.k=1", f"few_shot.file={tmp_path / 'dev.jsonl'}", *overrides)

    assert wanted in str(caught.value)


@pytest.mark.parametrize(("named", "wanted"), [(True, "example e2 has no answer"), (False, "an example has no answer")])
def test_an_example_without_a_key_is_refused_with_its_place(tmp_path: Path, named: bool, wanted: str) -> None:
    rows: list[dict[str, Any]] = [{"question": f"{n}?", "choices": ["x", "y"], "answer": "B"} for n in range(3)]
    rows[2]["answer"] = None
    for n, row in enumerate(rows if named else ()):
        row["id"] = f"e{n}"
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))

    with pytest.raises(RunConfigError) as caught:
        FewShotConfig(k=1, file=str(tmp_path / "dev.jsonl")).load()

    assert f"dev.jsonl:3: {wanted}. Add its key" in str(caught.value)


def test_what_is_wrong_with_the_file_of_the_examples_is_not_said_as_if_it_were_that_of_the_questions(
    tmp_path: Path,
) -> None:
    """It was told to choose the examples' split with `--split`, which is for the questions."""
    for split in ("dev", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "law.jsonl").write_text('{"question": "1?", "answer": "B"}\n' * 2)
    both, one = FewShotConfig(k=1, file=str(tmp_path)), FewShotConfig(k=1, file=str(tmp_path), split="dev")

    with pytest.raises(RunConfigError) as several:
        both.load()
    with pytest.raises(RunConfigError, match=r"^few_shot\.file: .*law\.jsonl:1: field 'choices': missing"):
        one.load()

    said = "Choose one with few_shot.split=NAME, or all with few_shot.split='*'."
    assert str(several.value).startswith(f"few_shot.file: {tmp_path}: contains several splits")
    assert str(several.value).endswith(said)


@pytest.mark.parametrize("threshold", [".nan", "-.inf"])
def test_a_threshold_that_is_no_number_is_refused(threshold: str) -> None:
    """JSON has none of them: the run would come back from the ledger with another fingerprint."""
    with pytest.raises(RunConfigError, match=r"rag\.retrieval_score_threshold"):
        load_run_config(None, ["rag.enabled=true", f"rag.retrieval_score_threshold={threshold}"])


@pytest.mark.parametrize(
    ("kind", "threshold", "highest"),
    [("hybrid", 0.5, "0.0328"), ("dense", 1.5, "1"), ("bm25", 20, ""), ("dense", 0.5, "")],
)
def test_a_threshold_that_no_passage_can_reach_is_refused_unless_a_reranker_scores(
    tmp_path: Path, kind: str, threshold: float, highest: str
) -> None:
    words, vectors = kind != "dense", kind != "bm25"
    plan = {
        "name": "x",
        "kind": kind,
        "corpus_digest": "0" * 64,
        "chunking": {},
        "counts": {"documents": 1, "passages": 1},
    }
    plan |= ({"bm25": {}} if words else {}) | ({"dense": {}, "encoder_id": "e"} if vectors else {})
    encoder = {"id": "e", "dimensions": 8} if vectors else None
    manifest = {
        "format_version": 1,
        "plan": plan,
        "encoder": encoder,
        "files": {},
        "created_at": "2026-01-01T00:00:00Z",
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    asked = RagConfig(enabled=True, index=str(tmp_path), retrieval_score_threshold=threshold)
    if highest:
        with pytest.raises(RunConfigError, match=f"drops every passage: {kind} scores are at most {highest}"):
            asked.load()
    else:
        assert asked.load()
    assert asked.model_copy(update={"reranker": "some/reranker"}).load()
