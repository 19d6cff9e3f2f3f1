"""Which `batch_size` to start with, by model size: calculated, not measured.

A batch should be about half a second of work: then its fixed costs are negligible, the next one fills the engine in
time, and little has to be repeated after a crash. Work is estimated as 2 operations per parameter and prompt token, at
two fifths of the processor's peak in bfloat16, which large prefills reach. The size is the next lower power of two.
Another column has the number of questions whose keys and values fit into the remaining memory at once, which must not
be less: weights take two bytes per parameter, keys and values `bytes_per_token` from the model's own configuration.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.command import Parser, positive, run
from benchmarks.record import print_table, write

PEAK_FLOPS = 989e12  # NVIDIA H100 SXM, bfloat16, dense, by its data sheet
MEMORY_BYTES = 80e9
REACHED = 0.4
MEMORY_SHARE = 0.9
WORKSPACE_BYTES = 4e9
BATCH_S = 0.5
LARGEST = 256  # a larger batch would only mean more to repeat after a crash


@dataclass(frozen=True, slots=True)
class Model:
    """A model's size, from its configuration on the hub."""

    name: str
    parameters: float
    layers: int
    kv_heads: int
    head_size: int
    gpus: int = 1

    @property
    def bytes_per_token(self) -> int:
        """Return the size of a token's keys and values, at two bytes each."""
        return self.layers * 2 * self.kv_heads * self.head_size * 2


MODELS = (
    Model("Qwen2.5-0.5B", 0.49e9, 24, 2, 64),
    Model("Qwen2.5-1.5B", 1.54e9, 28, 2, 128),
    Model("Qwen2.5-7B", 7.6e9, 28, 4, 128),
    Model("Qwen2.5-14B", 14.8e9, 48, 8, 128),
    Model("Qwen2.5-32B", 32.8e9, 64, 8, 128, gpus=2),
    Model("Qwen2.5-72B", 72.7e9, 80, 8, 128, gpus=4),
)


def reckon(model: Model, question_tokens: int) -> dict[str, Any]:
    """Return a row of the table: one prefill of `question_tokens` per question, as in `letter`."""
    per_second = PEAK_FLOPS * REACHED * model.gpus / (2 * model.parameters * question_tokens)
    room = model.gpus * (MEMORY_BYTES * MEMORY_SHARE - WORKSPACE_BYTES) - 2 * model.parameters
    held = room / (model.bytes_per_token * question_tokens)
    size = 1
    while size * 2 <= min(per_second * BATCH_S, held, LARGEST):
        size *= 2
    return {
        "model": model.name,
        "gpus": model.gpus,
        "questions_per_s": round(per_second),
        "held_at_once": int(held),
        "batch_size": size,
    }


def main() -> None:
    parser = Parser(__doc__)
    parser.option("--question-tokens", positive, 250, "tokens of a question's prompt")
    options = parser.parse_args()
    rows = [reckon(model, options.question_tokens) for model in MODELS]
    print_table(f"{options.question_tokens} tokens per question, 80 GB GPUs", rows)
    print(write("batch_size_estimate", rows, options, models=[asdict(each) for each in MODELS]))


if __name__ == "__main__":
    run(main)
