"""LoRA adapters as peft's `save_pretrained` leaves them, made by hand: nothing here trains anything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

__all__ = ["make_adapter"]

RANK = 8


def make_adapter(folder: Path, model: Path, *, strength: float) -> Path:
    """An adapter on the attention of a Llama-like `model`: random, times `strength`; with 0 it changes nothing."""
    config = json.loads((model / "config.json").read_text())
    hidden, width = config["hidden_size"], config["head_dim"]
    outputs = {"q_proj": config["num_attention_heads"] * width, "v_proj": config["num_key_value_heads"] * width}
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    for layer in range(config["num_hidden_layers"]):
        for name, size in outputs.items():
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{at}.lora_A.weight"] = random.normal(size=(RANK, hidden)).astype(np.float32)
            weights[f"{at}.lora_B.weight"] = (strength * random.normal(size=(size, RANK))).astype(np.float32)
    folder.mkdir(parents=True)
    save_file(weights, folder / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": sorted(outputs), "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder
