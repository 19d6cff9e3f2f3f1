"""Index building: the search structures over passages that the producer has written, according to their plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from contract.chunks import chunks
from contract.errors import InputError, first_line
from contract.index import MANIFEST, PASSAGES, PLAN, Bm25Options, DenseOptions, Encoder, IndexPlan, Manifest, Words
from contract.wording import number
from workers.retrieval.bm25 import build_bm25
from workers.retrieval.dense import VectorIndex, vector_bytes
from workers.retrieval.encoder import PACKAGED_ENCODERS, TextEncoder
from workers.retrieval.files import BM25_FOLDER, DENSE_FILE, digests, writing
from workers.retrieval.memory import require_memory, used_bytes
from workers.retrieval.passages import Passages
from workers.retrieval.words import WITH_MARKS, WITH_SOFT_HYPHENS, WITHOUT_SPACES, obstacles

__all__ = ["Report", "build_index", "device_errors", "free_device"]


class Report(Protocol):
    """Callback for a build's progress: `step`, `done` and `total` passages; or a `note` for the user."""

    def __call__(self, **event: object) -> None: ...


#: Passages between two reports of progress.
REPORT_EVERY = 1000
#: Passages between two checks of the available memory.
CHECK_EVERY = 20_000
#: Peak memory of words and scores together, as a multiple of that of the words alone; 2.3 was measured.
BM25_PEAK = 2.5
#: Passages encoded between two reports; within such a block, the encoder sorts by length.
ENCODED_AT_ONCE = 1024
#: A GPU with more than this share of its memory in use is considered taken: an engine uses nine tenths of it.
TAKEN = 0.1


def build_index(folder: Path, report: Report, device: str) -> None:
    """Build the index planned in `folder`; the manifest is written last.

    Vectors are computed on `device`; `auto` is an unused GPU, or else the CPU.
    Raises InputError if the passages cannot be indexed that way, ModelNotFound if there is no such encoder.
    """
    plan = IndexPlan.model_validate_json((folder / PLAN).read_bytes())
    passages = Passages(folder / PASSAGES)
    encoder: Encoder | None = None
    if plan.bm25:
        _build_bm25(passages, plan.bm25, folder / BM25_FOLDER, report)
    if plan.dense and plan.encoder_id is not None:
        with device_errors(device):
            chosen = free_device() if device == "auto" else device
            model = TextEncoder(
                plan.encoder_id, chosen, query_prompt=plan.query_prompt, passage_prompt=plan.passage_prompt
            )
            encoder = _build_dense(passages, model, plan.dense, folder / DENSE_FILE, report)
    manifest = Manifest(plan=plan, encoder=encoder, files=digests(folder), created_at=datetime.now(UTC))
    with writing(folder / MANIFEST):
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / PLAN).unlink()


def _build_bm25(passages: Passages, options: Bm25Options, folder: Path, report: Report) -> None:
    found: Counter[str] = Counter()
    before, total = used_bytes(), len(passages)

    def texts_while_checking() -> Iterator[str]:
        for done, text in enumerate(passages.texts()):
            if done % REPORT_EVERY == 0:
                report(step="words", done=done, total=total)
            if done and done % CHECK_EVERY == 0:
                taken = used_bytes() - before
                require_memory(taken / done * total * BM25_PEAK - taken, f"The words of {total:,} passages")
            if options.words is Words.SPACED:
                found.update(obstacles(text))
            yield text
        report(step="words", done=total, total=total)

    build_bm25(texts_while_checking(), options, folder)
    for what in (WITHOUT_SPACES, WITH_MARKS, WITH_SOFT_HYPHENS):
        if found[what]:
            report(note=f"{found[what]:,} of {number(total, 'passage')} with {what}")


def _build_dense(
    passages: Passages, encoder: TextEncoder, options: DenseOptions, path: Path, report: Report
) -> Encoder:
    info = encoder.info
    has_prompts = encoder.registers_prompts or info.query_prompt is not None or info.passage_prompt is not None
    if not has_prompts and info.id not in PACKAGED_ENCODERS:
        report(
            note=f"{info.id} registers no prompts, so queries and passages are encoded as they are. Some encoders "
            "expect a prefix: E5 'query: ' and 'passage: ', BGE a sentence before queries. See the model's page, and "
            "set prefixes with --query-prompt and --passage-prompt."
        )
    require_memory(len(passages) * vector_bytes(info.dimensions, options), f"Vectors of {len(passages):,} passages")
    vectors = VectorIndex.empty(info.dimensions, options, len(passages))
    too_long = 0
    report(step="vectors", done=0, total=len(passages))
    for block in chunks(passages.texts(), ENCODED_AT_ONCE):
        too_long += encoder.too_long(block)
        vectors.add(encoder.passages(block))
        report(step="vectors", done=len(vectors), total=len(passages))
    if too_long:
        report(
            note=f"{too_long:,} of {number(len(passages), 'passage')} longer than the {info.max_tokens} tokens that "
            f"{info.id} reads: only their beginning is encoded. A smaller --tokens splits them."
        )
    vectors.write(path)
    return info


def free_device() -> str:
    """Return the first unused GPU, else the CPU: encoding must not take memory from a model on the same GPU."""
    import torch

    for gpu in range(torch.cuda.device_count()):
        try:
            free, total = torch.cuda.mem_get_info(gpu)
        except RuntimeError:  # too full even to query
            continue
        if free >= (1 - TAKEN) * total:
            return f"cuda:{gpu}"
    return "cpu"


@contextmanager
def device_errors(device: str) -> Iterator[None]:
    """Turn errors of the device, such as a full GPU or a missing device, into an InputError with a remedy.

    A torch that was built for CPUs raises AssertionError when it is to use a GPU.
    """
    try:
        yield
    except (RuntimeError, AssertionError) as trouble:
        import torch

        full = isinstance(trouble, torch.OutOfMemoryError)
        if not full and device == "auto":
            raise
        what = "does not have enough memory for the encoder" if full else f"cannot be used: {first_line(trouble)}"
        hint = "Build with --device cpu, or name an unused GPU, as in --device cuda:1."
        raise InputError(f"--device {device}: {what}.", hint=hint) from None
