"""A model that a GPU feels, without a download: the shape of a Qwen2.5, random weights, a packaged model's tokenizer.

vLLM makes the weights up when it boots (`load_format: dummy`). How fast a model is depends on its shape: prompts take
as long as with the real one, but for a smaller vocabulary. What it writes is rubbish, and as long as it may be, unless
a text meets its end by chance: all texts of a batch end together, and what is lost to ragged ends does not show.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RANDOM_WEIGHTS", "SHAPES", "Shape", "largest_fitting", "write_model"]

#: vLLM's arguments for a folder of `write_model`.
RANDOM_WEIGHTS = {"load_format": "dummy", "dtype": "bfloat16"}
#: Of the files of a model's folder, those that its tokenizer reads.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
#: Kept by the tokenizer's own model: its size, and which tokens begin and end a text.
OF_TOKENIZER = ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")
#: Of the memory that an engine has, what weights may take: the rest is for keys, values and activations.
WEIGHTS_SHARE = 0.5
BYTES_PER_WEIGHT = 2
HEAD_SIZE = 128


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model's layers are, and how many it has."""

    name: str
    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_size: int = HEAD_SIZE

    def weights_bytes(self, vocabulary: int) -> int:
        """Of all layers and of both ends for `vocabulary` tokens, in 16 bits each; norms and biases left out."""
        attention = 2 * self.hidden_size * (self.heads + self.kv_heads) * self.head_size
        network = 3 * self.hidden_size * self.intermediate_size
        ends = 2 * vocabulary * self.hidden_size
        return BYTES_PER_WEIGHT * (self.layers * (attention + network) + ends)

    def configuration(self) -> dict[str, Any]:
        """What transformers and vLLM read, but for what belongs to the tokenizer."""
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


#: As their configurations on the hub have them; from the largest down.
SHAPES = (
    Shape("qwen2.5-7b", layers=28, hidden_size=3584, intermediate_size=18_944, heads=28, kv_heads=4),
    Shape("qwen2.5-1.5b", layers=28, hidden_size=1536, intermediate_size=8960, heads=12, kv_heads=2),
    Shape("qwen2.5-0.5b", layers=24, hidden_size=896, intermediate_size=4864, heads=14, kv_heads=2, head_size=64),
)


def largest_fitting(memory_bytes: float, tokenizer: Path, shapes: Sequence[Shape] = SHAPES) -> Shape:
    """The first of `shapes` whose weights leave an engine of so much memory room to work; else the last."""
    vocabulary = int(_of_tokenizer(tokenizer)["vocab_size"])
    room = WEIGHTS_SHARE * memory_bytes
    return next((each for each in shapes if each.weights_bytes(vocabulary) <= room), shapes[-1])


def write_model(parent: Path, shape: Shape, tokenizer: Path) -> Path:
    """A folder in `parent` that vLLM boots with RANDOM_WEIGHTS; `tokenizer` is the folder of a model that has one."""
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
