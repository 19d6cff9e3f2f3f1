"""LoRA adapters in vLLM on this machine: one of zeros changes nothing, another one changes every score."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import found_by
from tests.adapters import make_adapter
from workers.engines.packaged import prepare

#: The same two questions of the engine without an adapter and with each, all in one call; then one that it lacks.
ASK = """
import json, sys
from contract import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import GenerateRequest, ScoreRequest
engine = make_engine(load_settings(None, json.load(sys.stdin)))
engine.start()
names = ["", "zeros", "random"]
asked = [
    request
    for name in names
    for request in (
        ScoreRequest(one_turn("The capital of France is"), (" Paris", " the city of light", " A"), adapter=name),
        GenerateRequest(one_turn("The capital of France is"), Sampling(max_tokens=12), adapter=name),
    )
]
found = engine.generate(asked)
(lacking,) = engine.generate([ScoreRequest(one_turn("x"), (" y",), adapter="law")])
engine.close()
scores = {name: found[2 * i].logprobs for i, name in enumerate(names)}
texts = {name: found[2 * i + 1].texts[0].text for i, name in enumerate(names)}
print("FOUND", json.dumps([scores, texts, str(lacking.error)]))
"""


def test_an_adapter_of_zeros_changes_nothing_and_another_one_everything(tmp_path: Path) -> None:
    model = prepare("smollm2-135m-instruct")
    settings = ["vllm_args={dtype: float32, max_model_len: 256, enforce_eager: true, kv_cache_memory_bytes: 268435456}"]
    for name, strength in (("zeros", 0.0), ("random", 0.02)):
        settings.append(f"adapters.{name}={make_adapter(tmp_path / name, model, strength=strength)}")
    ((scores, texts, lacking),) = found_by(ASK, settings)
    assert scores["zeros"] == pytest.approx(scores[""], abs=1e-4)
    assert texts["zeros"] == texts[""]
    assert all(abs(a - b) > 0.01 for a, b in zip(scores["random"], scores[""], strict=True))
    assert "no adapter 'law'" in lacking
