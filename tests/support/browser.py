"""Fixtures of a real browser; the conftest of a folder that uses them imports them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, expect, sync_playwright

PATIENCE_MS = 20_000  # enough for a busy machine; an idle one needs no waiting
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


@pytest.fixture(scope="module")  # no longer: while it is open, an event loop runs in this thread
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no {CHROMIUM} that starts: {error.message.splitlines()[0]}")
        expect.set_options(timeout=PATIENCE_MS)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes contexts of the browser; settings are the context's."""
    contexts: list[BrowserContext] = []

    def new(**settings: Any) -> BrowserContext:
        contexts.append(browser.new_context(**settings))
        return contexts[-1]

    yield new
    for open_context in contexts:
        open_context.close()
