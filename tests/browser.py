"""Chromium, for the tests that look at pages as a person does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser

from benchmarks import browser
from benchmarks.browser import open_page
from tests.support import needed_program

__all__ = ["chromium", "open_page"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium, not for a whole session; without one the test is skipped, and in CI it fails."""
    needed_program(*browser.NAMES)
    with browser.chromium() as found:
        yield found
