"""On an NVIDIA GPU (`--gpu`): the engine is there, says what it said on a CPU, and says it in every batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.cpu_truth import IEEE, cpu_scores, differing
from contract import Mode, Question
from contract.settings import load_settings
from contract.spec import Judge, Sampling
from producer.intake.survey import survey
from producer.readers import Source
from producer.runs.templates import load_prompt
from tests.support import ROOT, make_spec
from workers.engines.packaged import prepare
from workers.engines.vllm import VllmEngine
from workers.pipeline import score_batch
from workers.scoring import Item

# vLLM boots in this process: a warning of its build for GPUs is no failure of ours, and as an error would end the boot.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def engine() -> Iterator[VllmEngine]:
    small = ["gpu_memory_utilization=0.3", "max_model_len=2048", "enforce_eager=true"]  # boots without compiling
    with pytest.MonkeyPatch.context() as patch:
        float32 = ["vllm_args.dtype=float32", *(f"vllm_args.{each}" for each in small)]
        found = VllmEngine(load_settings(None, [f"hf_model_id={MODEL}", *float32]))
        for name, value in IEEE.items():
            patch.setenv(name, value)
        found.start()
    yield found
    found.close()


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    path = ROOT / "demo" / "questions.jsonl"
    return list(survey(Source(path, path.name)).questions())


def items_of(questions: list[Question], mode: Mode, **changes: object) -> list[Item]:
    spec = make_spec(questions, mode=mode, prompt=load_prompt("", mode), **changes)
    return [Item(question, spec) for question in questions]


def test_the_engine_computes_on_the_gpu(engine: VllmEngine) -> None:
    found = engine.describe()
    assert (found["device"], found["kv_cache_dtype"]) == ("cuda", "float32")
    assert found["gpu"]


@pytest.mark.parametrize("mode", [Mode.LETTER, Mode.LIKELIHOOD])
def test_choices_are_those_of_a_cpu_but_for_near_ties(
    engine: VllmEngine, questions: list[Question], mode: Mode
) -> None:
    items = items_of(questions[:40], mode)
    truth = list(cpu_scores(str(prepare(MODEL)), items))
    verdicts = score_batch(items, engine)
    assert differing([each.choice for each in verdicts], truth) == 0
    for verdict, scores in zip(verdicts, truth, strict=True):
        assert list(verdict.choice_scores.values()) == pytest.approx(scores, abs=0.01), verdict.question_id


def test_a_question_has_the_same_choice_alone_and_in_a_batch(engine: VllmEngine, questions: list[Question]) -> None:
    items = items_of(questions[:20], Mode.LIKELIHOOD)
    together = score_batch(items, engine)
    alone = [verdict for item in items for verdict in score_batch([item], engine)]
    clear = [
        (each.choice, other.choice) for each, other in zip(together, alone, strict=True) if (each.margin or 0) > 0.01
    ]
    assert [one for one, _ in clear] == [other for _, other in clear]


@pytest.mark.parametrize("mode", [Mode.GENERATE, Mode.VOTE, Mode.JUDGE])
def test_modes_that_write_score_every_question(engine: VllmEngine, questions: list[Question], mode: Mode) -> None:
    votes = Sampling(max_tokens=48, samples=3, temperature=0.8)
    changes: dict[str, object] = {"sampling": votes if mode is Mode.VOTE else Sampling(max_tokens=48)}
    if mode is Mode.JUDGE:
        changes["judge"] = Judge(prompt=load_prompt("grade", mode, grades=True), max_tokens=64)
    verdicts = score_batch(items_of(questions[:20], mode, **changes), engine)
    failed = {each.error.type for each in verdicts if each.error}
    # A small model writes few grades that can be read, and that is told; nothing else may fail.
    assert failed <= ({"JudgeSilent"} if mode is Mode.JUDGE else set())
