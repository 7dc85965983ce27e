"""The report's page in a real browser: safe, complete and readable."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support import report_page as made
from support.report_browser import (
    OVERFLOW,
    DrawnPage,
    Open,
    contrast,
    draw_all,
    luminance,
    open_all,
    section,
    text_colours,
)
from support.report_runs import METRICS, SKETCH, run, sample
from support.unloaded_benchmark import varied


def test_the_page_opens_without_errors_and_without_requests(
    drawn: DrawnPage, hostile: Path
) -> None:
    assert drawn.messages == []
    assert [url for url in drawn.requested_urls if not url.startswith("data:")] == [
        hostile.as_uri()
    ]


def test_untrusted_texts_do_not_run_and_are_shown_completely(drawn: DrawnPage) -> None:
    page = drawn.page
    assert page.evaluate("window.pwned") is None
    shown = section(page).locator(".browser").evaluate("(all) => all.textContent")
    assert [text for text in made.HOSTILE if text not in shown] == []
    assert page.locator("main script, main style, main svg style, main [onerror]").count() == 0


@pytest.mark.parametrize("name", ["a", "a category whose name lies beside its bar"])
def test_only_a_bar_with_an_interval_has_a_line_with_ends(
    opened: Open, tmp_path: Path, name: str
) -> None:
    many = [sample(str(number), number % 5, category=name) for number in range(20)]
    metrics = (METRICS[0], *(replace(METRICS[1], title=n, weights={n: 1.0}) for n in (name, "b")))
    runs = [
        run("one", [*many, sample("b", category="b")], benchmark=varied(SKETCH, metrics=metrics))
    ]
    path = tmp_path / "report.html"
    path.write_text(made.page_of(runs), encoding="utf-8")
    page = opened(path, charts=True)
    draw_all(page)
    bars = section(page).locator(".plot:has(.bars)").first
    expect(bars.locator(".bars .point")).to_have_count(2)
    expect(bars.locator("path.yerror, path.xerror")).to_have_count(1)


def test_the_content_policy_blocks_injected_scripts(opened: Open, hostile: Path) -> None:
    page = opened(hostile)
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
    refused = page.evaluate("fetch('data:text/plain,x').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    links = r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)[^\"]*"
    assert re.findall(links, made.page_of(made.large_runs(3))) == []


def test_the_label_of_a_chart_is_shown_unchanged(drawn_page: Page) -> None:
    texts = drawn_page.locator(".chart").first.locator("svg .ytick text").all_text_contents()
    assert made.MARKUP in texts
    assert texts.count("alike") == 2  # one bar for each of two equal labels
    assert any("onmouseover='window.pwned" in text for text in texts)


def test_every_chart_is_drawn_and_has_its_numbers_in_a_table(drawn_page: Page) -> None:
    charts = section(drawn_page).locator(".chart")
    titles = [text.split(" percent")[0] for text in charts.locator("figcaption").all_inner_texts()]
    assert titles[:4] == ["By component", "By component, radar", "By field", "By level"]
    assert [text for text in titles[4:] if text.startswith("Needles")] == titles[5:]
    for chart in charts.all():
        labels = chart.locator("svg").first.locator("text").count()
        assert labels >= chart.locator("tbody tr").count() >= 5
    assert drawn_page.locator(".plot:not([role=img][aria-label])").count() == 0
    assert "no score" in charts.first.locator("svg .bartext").all_text_contents()
    expect(charts.first.locator("tbody tr").nth(3)).to_contain_text("no sample has a score")


def test_a_missing_number_has_a_reason_and_a_differing_stored_one_is_shown(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, "#mmie")
    headline = section(page).locator("table").first
    expect(headline).to_contain_text("40.48")
    expect(headline).to_contain_text("results file: 47.00")
    expect(headline).to_contain_text("only 7 of 8 samples have a score")
    notes = section(page).locator(".warning").all_inner_texts()
    assert any("Overall, official score: no score, because only 7 of 8" in note for note in notes)


def test_the_first_screen_has_scores_their_marks_and_the_difference_of_two_runs(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, viewport={"width": 1280, "height": 900})
    first, second, difference = page.locator(".scores tbody tr").all()[:3]
    for words in (made.NAMES[0], "n/a", "only 7 of 8 samples have a score", "7 of 8"):
        expect(first).to_contain_text(words)
    for words in (made.NAMES[1], "40.48", "7 of 7"):
        expect(second).to_contain_text(words)
    assert "1 unscored" in first.locator(".badge").all_inner_texts()
    expect(difference).to_contain_text("A: only 7 of 8 samples have a score")
    box = difference.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900


def test_the_difference_is_next_to_the_columns_of_two_runs(opened: Open, tmp_path: Path) -> None:
    runs = [
        run(name, [sample(str(n), (n + shift) % 5, category="ab"[n % 2]) for n in range(24)])
        for shift, name in enumerate(("one", "two"))
    ]
    path = tmp_path / "report.html"
    path.write_text(made.page_of(runs), encoding="utf-8")
    task = section(opened(path))
    categories = task.locator("table").nth(1)
    expect(categories).to_be_visible()  # without opening anything
    for words in ("may well be chance", " to +", "12"):
        expect(categories.locator("tbody tr").first).to_contain_text(words)
    expect(categories.locator("thead")).to_contain_text("two − one")


def test_further_tables_are_opened_by_hand(opened: Open, hostile: Path) -> None:
    fields = section(opened(hostile, "#mmie")).locator("table").nth(2)
    expect(fields).to_be_hidden()
    expect(fields.locator("tbody tr").nth(2)).to_contain_text("no interval: identical")


# Covers that scroll with the content, over shadows at both ends.
CUE = "local, local, scroll, scroll"


def test_on_a_phone_every_tab_and_column_is_reached_and_what_is_hidden_has_a_shadow(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, "#mmie", viewport={"width": 390, "height": 800})
    page.evaluate(
        "document.querySelectorAll('details[data-print]').forEach((each) => { each.open = true; })"
    )
    for scroller, last in (
        ("nav.bar ul", "li:last-child"),
        ("section:not([hidden]) .wide", "tr:last-child > :last-child"),
    ):
        for place in page.locator(scroller).all():
            place.evaluate("(each) => each.scrollTo(1e6, 0)")
            box = place.locator(last).last.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= 390
            assert place.evaluate("(each) => getComputedStyle(each).backgroundAttachment") == CUE


def test_the_theme_follows_the_system_until_the_button_is_pressed(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, "#mmie", charts=True, color_scheme="light")
    plot = section(page).locator(".plot").first
    plot.scroll_into_view_if_needed()
    expect(plot).to_have_attribute("data-drawn", "")
    ink, paper = colours(page)
    assert luminance(ink) < luminance(paper)
    page.get_by_role("button", name=re.compile("theme$")).click()
    page.wait_for_function("(old) => getComputedStyle(document.body).color !== old", arg=ink)
    expect(plot.locator(".xtick text").first).to_have_css("fill", colours(page)[0])
    dark = opened(hostile, color_scheme="dark")
    assert luminance(colours(dark)[0]) > luminance(colours(dark)[1])


def colours(page: Page) -> tuple[str, str]:
    """The colours of text and background."""
    ink, paper = page.evaluate(
        "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    return ink, paper


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(opened: Open, hostile: Path, scheme: str) -> None:
    page = opened(hostile, "#mmie", color_scheme=scheme)
    open_all(page)
    pairs = text_colours(page)
    assert len(pairs) > 200
    assert {pair for pair in pairs if contrast(*pair) < 4.5} == set()


def test_the_page_never_scrolls_sideways(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#mmie", charts=True, viewport={"width": 360, "height": 900})
    draw_all(page)
    open_all(page)
    for width in (360, 800, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OVERFLOW) <= 0
        wide = section(page).locator(".of-run, .chart, .controls, summary, .note").all()
        boxes = [element.bounding_box() for element in wide]
        assert [box for box in boxes if box and box["width"] > width] == []


def test_the_printed_page_has_all_tables_samples_of_all_tasks_and_no_controls(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, "#mmie", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("table:visible").count() == page.locator("table").count()
    tasks = page.locator("section.task")
    assert tasks.filter(has=page.locator(".sample:visible")).count() == tasks.count() > 1
    assert page.locator("button:visible, select:visible, input:visible").count() == 0
    ink, paper = colours(page)
    assert luminance(ink) < luminance(paper)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[data-print][open]").count() == 0


def test_the_tables_can_be_read_without_scripts(opened: Open, hostile: Path) -> None:
    page = opened(hostile, java_script_enabled=False)
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator(".scores .badge").first).to_be_visible()
    expect(page.locator("section.task table").first).to_be_visible()
    expect(page.locator("section.task table").nth(1)).to_be_visible()


def test_controls_images_and_headings_are_accessible(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#mmie")
    open_all(page)
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
    unnamed = page.locator("input, select").evaluate_all(
        "(all) => all.filter((each) => !each.labels?.length && !each.ariaLabel).length"
    )
    assert unnamed == 0
    assert page.locator("img:not([alt]), img[alt='']").count() == 0
    levels = page.locator("h1, h2, h3, h4, h5").evaluate_all(
        "(all) => all.filter((each) => each.checkVisibility()).map((each) => +each.tagName[1])"
    )
    assert levels[0] == 1
    assert [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1] == []
