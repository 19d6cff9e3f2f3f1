"""A realistically large model without a download: the shape of a Qwen2.5, random weights, a packaged model's tokenizer.

vLLM generates the weights when it boots (`load_format: dummy`). The speed of a model depends on its shape: prompts take
as long as with the real model, apart from the smaller vocabulary. Its output is random, and as long as permitted unless
an end token occurs by chance, so all texts of a batch end together, and the cost of texts of different length does not
show.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RANDOM_WEIGHTS", "SHAPES", "Shape", "largest_fitting", "write_model"]

#: vLLM's arguments for a folder written by `write_model`.
RANDOM_WEIGHTS = {"load_format": "dummy", "dtype": "bfloat16"}
#: The files in a model's folder that its tokenizer reads.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
#: Taken from the tokenizer's own model: vocabulary size, and the tokens that begin and end a text.
OF_TOKENIZER = ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")
#: Share of an engine's memory that weights may take; the rest is for keys, values and activations.
WEIGHTS_SHARE = 0.5
BYTES_PER_WEIGHT = 2
HEAD_SIZE = 128


@dataclass(frozen=True, slots=True)
class Shape:
    """Number and size of a model's layers."""

    name: str
    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_size: int = HEAD_SIZE

    def weights_bytes(self, vocabulary: int) -> int:
        """Return the size of all layers, embeddings and output for `vocabulary` tokens, without norms and biases."""
        attention = 2 * self.hidden_size * (self.heads + self.kv_heads) * self.head_size
        network = 3 * self.hidden_size * self.intermediate_size
        ends = 2 * vocabulary * self.hidden_size
        return BYTES_PER_WEIGHT * (self.layers * (attention + network) + ends)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration that transformers and vLLM read, without the tokenizer's part."""
        return {
            "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"],
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": 32_768,
            "rope_theta": 1_000_000.0,
            "rms_norm_eps": 1e-6,
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            "dtype": "bfloat16",
        }


#: As in their configurations on the hub, in descending size.
SHAPES = (
    Shape("qwen2.5-7b", layers=28, hidden_size=3584, intermediate_size=18_944, heads=28, kv_heads=4),
    Shape("qwen2.5-1.5b", layers=28, hidden_size=1536, intermediate_size=8960, heads=12, kv_heads=2),
    Shape("qwen2.5-0.5b", layers=24, hidden_size=896, intermediate_size=4864, heads=14, kv_heads=2, head_size=64),
)


def largest_fitting(memory_bytes: float, tokenizer: Path) -> Shape:
    """Return the first of SHAPES whose weights leave an engine with that memory room to work, or else the last."""
    vocabulary = int(_of_tokenizer(tokenizer)["vocab_size"])
    room = WEIGHTS_SHARE * memory_bytes
    return next((each for each in SHAPES if each.weights_bytes(vocabulary) <= room), SHAPES[-1])


def write_model(parent: Path, shape: Shape, tokenizer: Path) -> Path:
    """Write a folder in `parent` that vLLM boots with RANDOM_WEIGHTS; `tokenizer` is a model's folder with one."""
    folder = parent / f"random-{shape.name}"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**shape.configuration(), **_of_tokenizer(tokenizer)}, indent=2))
    for name in TOKENIZER_FILES:
        if (tokenizer / name).is_file():
            shutil.copy(tokenizer / name, folder)
    return folder


def _of_tokenizer(folder: Path) -> dict[str, Any]:
    known = json.loads((folder / "config.json").read_text())
    return {name: known[name] for name in OF_TOKENIZER if known.get(name) is not None}
