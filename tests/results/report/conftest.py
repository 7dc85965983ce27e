"""Reports to open in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from support import report_page as made
from support.report_browser import (
    PATIENCE_MS,
    DrawnPage,
    Open,
    draw_all,
    open_all,
    open_page,
    section,
)


def written(folder: Path, page: str) -> Path:
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return written(folder, made.page_of(made.hostile_runs(folder)))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("large"), made.page_of(made.large_runs(20_000)))


@pytest.fixture
def opened(context: Callable[..., BrowserContext]) -> Open:
    """Opens a file at an address in it; settings are the browser context's.

    Drawing charts takes longer than all else, so they are drawn only with `charts`.
    """

    def open_it(path: Path, anchor: str = "", *, charts: bool = False, **settings: Any) -> Page:
        return open_page(context(**settings), f"{path.as_uri()}{anchor}", charts=charts)

    return open_it


@pytest.fixture(scope="module")
def drawn(browser: Browser, hostile: Path) -> Iterator[DrawnPage]:
    """The hostile report with all charts drawn and all samples open; tests only look at it."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    opened_page = DrawnPage(page=page, messages=[], requested_urls=[])
    page.on("console", lambda message: opened_page.messages.append(message.text))
    page.on("pageerror", lambda error: opened_page.messages.append(str(error)))
    page.on("request", lambda request: opened_page.requested_urls.append(request.url))
    page.goto(f"{hostile.as_uri()}#mmie")
    draw_all(page)
    open_all(page)
    page.wait_for_timeout(200)
    yield opened_page
    context.close()


@pytest.fixture(scope="module")
def drawn_page(drawn: DrawnPage) -> Page:
    return drawn.page


@pytest.fixture(scope="module")
def shared_page(browser: Browser, hostile: Path) -> Iterator[Page]:
    context = browser.new_context()
    yield open_page(context, f"{hostile.as_uri()}#mmie", charts=False)
    context.close()


@pytest.fixture
def unfiltered(shared_page: Page) -> Page:
    """The hostile report with the filters as on a new page, without charts; tests share it."""
    section(shared_page).get_by_role("button", name="Clear filters").click()
    status = section(shared_page).get_by_role("status")
    expect(status).to_have_text(f"{len(made.POINTS)} of {len(made.POINTS)} samples match")
    return shared_page
