"""The report in a real browser: safe, complete and readable."""

import os
import shutil

import pytest
from playwright.sync_api import Error, expect, sync_playwright
from support import report_page as made
from support.report_page import HOSTILE, MARKUP, NAMES, hostile_runs, page_of

PATIENCE_MS = 20_000  # enough for a busy machine; an idle one needs no waiting
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"


@pytest.fixture(scope="module")  # no longer: while it is open, an event loop runs in this thread
def browser():
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


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "report.html"
    path.write_text(page_of(hostile_runs(folder)), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, hostile):
    """Opens the hostile report at a part of it; settings are the browser context's."""

    def open_it(part="", **settings):
        page = browser.new_context(**settings).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{hostile.as_uri()}{part}")
        return page

    return open_it


def shown(page, selector):
    """Elements of the task that is shown."""
    return page.locator(f"section.task:not([hidden]) {selector}")


def draw_and_open_all(page):
    for plot in shown(page, ".plot").all():
        plot.scroll_into_view_if_needed()
        expect(plot).to_have_attribute("data-drawn", "")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def expect_samples(page, numbers):
    """Wait until the list shows these samples, a digit each, in order."""
    ids = shown(page, ".sample:not([hidden]) > summary code")
    expect(ids).to_have_text([made.IDS[int(number)] for number in numbers])


def test_hostile_texts_are_shown_and_do_nothing(opened, hostile):
    page = opened()
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{hostile.as_uri()}?again#mmie")
    draw_and_open_all(page)
    expect(shown(page, "img").first).to_have_js_property("naturalWidth", 1)
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [f"{hostile.as_uri()}?again"]
    assert page.evaluate("window.pwned") is None
    text = shown(page, ".samples").evaluate("(all) => all.textContent")
    assert [hostile_text for hostile_text in HOSTILE if hostile_text not in text] == []
    labels = shown(page, ".chart").first.locator("svg .ytick text").all_text_contents()
    assert MARKUP in labels
    assert labels.count("alike") == 2  # one bar for each of two equal titles
    assert "no score" in shown(page, ".chart").first.locator(".bartext").all_text_contents()
    page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.pwned = 9';
          document.body.append(script);
          document.body.insertAdjacentHTML('beforeend', '<a id=x onclick="window.pwned=9">x</a>');
          document.getElementById('x').click();
        }"""
    )
    assert page.evaluate("window.pwned") is None


def test_samples_are_filtered_searched_ordered_and_linked(opened):
    page = opened("#mmie")
    form = shown(page, "form")
    for label, option, numbers in (
        ("Category", "even (4)", {"0", "2", "4", "6"}),
        ("Unscored", "unparsed (1)", {"3"}),
        ("Only where", "official and robust differ (1)", {"2"}),
        ("Only where", "runs differ (3)", {"0", "3", "5"}),
    ):
        form.get_by_role("combobox", name=label).select_option(label=option)
        found = shown(page, ".sample:not([hidden]) > summary code").all_inner_texts()
        assert {text[3] for text in found} == numbers
        form.get_by_role("button", name="Clear filters").click()
        expect(shown(page, "output")).to_have_text("8 of 8 samples match")
    form.get_by_role("searchbox").fill("ANOTHER answer 4")
    expect_samples(page, "4")
    form.get_by_role("searchbox").fill("")
    form.get_by_role("spinbutton", name="lowest").fill("4")
    form.get_by_role("combobox", name="Order").select_option("best")
    expect_samples(page, "07")
    linked = opened(page.locator(".sample").nth(1).locator("a").get_attribute("href"))
    expect(linked.locator(".sample[open]")).to_have_count(1)
    missing = opened("#mmie/nothing")
    expect(shown(missing, "output")).to_contain_text("does not have the sample nothing")


def test_on_a_phone_no_column_is_out_of_reach(opened):
    page = opened("#mmie", viewport={"width": 390, "height": 800})
    draw_and_open_all(page)
    for part in ("#mmie", "#overview"):
        page.evaluate("(part) => { location.hash = part; }", part)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.evaluate("location.hash = '#mmie'")
    for table in shown(page, ".block .wide").all():
        table.evaluate("(each) => each.scrollTo(1e6, 0)")
        box = table.locator("tr:last-child > :last-child").last.bounding_box()
        assert box["x"] + box["width"] <= 390


def test_the_printed_page_has_all_tasks_and_tables_and_no_controls(opened):
    page = opened("#mmie", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("section.task:visible").count() == 2
    assert page.locator("table:visible").count() >= 8
    assert page.locator("button:visible, select:visible, input:visible, nav:visible").count() == 0


def test_scores_and_texts_can_be_read_without_scripts(opened):
    page = opened(java_script_enabled=False)
    expect(page.locator(".scores .chip").first).to_be_visible()
    expect(page.locator("section.task .sample").first).to_be_visible()
    for name in NAMES:
        expect(page.locator(".scores tbody").first).to_contain_text(name)
