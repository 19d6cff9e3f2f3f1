"""A run's identity: what changes it, and what does not."""

from __future__ import annotations

import json
import math
import re
from enum import StrEnum
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from contract import Mode, Normalization, Prompt, Run, RunSpec
from contract.spec import ChatTemplate, ExampleSelection, FewShot, IndexKind, Judge, Retrieval, Sampling
from tests.support import make_question, make_questions, make_spec

CHANGES: list[tuple[str, Any]] = [
    ("questions_digest", "0" * 64),
    ("model", "another-model"),
    ("adapter", "law"),
    ("answer_prefix", "The answer is"),
    ("mode", Mode.LETTER),
    ("normalization", Normalization.CHARACTER),
    ("normalization", Normalization.BYTE),
    ("normalization", Normalization.TOKEN),
    ("normalization", Normalization.MUTUAL_INFO),
    ("prompt", Prompt(name="question", text="Q: {{ question }}\nA:")),
    ("prompt", Prompt(name="renamed", text=make_spec().prompt.text)),
    ("delimiter", ""),
    ("use_context_field", True),
    ("rag", Retrieval(index="facts", index_digest="0" * 64, kind=IndexKind.BM25)),
    ("seed", 1),
    ("vllm_version", "0.32.0"),
    ("chat_template", ChatTemplate.AUTO),
    ("chat_template", ChatTemplate.ALWAYS),
    ("chat_template", ChatTemplate.TURNS),
    ("few_shot", FewShot(k=1, pool=tuple(make_questions(2)))),
    ("few_shot", FewShot(k=1, pool=tuple(make_questions(2)), selection=ExampleSelection.SEEDED)),
    ("few_shot", FewShot(k=1, pool=tuple(make_questions(2)), selection=ExampleSelection.SUBJECT)),
    ("description", "About {{ subject }}."),
    ("shuffle", True),
    ("circular", True),
    ("rescored_from", "another-run"),
    ("rules_version", "01234567"),
]
#: Fields that there were not always, as `model_dump` excludes them.
LATER = dict.fromkeys(
    ("adapter", "answer_prefix", "chat_template_kwargs", "description", "rules_version", "unconditional_prompt"), True
)
REASONED = tuple(make_question(number, metadata={"cot": "Add."}) for number in range(2))
#: Fields that only some modes take: what is changed, over what.
WRITES = {"mode": Mode.GENERATE, "sampling": Sampling()}
JUDGED: dict[str, Any] = {
    "mode": Mode.JUDGE,
    "sampling": Sampling(),
    "judge": Judge(prompt=Prompt(name="grade", text="{{ response }}")),
}
ELSEWHERE: dict[str, Any] = {"prompt": JUDGED["judge"].prompt, "server": "http://judge", "model": "wise"}
MORE_CHANGES: list[dict[str, Any]] = [
    {"chat_template": ChatTemplate.AUTO, "chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template": ChatTemplate.AUTO, "chat_template_kwargs": {"enable_thinking": True}},
    {"normalization": Normalization.MUTUAL_INFO, "unconditional_prompt": "Answer:"},
    WRITES,
    {**WRITES, "sampling": Sampling(max_tokens=7)},
    {**WRITES, "few_shot": FewShot(k=1, pool=REASONED)},
    {**WRITES, "few_shot": FewShot(k=1, pool=REASONED, rationale="cot")},
    {**WRITES, "sampling": Sampling(temperature=0.5)},
    {**WRITES, "sampling": Sampling(stop=("x",))},
    {**WRITES, "sampling": Sampling(reasoning_effort="low")},
    {**WRITES, "sampling": Sampling(top_k=20)},
    {**WRITES, "sampling": Sampling(min_p=0.1)},
    {**WRITES, "sampling": Sampling(presence_penalty=1.5)},
    {**WRITES, "sampling": Sampling(repetition_penalty=1.1)},
    {**WRITES, "sampling": Sampling(thinking_token_budget=0)},
    JUDGED,
    {**JUDGED, "judge": Judge(prompt=Prompt(name="grade", text="other"))},
    {**JUDGED, "judge": Judge(**ELSEWHERE)},
    {**JUDGED, "judge": Judge(**ELSEWHERE, reasoning_effort="low")},
]


def test_a_fingerprint_changes_with_every_field() -> None:
    changes: list[dict[str, Any]] = [{field: value} for field, value in CHANGES] + MORE_CHANGES
    fingerprints = [make_spec().fingerprint(), *(make_spec((), **change).fingerprint() for change in changes)]
    assert len(set(fingerprints)) == len(changes) + 1
    changed = {field for change in changes for field in change}
    assert changed == set(RunSpec.model_fields), "a new field needs a row in CHANGES"


def nested(times: int) -> JsonValue:
    found: JsonValue = 1
    for n in range(times):
        found = [found] if n % 2 else {"b": found}
    return found


def test_a_chat_template_s_variable_that_is_nested_as_deep_as_may_be_is_read_as_it_was_written() -> None:
    spec = make_spec((), chat_template="auto", chat_template_kwargs={"a": nested(100)})
    run = Run(run_id="r", spec=spec, source="made up", questions=1, chance=None, created_at=0.0)
    assert Run.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mode": Mode.GENERATE}, "generate needs sampling"),
        ({"sampling": Sampling()}, "likelihood takes no sampling"),
        ({**WRITES, "mode": Mode.JUDGE}, "judge needs judge"),
        ({**JUDGED, "mode": Mode.GENERATE}, "generate takes no judge"),
        ({"shuffle": True, "circular": True}, "mutually exclusive"),
        ({"mode": Mode.VOTE, "sampling": Sampling(temperature=0.5)}, "sampling.samples of at least 2"),
        ({"mode": Mode.VOTE, "sampling": Sampling(samples=3)}, "temperature above 0"),
        ({**WRITES, "sampling": Sampling(samples=3)}, "has no effect in mode"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "has no effect with chat_template never"),
        ({"chat_template": "auto", "chat_template_kwargs": {"messages": []}}, "messages cannot be chosen"),
        ({"chat_template": "auto", "chat_template_kwargs": {"a": [math.nan]}}, "a is or contains NaN or an infinity"),
        ({"chat_template": "auto", "chat_template_kwargs": {"a": nested(101)}}, "a has more than 100 brackets within"),
    ],
)
def test_parts_that_do_not_fit_the_mode_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        make_spec((), **changes)


def test_a_mode_without_its_traits_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'output' and 'answer'"):

        class _Modes(StrEnum):
            __new__ = vars(Mode)["__new_member__"]  # what defines a member
            CLOZE = "cloze"


@pytest.mark.parametrize("pool", [1, 0])
def test_a_pool_with_too_few_examples_is_refused(pool: int) -> None:
    with pytest.raises(ValidationError, match=f"a pool of {pool} is too small for 2 examples"):
        FewShot(k=2, pool=tuple(make_questions(pool)))


@given(st.text(), st.text(min_size=1), st.text(), st.integers(0, 2**63))
def test_a_fingerprint_is_the_same_for_the_same_thing_and_survives_the_ledger(
    name: str, template: str, delimiter: str, seed: int
) -> None:
    def made() -> RunSpec:
        return make_spec(prompt=Prompt(name=name, text=template), delimiter=delimiter, seed=seed)

    assert re.fullmatch("[0-9a-f]{64}", made().fingerprint())
    assert made().fingerprint() == made().fingerprint()
    assert RunSpec.model_validate_json(made().model_dump_json()).fingerprint() == made().fingerprint()


def of_before(spec: RunSpec, **later: set[str]) -> str:
    """The fingerprint by a version without the fields in LATER, and without `later` inside the fields so named."""
    exclude: dict[str, Any] = {**LATER, **later}
    fields = spec.model_dump(mode="json", exclude=exclude)
    return sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_a_run_without_what_came_later_is_called_as_before_there_was_any() -> None:
    without = make_spec((), **{**dict.fromkeys(LATER, ""), "chat_template_kwargs": {}})
    assert without.fingerprint() == of_before(make_spec())


def test_a_run_with_examples_is_called_as_before_they_could_reason() -> None:
    spec = make_spec(few_shot=FewShot(k=1, pool=tuple(make_questions(2))))
    assert spec.fingerprint() == of_before(spec, few_shot={"rationale"})


#: Fields of `sampling` that there were not always.
SAMPLING_LATER = {
    "top_k",
    "min_p",
    "presence_penalty",
    "repetition_penalty",
    "reasoning_effort",
    "thinking_token_budget",
}


def test_a_run_that_writes_is_called_as_before_it_could_say_all_that_it_can_of_sampling() -> None:
    spec = make_spec((), **{**WRITES, "sampling": Sampling(temperature=0.5, top_k=0)})
    assert spec.fingerprint() == of_before(spec, sampling=SAMPLING_LATER)


def test_a_judged_run_is_called_as_before_its_judge_could_be_told_how_much_to_reason() -> None:
    spec = make_spec((), **{**JUDGED, "judge": Judge(**ELSEWHERE)})
    assert spec.fingerprint() == of_before(spec, sampling=SAMPLING_LATER, judge={"reasoning_effort"})


@pytest.mark.parametrize("told", [True, False])
def test_a_run_with_retrieval_is_called_as_before_indexes_told_of_hashes(told: bool) -> None:
    spec = make_spec(rag=Retrieval(index="x", index_digest="0" * 64, kind=IndexKind.BM25, question_hashes=told))
    assert spec.fingerprint() == of_before(spec, rag={"question_hashes"})


def test_a_judge_that_is_the_model_itself_has_no_effort_of_its_own() -> None:
    with pytest.raises(ValidationError, match=r"judge\.reasoning_effort has no effect without judge\.server"):
        Judge(prompt=ELSEWHERE["prompt"], reasoning_effort="low")


def test_a_default_that_is_written_out_has_the_same_fingerprint() -> None:
    written = make_spec(normalization="none", delimiter=" ", use_context_field=False, seed=0)
    assert written.fingerprint() == make_spec().fingerprint()


@pytest.mark.parametrize("normalization", [each for each in Normalization if each is not Normalization.NONE])
def test_only_likelihood_can_be_normalized(normalization: Normalization) -> None:
    assert make_spec(mode=Mode.LIKELIHOOD, normalization=normalization).normalization is normalization
    with pytest.raises(ValidationError, match=f"normalization {normalization} has no effect in mode"):
        make_spec(mode=Mode.LETTER, normalization=normalization)


def test_a_prompt_without_the_question_is_refused_where_nothing_is_scored_after_it() -> None:
    with pytest.raises(ValidationError, match="unconditional_prompt has no effect with normalization byte, only with"):
        make_spec(normalization=Normalization.BYTE, unconditional_prompt="Answer:")


@pytest.mark.parametrize(
    "changes",
    [
        {"questions_digest": "abc"},
        {"questions_digest": "G" * 64},
        {"model": ""},
        {"mode": "guess"},
        {"normalization": "word"},
        {"seed": -1},
        {"prompt": {"name": "empty", "text": ""}},
        {"batch_size": 8},
    ],
    ids=str,
)
def test_a_spec_that_means_nothing_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_spec(**changes)


def test_a_changed_template_is_another_version_and_a_renamed_one_is_not() -> None:
    version = Prompt(name="a", text="Question: {{ question }}").version
    assert version == "b8a32c3d"
    assert Prompt(name="b", text="Question: {{ question }}").version == version
    assert Prompt(name="a", text="Question: {{ question }} ").version != version


def test_an_empty_text_to_stop_at_is_refused_before_any_worker_is_asked() -> None:
    with pytest.raises(ValidationError, match="at least 1 character"):
        Sampling(stop=("###", ""))


def test_a_spec_without_examples_has_none_of_them_left_and_says_how_they_were_chosen() -> None:
    few_shot = FewShot(k=1, pool=REASONED, selection=ExampleSelection.SUBJECT, rationale="cot")
    assert few_shot.places, "which it remembers"
    assert few_shot.by_subject

    bare = make_spec(mode=Mode.GENERATE, sampling=Sampling(), few_shot=few_shot).without_examples().few_shot

    assert bare is not None
    assert vars(bare) == {**few_shot.model_dump(), "pool": ()}
    assert make_spec().without_examples().few_shot is None
