"""Looking at a report in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Locator, Page, expect

from support import report_page as made

Open = Callable[..., Page]

PATIENCE_MS = 20_000  # enough for a busy machine; an idle one needs no waiting
OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"  # a script
NO_CHARTS = "IntersectionObserver.prototype.observe = () => {};"  # charts are drawn when visible


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


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it, of ``rgb(r, g, b)`` with whole numbers."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_colours(page: Page) -> list[tuple[str, str]]:
    """The colours of text and background of every visible text, without charts and disabled
    controls.
    """
    pairs = page.evaluate(
        """() => [...document.querySelectorAll('body *')]
          .filter((each) => each.checkVisibility() && !each.matches(':disabled')
            && !each.closest('.plot, [hidden]')
            && [...each.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== ''))
          .map((each) => {
            let behind = each;
            const ground = () => getComputedStyle(behind).backgroundColor;
            while (/, 0\\)$/.test(ground())) behind = behind.parentElement;
            return [getComputedStyle(each).color, ground()];
          })"""
    )
    return [(ink, paper) for ink, paper in pairs]
