"""The real encoder, and an index that was built with it."""

from __future__ import annotations

import pytest

from tests.support import build_test_index
from tests.unit.workers.retrieval.texts import TEXTS
from workers.retrieval.encoder import TextEncoder
from workers.retrieval.load import IndexRetriever, load_index


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("all-minilm-l6-v2", device="cpu")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> IndexRetriever:
    return load_index(build_test_index(tmp_path_factory.mktemp("indexes") / "hybrid", TEXTS, "hybrid"))
