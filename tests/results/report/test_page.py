"""The report's page in a real browser: safe, complete and readable."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support import report_payload as made
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

from mmie_tasks.results.report.page import render


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
    assert re.findall(links, render(made.large(3))) == []


def test_the_label_of_a_chart_is_shown_unchanged(drawn_page: Page) -> None:
    texts = drawn_page.locator(".chart").first.locator("svg .ytick text").all_text_contents()
    assert [text for text in texts if text.startswith("<script>window.pwned = 1</")]
    assert made.MARKUP in texts
    assert texts.count("alike") == 2  # one bar for each of two equal labels
    assert made.HOSTILE[6] in texts  # 36 characters: not cut beside free space


def test_every_chart_has_its_numbers_in_a_table(drawn_page: Page) -> None:
    charts = section(drawn_page).locator(".chart")
    for number, chart in enumerate(made.hostile()["tasks"][0]["charts"]):
        rows = charts.nth(number).locator("tbody tr")
        assert rows.count() == len(chart["y"] if chart["type"] == "heat" else chart["x"])
    assert drawn_page.locator(".plot:not([role=img][aria-label])").count() == 0
    for chart in charts.all()[:2]:  # a bar without a value says why
        assert made.NO_SCORE in chart.locator("svg .bartext").all_text_contents()
        expect(chart.locator("tbody tr").first).to_contain_text(made.NO_SCORE)


def test_a_missing_number_has_a_reason_and_a_differing_stored_one_is_shown(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, "#mmie")
    headline = section(page).locator("table").first
    expect(headline).to_contain_text("48.11")
    expect(headline).to_contain_text("44.11 – 52.11")
    expect(headline).to_contain_text("results file: 47.00")
    expect(headline).to_contain_text("only 3 of 8 samples have a score")
    notes = section(page).locator(".warning").all_inner_texts()
    assert any("their signatures differ in judge, note" in note for note in notes)


def test_the_first_screen_has_scores_their_marks_and_the_difference_of_two_runs(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile, viewport={"width": 1280, "height": 900})
    scores = page.locator(".scores tbody").first
    first, second, difference = scores.locator("tr").all()
    for words in (made.NAMES[0], "48.11", "44.11 – 52.11", "20,103", made.ATTACK):
        expect(first).to_contain_text(words)
    for words in (made.NAMES[1], "n/a", "only 3 of 8 samples have a score"):
        expect(second).to_contain_text(words)
    assert second.locator(".badge").all_inner_texts()[0] == "8 of 20,103 samples (--limit 8)"
    assert first.locator(".badge").count() == 0
    expect(difference).to_contain_text("B: ")
    box = difference.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900


def test_the_expected_score_stands_beside_the_robust_one_where_a_run_has_one(
    opened: Open, hostile: Path
) -> None:
    page = opened(hostile)
    first, second, _ = page.locator(".scores tbody").first.locator("tr").all()
    expect(first.locator("[data-label=expected]")).to_have_text("48.61")
    expect(second.locator("[data-label=expected]")).to_have_text("–")
    columns = page.locator(".scores thead th").all_inner_texts()
    assert columns[columns.index("Robust score") + 1] == "Expected score"
    assert "xpected" not in render(made.large(3)).partition("</table>")[0].partition("<body>")[2]


def test_grades_and_corrected_scores_stand_beside_the_official_ones(
    opened: Open, tmp_path: Path
) -> None:
    payload = made.hostile()
    ends = {"percent": 40.126, "low": 35.5, "high": 44.75, "notes": ["100 labels by 2 raters"]}
    none = {"percent": None, "low": None, "high": None, "notes": [made.ATTACK]}
    grades = [f"{made.ATTACK}: agreement with people 71.08 %", "b: ungraded"]
    payload["tasks"][0]["summaries"] = [
        {**made.summary(0, corrected=ends), "judge": "a panel", "grades": grades},
        {**made.summary(1, corrected=none), "judge": "", "grades": []},
    ]
    path = tmp_path / "report.html"
    path.write_text(render(payload), encoding="utf-8")
    page = opened(path, viewport={"width": 1280, "height": 900})
    rows = page.locator(".scores tbody").first.locator("tr")
    first, corrected, second, reason, difference = rows.all()
    judge = first.locator("[data-label=judge]")
    assert judge.inner_text().split("\n") == ["a panel", *grades]
    expect(second.locator("[data-label=judge]")).to_have_text("by rule")
    for words in ("corrected by people", "40.13", "35.50 – 44.75", "100 labels by 2 raters"):
        expect(corrected).to_contain_text(words)
        assert words not in first.inner_text()
    for words in ("corrected by people", "n/a", made.ATTACK):
        expect(reason).to_contain_text(words)
    expect(difference).to_contain_text("B: ")
    for line in (payload["judge_error"], payload["judges"][0]):
        expect(page.locator("#overview")).to_contain_text(line)
    assert page.evaluate("window.pwned") is None
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate(OVERFLOW) <= 0


def test_the_difference_stands_beside_the_columns_of_two_runs(opened: Open, hostile: Path) -> None:
    task = section(opened(hostile, "#mmie"))
    expect(task.locator(".marked .badge").first).to_have_text("8 of 20,103 samples (--limit 8)")
    categories = task.locator("table").nth(1)
    expect(categories).to_be_visible()  # without opening anything
    for words in ("+10.00", "-10.00 to +30.00", "may well be chance"):
        expect(categories.locator("tbody tr").first).to_contain_text(words)
    fields = task.locator("table").nth(2)
    expect(fields).to_be_hidden()
    expect(fields.locator("tbody tr").nth(1)).to_contain_text("no interval")


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
    show = section(page).get_by_role("button", name="Show all")
    while show.count():
        show.first.click()
    for width in (360, 800, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OVERFLOW) <= 0
        wide = section(page).locator(".of-run, .chart, .controls, summary, .note").all()
        boxes = [element.bounding_box() for element in wide]
        assert [box for box in boxes if box and box["width"] > width] == []


def test_the_printed_page_has_all_tables_and_no_controls(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#mmie", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("table:visible").count() == page.locator("table").count()
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
