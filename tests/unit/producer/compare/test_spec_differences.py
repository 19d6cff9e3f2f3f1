"""In which settings and engines two runs differ, and how that is told."""

from __future__ import annotations

import pytest

from contract.engine_info import EngineUsed
from contract.ledger import MemoryLedger
from contract.mode import Mode, Normalization
from contract.spec import ChatTemplate, Prompt, Sampling
from producer.compare.spec_differences import differences
from tests.unit.producer.compare.conftest import RAG, SPEC, Ran, keyed
from tests.unit.producer.conftest import Producer


def test_a_setting_is_told_by_the_word_that_sets_it(ran: Ran, compare: Producer) -> None:
    ran("one", "cc", keyed(2))
    ran("two", "cc", keyed(2), mode=Mode.LIKELIHOOD)

    assert 'differ in   mode: "letter" → "likelihood"\n' in compare("one", "two").stdout


def test_the_same_asked_twice_of_unlike_engines_is_told_to_differ_in_them(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, dtype in (("one", "float32"), ("other", "bfloat16")):
        run = ran(run_id, "ccwwwwa")
        told = "engines     of A and B not identical"
        assert told not in compare("one", "last").stdout
        ledger.note_engine(run.run_id, EngineUsed(worker=f"gpu0@{run_id}", since=0.0, engine={"dtype": dtype}))

    assert f'{told}: they differ in dtype ("float32", "bfloat16")' in compare("one", "other").stdout
    found = compare.json("one", "other")
    differing = {"within_a": {}, "within_b": {}, "across": {"dtype": ["float32", "bfloat16"]}}
    assert found["engine_differences"] == differing


def test_engines_of_two_models_are_told_to_differ_in_what_the_models_do_not_explain(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, model, weights in (("one", "small", "aa"), ("other", "large", "bb")):
        run = ran(run_id, "ccwwwwa", model=model)
        engine = {"weights": weights, "adapters": {weights: "cc"}, "dtype": "float32"}
        ledger.note_engine(run.run_id, EngineUsed(worker="gpu0", since=0.0, engine=engine))
    assert "engines" not in compare("one", "other").stdout

    ledger.note_engine("other", EngineUsed(worker="gpu1", since=0.0, engine=engine | {"dtype": "bfloat16"}))
    told = compare("one", "other").stdout
    assert 'engines     of B not identical: they differ in dtype ("float32", "bfloat16")\n' in told
    assert told.count("not identical") == 1, "A differs from B in nothing besides"

    ledger.note_engine("one", EngineUsed(worker="gpu1", since=0.0, engine={"weights": "aa", "vllm": "1"}))
    told = compare("one", "other").stdout
    assert 'of A not identical: they differ in vllm (null, "1"), dtype ("float32", null)' in told
    assert 'of A and B not identical: they differ in dtype ("float32", null, "bfloat16")' in told


def test_a_model_that_samples_at_its_own_temperature_is_told_to_differ_in_that_from_one_that_does_not(
    ledger: MemoryLedger, ran: Ran, compare: Producer
) -> None:
    for run_id, left in (("one", {}), ("other", {"left_to_model": ["temperature"]})):
        run = ran(run_id, "ccwwwwa", model=run_id)
        ledger.note_engine(run.run_id, EngineUsed(worker="w", since=0.0, engine={"engine": "openai", **left}))

    told = compare("one", "other").stdout
    assert 'of A and B not identical: they differ in left_to_model (null, ["temperature"])' in told


def test_specs_differ_by_their_nested_fields() -> None:
    other = SPEC.model_copy(
        update={
            "mode": Mode.LIKELIHOOD,
            "normalization": Normalization.BYTE,
            "prompt": Prompt(name="plain", text="Q: {{ question }}"),
        }
    )

    assert differences(SPEC, other) == {
        "mode": ("letter", "likelihood"),
        "normalization": ("none", "byte"),
        "prompt.text": ("{{ question }}", "Q: {{ question }}"),
        "prompt.version": (SPEC.prompt.version, other.prompt.version),
    }
    assert differences(SPEC, SPEC) == {}


def test_of_a_part_that_one_run_lacks_what_is_not_set_in_the_other_is_no_difference() -> None:
    retrieving = SPEC.model_copy(update={"rag": RAG})
    found = differences(SPEC, retrieving)
    assert found["rag.index"] == (None, RAG.index)
    assert not found.keys() & {"rag", "rag.reranker", "rag.rerank_from", "rag.question_hashes"}
    reranking = SPEC.model_copy(update={"rag": RAG.model_copy(update={"reranker": "small"})})
    assert differences(retrieving, reranking) == {"rag.reranker": ("", "small"), "rag.rerank_from": (None, 50)}
    writing = SPEC.model_copy(update={"sampling": Sampling()})
    assert differences(SPEC, writing)["sampling.temperature"] == (None, 0.0)


@pytest.mark.parametrize("value", [False, "", []])
def test_a_variable_of_the_chat_template_that_is_set_to_false_is_a_difference(value: object) -> None:
    """It was none, so that `compare` called two runs the same of which one reasons, and `--reuse` named no setting."""
    chatting = SPEC.model_copy(update={"chat_template": ChatTemplate.ALWAYS})
    set_so = chatting.model_copy(update={"chat_template_kwargs": {"enable_thinking": value}})
    assert differences(chatting, set_so) == {"chat_template_kwargs.enable_thinking": (None, value)}


def test_a_long_value_is_shown_by_its_beginning(ran: Ran, compare: Producer) -> None:
    ran("one", "ccccccc")
    ran("two", "ccccccc", prompt=Prompt(name="plain", text="long " * 50))

    text = compare("one", "two").stdout

    assert "prompt.version: " in text
    assert "long long…" in text
    assert "long " * 50 in compare.json("one", "two")["spec_differences"]["prompt.text"]["b"]


def test_long_values_are_shown_where_they_begin_to_differ(ran: Ran, compare: Producer) -> None:
    for name, end in ("one", "Answer:"), ("two", "The answer is"):
        ran(name, "ccccccc", prompt=Prompt(name="plain", text=f"{'long ' * 50}{end}"))

    text = " ".join(compare("one", "two").stdout.split())

    assert 'prompt.text: …long long long long Answer:" → …long long long long The answer is"' in text
