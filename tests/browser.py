"""Chromium, for the tests that look at pages as a person does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support import needed_program

__all__ = ["chromium", "open_page"]

#: Possible names of the program.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: No sandbox, because containers run as root; and no network access on Chromium's own initiative.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium, not for a whole session, as it gives the thread an event loop.

    Without one the test is skipped, and in CI it fails.
    """
    program = needed_program(*NAMES)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def open_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page in a fresh profile. Raises AssertionError for script errors and attempted network access."""
    troubles: list[str] = []
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(f"script: {error}"))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        yield page
    assert troubles == []
