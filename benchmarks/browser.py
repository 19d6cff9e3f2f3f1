"""Chromium, which looks at pages as a person does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from contract.errors import InputError

__all__ = ["NAMES", "chromium", "open_page"]

#: What its program is called.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: No sandbox, because containers run as root; and nothing that Chromium would do by itself over the network.
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
    """A headless Chromium, with which the thread has an event loop. Raises InputError without one."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise InputError(f"No {' or '.join(NAMES)} here.", hint="`make tools` installs it on Debian.")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield found
        finally:
            found.close()


@contextmanager
def open_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page of its own profile. Raises AssertionError for an error of its scripts and for a wish for the network."""
    troubles: list[str] = []
    with browser.new_context(**options) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(f"script: {error}"))
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        yield page
    assert troubles == []
