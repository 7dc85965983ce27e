"""The report's samples in a real browser: searching, sorting, opening and linking."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support import report_page as made
from support.report_browser import Open, choice_of, expect_samples, section

IDS = made.IDS


@pytest.mark.parametrize(
    ("label", "choice", "expected"),
    [
        pytest.param("Order", "most disputed first", "35021467", id="most disputed first"),
        pytest.param("Order", "worst first", "16345270", id="worst first"),
        pytest.param("Order", "best first", "07253461", id="best first"),
        pytest.param("Run", "first", "35021467", id="a run"),
        pytest.param("Run", made.NAMES[1], "3502467", id="a run that lacks a sample"),
        pytest.param("Unscored", "only unscored", "3", id="without score"),
        pytest.param("Unscored", "unparsed (1)", "3", id="without score, and why"),
    ],
)
def test_a_choice_changes_which_samples_are_shown(
    unfiltered: Page, label: str, choice: str, expected: str
) -> None:
    page = unfiltered
    choice_of(page, label).select_option(label=choice)
    expect_samples(page, expected)
    expect(section(page).get_by_role("status")).to_contain_text(f"{len(expected)} of 8 samples")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("Only where official and robust differ (1)", "2", id="scores"),
        pytest.param("Only where runs differ (3)", "350", id="runs"),
    ],
)
def test_a_checkbox_selects_the_samples_that_differ(
    unfiltered: Page, words: str, expected: str
) -> None:
    page = unfiltered
    section(page).get_by_label(words).check()
    expect_samples(page, expected)


def test_a_sample_without_score_is_neither_worst_nor_best(unfiltered: Page) -> None:
    page = unfiltered
    choice_of(page, "Run").select_option(label="first")
    choice_of(page, "Order").select_option(label="worst first")
    expect_samples(page, "16427503")
    choice_of(page, "Order").select_option(label="best first")
    expect_samples(page, "05724613")


def test_a_range_of_points_applies_to_the_selected_run(unfiltered: Page) -> None:
    page = unfiltered
    section(page).get_by_label("highest official points").fill("1")
    expect_samples(page, "516")
    choice_of(page, "Run").select_option(label="first")
    expect_samples(page, "16")
    section(page).get_by_label("lowest official points").fill("1")
    expect_samples(page, "6")
    section(page).get_by_role("button", name="Clear filters").click()
    expect_samples(page, "35021467")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("id-4", "4", id="an id"),
        pytest.param("ANOTHER ANSWER 7", "7", id="an answer, in any case"),
        pytest.param("### Score\n6", "", id="a line end is no space"),
        pytest.param("a" * 9_000, "0", id="very long"),
    ],
)
def test_a_search_covers_the_details(unfiltered: Page, words: str, expected: str) -> None:
    page = unfiltered
    section(page).get_by_label("Search in all texts").fill(words)
    expect(section(page).get_by_role("status")).to_contain_text(f"{len(expected)} of 8 samples")
    expect_samples(page, expected)


def test_a_search_of_many_samples_can_be_stopped(opened: Open, large: Path) -> None:
    page = opened(large)
    page.evaluate("() => { Response.prototype.json = () => new Promise(() => {}); }")  # never done
    section(page).get_by_label("Search in all texts").fill("word-1")
    stop = section(page).get_by_role("button", name="Stop the search")
    stop.click()
    expect(stop).to_be_hidden()
    expect(section(page).get_by_role("status")).to_have_text("0 of 20,000 samples match")


def test_twenty_thousand_samples_are_shown_in_groups_that_open(opened: Open, large: Path) -> None:
    page = opened(large)
    shown, status = section(page).locator(".sample"), section(page).get_by_role("status")
    expect(shown).to_have_count(100)
    expect(status).to_have_text("20,000 of 20,000 samples match")
    section(page).get_by_label("Search in all texts").fill("word-1999")
    expect(status).to_have_text("11 of 20,000 samples match")
    expect(shown).to_have_count(11)
    expect(section(page).get_by_text("Samples 1 to 11")).to_be_hidden()
    section(page).get_by_role("button", name="Clear filters").click()
    choice_of(page, "Order").select_option(label="best first")
    expect(section(page).locator(".id").first).to_have_text("id-6")
    section(page).get_by_text("Samples 19,901 to 20,000").click()
    expect(section(page).locator(".id").last).to_have_text("id-19999")
    expect(shown).to_have_count(200)


def test_a_button_opens_the_first_samples_and_print_has_them_and_every_open_one(
    opened: Open, large: Path
) -> None:
    page = opened(large, "#mmie/id-12346")
    expect(section(page).locator(".sample[open]")).to_have_count(1)
    page.emulate_media(media="print")
    expect(section(page).locator(".sample:visible")).to_have_count(26)
    page.emulate_media(media="screen")
    section(page).get_by_role("button", name="Open the first 25").click()
    expect(section(page).locator(".in-runs")).to_have_count(26)


@pytest.mark.parametrize("number", [1, 4, 6])
def test_an_address_leads_to_a_sample(opened: Open, hostile: Path, number: int) -> None:
    page = opened(hostile, f"#mmie_sa/{quote(IDS[number], safe='')}")
    sample = section(page).locator(".sample[open]")
    expect(sample.locator(".id")).to_have_text(IDS[number], use_inner_text=False)
    expect(sample.locator("summary")).to_be_focused()
    absent = sample.locator(".of-run").filter(has_text="not in this run")
    expect(absent).to_have_count(int(number == 1))


def test_an_address_leads_to_a_sample_in_any_group_and_past_any_filter(
    opened: Open, large: Path
) -> None:
    page = opened(large)
    choice_of(page, "Field").select_option(label="b (10,000)")
    page.evaluate("location.hash = '#mmie/id-12346'")
    expect(section(page).locator(".sample[open] .id")).to_have_text("id-12346")
    link = section(page).get_by_role("link", name="Link to this sample")
    expect(link).to_have_attribute("href", "#mmie/id-12346")


def test_an_address_of_an_unknown_sample_shows_a_message(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#mmie/%F0%28")
    expect(section(page).get_by_role("status")).to_have_text("No sample has the id %F0%28.")
    expect_samples(page, "35021467")


def test_a_sample_opens_with_the_keyboard_and_shows_every_run(opened: Open, hostile: Path) -> None:
    page = opened(hostile, "#mmie")
    summary = section(page).locator(".sample summary").first
    summary.focus()
    page.keyboard.press("Enter")
    runs = section(page).locator(".sample[open] .of-run")
    expect(runs).to_have_count(2)
    expect(runs.nth(0)).to_contain_text("n/a unparsed")
    expect(runs.nth(1)).to_contain_text("2 of 6")
    expect(runs.nth(1)).to_contain_text("from the cache")
    expect(runs.nth(1)).to_contain_text("1,234 tokens in, 56 out · $0.00210")
    expect(runs.nth(1)).to_contain_text("judge:a|model:m|note:")


def test_a_missing_picture_is_shown_with_the_reason(opened: Open, hostile: Path) -> None:
    page = opened(hostile, f"#mmie/{quote(IDS[2], safe='')}")
    sample = section(page).locator(".sample[open]")
    expect(sample.locator(".absent")).to_have_text(
        f"no such file: {made.HOSTILE[2]} image 1 of the question"
    )
    expect(sample.locator("img[src^='data:image/webp']")).to_have_count(
        2
    )  # the answers', whose addresses are data


def test_a_drawn_picture_has_its_prompt_below_it_as_text(opened: Open, hostile: Path) -> None:
    page = opened(hostile, f"#mmie/{quote(IDS[1], safe='')}")
    pictures = section(page).locator(".sample[open] figure.picture")
    missing, drawn = pictures.first, pictures.filter(has=page.locator("img"))
    expect(missing.locator(".absent + figcaption")).to_have_text(
        f"drawn to: prompt of the missing {made.HOSTILE[1]}"
    )
    expect(drawn.locator("img + figcaption")).to_have_text(f"drawn to: prompt {made.HOSTILE[1]}")
    assert page.evaluate("window.pwned") is None


def test_a_button_shows_all_of_a_long_answer(opened: Open, hostile: Path) -> None:
    page = opened(hostile, f"#mmie/{quote(IDS[0], safe='')}")
    answer = section(page).locator(".sample[open] .of-run").first.locator(".segments")
    whole = answer.locator(".long > .log-text")
    expect(whole).to_be_hidden()
    answer.locator("summary", has_text="Show all 19,000 characters").click()
    expect(whole).to_have_text(made.LONG)
    expect(answer.locator(".part")).to_be_hidden()
