"""The model that a GPU is timed by, at toy size in the vLLM of this machine: booted without weights, and asked."""

from __future__ import annotations

from pathlib import Path

from benchmarks.random_model import RANDOM_WEIGHTS, Shape, write_model
from tests.acceptance.conftest import found_by
from workers.engines.packaged import prepare

TOY = Shape("toy", layers=2, hidden_size=64, intermediate_size=128, heads=2, kv_heads=1, head_size=32)
ASK = """
import json, logging, sys
from contract import load_settings
from contract.spec import Sampling
from contract.turns import one_turn
from workers.engines import make_engine
from workers.engines.base import GenerateRequest, ScoreRequest
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
said = []
logging.getLogger("workers.engines.boot_log").addFilter(lambda record: said.append(record.getMessage()) or True)
engine = make_engine(load_settings(None, json.load(sys.stdin)))
engine.start()
texts = [GenerateRequest(one_turn(f"What is {number}?"), Sampling(max_tokens=24)) for number in range(5)]
choices = ScoreRequest(one_turn("The answer is"), (" A", " B", " no", " yes, it is"))
*written, scored = engine.generate([*texts, choices])
described = engine.describe()
engine.close()
print("FOUND", json.dumps([said, described, [each.texts[0].tokens for each in written], scored.logprobs]))
"""


def test_a_shape_without_weights_boots_and_writes_texts_of_full_length_and_weighs_choices(tmp_path: Path) -> None:
    folder = write_model(tmp_path, TOY, prepare("smollm2-135m-instruct"))
    sizes = "max_model_len: 256, max_num_seqs: 8, enforce_eager: true, kv_cache_memory_bytes: 67108864"
    arguments = ", ".join(f"{name}: {value}" for name, value in RANDOM_WEIGHTS.items())
    ((said, described, tokens, scores),) = found_by(
        ASK, [f"hf_model_id={folder}", f"vllm_args={{{sizes}, {arguments}}}"]
    )
    assert tokens == [24] * 5
    assert all(score < 0 for score in scores)
    assert (described["dtype"], described["kv_cache_dtype"], described["weights"]) == ("bfloat16", "bfloat16", "")
    assert said[0] == f"booting vLLM with {folder} on the CPU"
    assert said[1].startswith("vLLM is up after ")
