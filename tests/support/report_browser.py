"""Looking at a report or a labelling page in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, expect, sync_playwright

from support import report_payload as made

Open = Callable[..., Page]

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PATIENCE_MS = 20_000  # enough for a busy machine; an idle one needs no waiting
NO_CHARTS = "IntersectionObserver.prototype.observe = () => {};"  # charts are drawn when visible


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; without one the tests are skipped, in CI they fail."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no {CHROMIUM} that starts: {error.message.splitlines()[0]}")
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@contextmanager
def new_contexts(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes contexts of a browser, which are closed at the end; settings are the context's."""
    contexts: list[BrowserContext] = []

    def new(**settings: Any) -> BrowserContext:
        contexts.append(browser.new_context(**settings))
        return contexts[-1]

    yield new
    for context in contexts:
        context.close()


def open_page(context: BrowserContext, address: str, *, charts: bool) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    if not charts:
        page.add_init_script(NO_CHARTS)
    page.goto(address)
    return page


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPage:
    """A report in a browser, and what the browser logged since before it was opened.

    Attributes:
        page: The page.
        messages: Of its console, and its errors.
        requested_urls: Of all requests, in order.
    """

    page: Page
    messages: list[str]
    requested_urls: list[str]


def section(page: Page) -> Locator:
    """The task that is shown."""
    return page.locator("section.task:visible")


def choice_of(page: Page, label: str) -> Locator:
    """The list of choices with this label."""
    return section(page).get_by_role("combobox", name=label, exact=True)


def draw_all(page: Page) -> None:
    """Bring each chart into view until it is drawn."""
    for plot in section(page).locator(".plot").all():
        plot.scroll_into_view_if_needed()
        expect(plot).to_have_attribute("data-drawn", "")


def open_all(page: Page) -> None:
    """Open everything that can be opened, including samples."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    whole = section(page).locator(".whole-sample:has(.in-runs)")
    expect(whole).to_have_count(len(made.POINTS))


def expect_samples(page: Page, numbers: str) -> None:
    """Wait until the list shows these samples of the hostile report, a digit each, in order."""
    ids = section(page).locator(".sample .id")
    expect(ids).to_have_count(len(numbers))
    for position, number in enumerate(numbers):
        expect(ids.nth(position)).to_contain_text(f"id-{number}")
