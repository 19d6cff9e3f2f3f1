"""The examples in docstrings are right."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support import ROOT

PACKAGES = ("contract", "producer", "workers", "demo", "benchmarks")
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", EXAMPLES)
def test_what_a_docstring_shows_is_what_comes_out(module: str) -> None:
    tried = doctest.testmod(importlib.import_module(module))
    assert tried.attempted
    assert not tried.failed
