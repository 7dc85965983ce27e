"""The labelling page in a real browser: scores are kept and exported, and untrusted texts never
run.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin
from playwright.sync_api import BrowserContext, Locator, Page, expect
from support.judgements import replied
from support.logged_runs import mmie_lines, write_run
from support.report_browser import OVERFLOW, contrast, open_page, text_colours
from support.report_page import HOSTILE
from support.report_runs import SCALE, sample

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.quality.calibrate.command import run as calibrate
from mmie_tasks.quality.calibrate.judged_samples import PlannedAnswer
from mmie_tasks.quality.calibrate.labelling_page import labelling_page
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.labels import answer_digest, id_in_csv, read_labels

PERCENT = Scale(full_marks=100, unit="percent of full marks", percent=lambda points: points)
SEED = 7


def item(logged: LoggedSample) -> PlannedAnswer:
    return PlannedAnswer(id=logged.id, answer=answer_digest(logged), stratum="", sample=logged)


def text(words: str) -> tuple[Segment, ...]:
    return (Segment(words),)


def plain_items(count: int) -> list[PlannedAnswer]:
    return [
        item(sample(f"id-{n}", question=text(f"Question {n}"), answer=text(f"Answer {n}")))
        for n in range(count)
    ]


def page_text(
    items: Sequence[PlannedAnswer], scale: Scale = SCALE, seed: int = SEED, title: str = "Answers"
) -> str:
    return labelling_page(items, title=title, scale=scale, seed=seed).html


def content_of(html: str) -> Any:
    block = re.search(r'<script type="application/json" id="x-data">(.*?)</script>', html)
    assert block is not None
    return json.loads(block[1])


def pictures_of(html: str) -> list[bytes]:
    found = re.findall(
        r'id="x-picture-\d+">data:image/webp;base64,([A-Za-z0-9+/=]+)</script>', html
    )
    return [base64.b64decode(address, validate=True) for address in found]


def saved(folder: Path, html: str, name: str = "page.html") -> str:
    path = folder / name
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


def begin(page: Page, name: str = "Ann") -> Page:
    page.get_by_label("Your name").fill(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_be_visible()
    return page


def title(page: Page) -> Locator:
    return page.locator("#x-title")


def point_button(page: Page, points: int) -> Locator:
    return page.get_by_role("button", name=str(points), exact=True).and_(
        page.locator("[data-points]")
    )


def count(page: Page) -> Locator:
    return page.locator("#x-count")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def exported(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def points_of(path: Path, scale: Scale = SCALE) -> dict[str, float | None]:
    return {label.id: label.points for label in read_labels(path, scale)}


def test_scores_by_key_and_mouse_are_kept_and_exported(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    items = plain_items(8)
    page = begin(open_page(context(), saved(tmp_path, page_text(items)), charts=False))
    press(page, "4", "0")
    expect(title(page)).to_contain_text("Sample 3 of 8")
    point_button(page, 3).click()
    press(page, "ArrowRight", "2", "j", "k", "1")  # the fourth sample is left out
    expect(count(page)).to_have_text("5 of 8")
    press(page, "f")
    expect(title(page)).to_contain_text("Sample 4 of 8")

    page.once("dialog", lambda dialog: dialog.accept())  # it warns: the scores are not exported
    page.reload()
    expect(page.get_by_label("Your name")).to_have_value("Ann")
    press(page, "Enter")
    expect(count(page)).to_have_text("5 of 8")
    expect(title(page)).to_contain_text("Sample 4 of 8")  # the first without a score

    path = exported(page, tmp_path)
    assert path.name == "people-Ann.csv"
    labels = read_labels(path, SCALE)
    assert [(label.id, label.points) for label in labels] == [
        ("id-0", 4), ("id-1", 0), ("id-2", 3), ("id-4", 2), ("id-5", 1)
    ]  # fmt: skip
    assert {(label.rater, label.seed) for label in labels} == {("Ann", SEED)}
    assert [label.answer for label in labels] == [items[index].answer for index in (0, 1, 2, 4, 5)]
    assert path.read_bytes().startswith(b"id,answer,seed,rater,score\r\n")
    expect(page.locator("#x-gaps")).to_contain_text("You skipped 1 sample")


def test_the_page_of_a_plan_gives_the_labels_that_correct_the_run(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    write_run(tmp_path / "model", "mmie", mmie_lines(60, unscored=0))
    calibrate([str(tmp_path / "model"), "--plan", "24", "-o", str(tmp_path / "plan.csv")], {})
    page = begin(open_page(context(), (tmp_path / "plan.html").as_uri(), charts=False))
    press(page, *"014235" * 4)
    expect(page.get_by_role("status")).to_contain_text("All samples are scored")
    text = calibrate([str(tmp_path / "model"), "--people", str(exported(page, tmp_path))], {})
    headline = [line for line in text.splitlines() if line.startswith("|")][2]
    assert [cell.strip() for cell in headline.split("|")][3] == "24"
    assert "not a random sample" not in text


def test_a_second_rater_starts_empty_and_the_first_goes_on(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    page = begin(open_page(context(), saved(tmp_path, page_text(plain_items(3))), charts=False))
    press(page, "4")
    page.get_by_role("button", name="Change").click()
    begin(page, "  Bo   Li ")
    expect(count(page)).to_have_text("0 of 3")
    press(page, "1", "2")
    path = exported(page, tmp_path)
    assert path.name == "people-Bo_Li.csv"
    assert {label.rater for label in read_labels(path, SCALE)} == {"Bo Li"}
    page.get_by_role("button", name="Change").click()
    begin(page, "Ann")
    expect(count(page)).to_have_text("1 of 3")


def test_without_storage_the_page_says_so_and_works(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    saved(tmp_path, page_text(plain_items(3)))
    frame = (
        '<iframe sandbox="allow-scripts allow-forms allow-downloads" src="page.html" '
        "width=900 height=700></iframe>"
    )
    outer = open_page(context(), saved(tmp_path, frame, "outer.html"), charts=False)
    page = outer.frame_locator("iframe")
    expect(page.get_by_role("alert")).to_contain_text("does not keep your scores")
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Start").click()
    page.locator("[data-points='4']").click()
    expect(page.locator("#x-count")).to_have_text("1 of 3")
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Your name").fill("Bo")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#x-count")).to_have_text("0 of 3")
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Start").click()
    with outer.expect_download() as download:
        page.get_by_role("button", name="Export CSV").click()
    download.value.save_as(tmp_path / "people.csv")
    assert points_of(tmp_path / "people.csv") == {"id-0": 4}


def test_closing_warns_while_scores_are_not_exported(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    page = begin(open_page(context(), saved(tmp_path, page_text(plain_items(3))), charts=False))
    press(page, "4")
    with page.expect_event("dialog") as warning:
        page.close(run_before_unload=True)
    assert warning.value.type == "beforeunload"
    warning.value.dismiss()
    exported(page, tmp_path)
    later_warnings: list[str] = []
    page.on("dialog", lambda dialog: (later_warnings.append(dialog.type), dialog.accept()))
    with page.expect_event("close"):
        page.close(run_before_unload=True)
    assert later_warnings == []


def test_a_score_can_be_changed_and_removed(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    page = begin(open_page(context(), saved(tmp_path, page_text(plain_items(3))), charts=False))
    press(page, "4", "k")
    expect(point_button(page, 4)).to_have_attribute("aria-pressed", "true")
    press(page, "3", "s", "2", "k")
    expect(page.locator(".marks button").nth(1)).to_have_accessible_name("Sample 2, no score")
    press(page, "ArrowLeft")
    expect(point_button(page, 3)).to_have_attribute("aria-pressed", "true")
    press(page, "Delete")
    expect(count(page)).to_have_text("1 of 3")
    press(page, "j", "j", "Delete")
    expect(count(page)).to_have_text("0 of 3")
    expect(page.get_by_role("button", name="Export CSV")).to_be_disabled()


def test_keys_score_only_where_they_are_meant_to(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    page = open_page(context(), saved(tmp_path, page_text(plain_items(20))), charts=False)
    page.keyboard.type("A4")  # a name
    press(page, "Enter")
    expect(count(page)).to_have_text("0 of 20")
    press(page, "9", "Control+4", "?", "3", "Escape")  # off the scale, the browser's, in a dialog
    expect(count(page)).to_have_text("0 of 20")
    for _ in range(5):
        page.keyboard.down("2")  # held down
    expect(count(page)).to_have_text("1 of 20")


def test_a_scale_of_many_points_has_a_number_field(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    page = begin(
        open_page(context(), saved(tmp_path, page_text(plain_items(4), PERCENT)), charts=False)
    )
    expect(page.locator("[data-points]")).to_have_count(0)
    page.keyboard.type("101")
    press(page, "Enter")
    expect(page.get_by_role("status")).to_contain_text("from 0 to 100")
    page.keyboard.type("87,5")  # it replaces what was refused
    press(page, "Enter")
    page.keyboard.type("100")
    page.get_by_role("button", name="Save").click()
    press(page, "s")
    page.keyboard.type("0")
    press(page, "Enter")
    expect(page.get_by_role("status")).to_contain_text("1 sample without a score")
    assert points_of(exported(page, tmp_path), PERCENT) == {"id-0": 87.5, "id-1": 100, "id-3": 0}


def test_a_scale_of_whole_points_beyond_ten_takes_whole_numbers_only(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    scale = Scale(
        full_marks=20, unit="points, 0 to 20", whole=True, percent=lambda points: 5 * points
    )
    page = begin(
        open_page(context(), saved(tmp_path, page_text(plain_items(2), scale)), charts=False)
    )
    page.keyboard.type("12.5")
    press(page, "Enter")
    expect(page.get_by_role("status")).to_contain_text("A whole number from 0 to 20")
    page.keyboard.type("13")
    press(page, "Enter")
    expect(count(page)).to_have_text("1 of 2")


ODD = (
    "a\x00b\u2028c",
    "half \ud83d pair",
    "=1+1",
    "-2",
    "'=x",
    'comma, "quote"',
    "two\nlines",
    "\u202eright to left",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = []
    for number, attack in enumerate((*HOSTILE, *ODD)):
        segments = (Segment(f"Text {number}: {attack}", f"/gone/{attack}.png"), Segment(attack))
        fields = {"question": segments, "gold": segments, "answer": segments}
        items.append(item(sample(attack, **fields)))
    path = tmp_path_factory.mktemp("labels") / "hostile.html"
    path.write_text(page_text(items, title=f"Answers {HOSTILE[0]}"), encoding="utf-8")
    return path


def test_hostile_texts_are_shown_and_never_run(
    context: Callable[..., BrowserContext], hostile: Path, tmp_path: Path
) -> None:
    page = open_page(context(), "about:blank", charts=False)
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(hostile.as_uri())
    begin(page, f"=Ann {HOSTILE[1]}")
    for attack in HOSTILE:
        shown = page.locator("main").evaluate("(main) => main.textContent")
        assert shown.count(attack) >= 6  # id, question, reference, answer
        assert page.locator("main script, main style, main [onerror], main svg").count() == 0
        press(page, "1")
    for _ in ODD:
        press(page, "1")
    assert page.evaluate("window.pwned") is None
    assert messages == []
    assert [url for url in requests if not url.startswith("data:")] == [hostile.as_uri()]
    path = exported(page, tmp_path)
    labels = read_labels(path, SCALE)
    assert [label.id for label in labels] == [id_in_csv(attack) for attack in (*HOSTILE, *ODD)]
    assert {label.rater for label in labels} == {f"=Ann {HOSTILE[1]}"}
    cells = [
        cell
        for row in csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
        for cell in row
    ]
    assert [cell for cell in cells if cell.startswith(("=", "-", "+", "@"))] == []


def noise(path: Path, size: tuple[int, int], note: str = "") -> str:
    details = PngImagePlugin.PngInfo()
    details.add_text("Software", note)
    Image.effect_noise(size, 80).convert("RGB").save(path, pnginfo=details)
    return str(path)


SECRETS = (
    "secret-model",
    "secret-run",
    "secret-reply",
    "secret-reading",
    "secret-property",
    "secret-file",
    "secret-prompt",
)


def test_nothing_that_could_sway_people_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret-run").mkdir()
    picture = noise(tmp_path / "secret-run" / "secret-file.png", (50, 40), note="secret-model")
    broken = Segment(
        image="out/secret-run/secret-file.png", problem="missing", prompt="secret-prompt"
    )
    reply = JudgeReply(text="secret-reply 3.25", model="secret-model", usage=Usage(cost_usd=12.5))
    logged = sample(
        "id-1",
        3.25,
        question=text("Question"),
        answer=(
            Segment("Answer", picture, prompt="secret-prompt"),
            broken,
            Segment(image="/x/secret-file-gone.png"),
        ),
        judgements=replied(reply),
        signature="judge:openai|model:secret-model",
        properties={"secret-property": 1.0},
        groups={"category": ("a",)},
        shares={"official": {"secret-property": 0.5}},
    )
    html = page_text([item(logged)])
    everything = html.encode() + b"".join(pictures_of(html))
    assert len(pictures_of(html)) == 1
    assert [
        secret for secret in (*SECRETS, "3.25", "openai", "12.5") if secret.encode() in everything
    ] == []
    assert content_of(html)["samples"][0].keys() == {
        "id",
        "cell",
        "answer",
        "question",
        "gold",
        "shown",
    }


def test_pictures_are_embedded_once_in_their_order_and_at_most_1024_px(tmp_path: Path) -> None:
    large, small = (
        noise(tmp_path / "large.png", (2000, 500)),
        noise(tmp_path / "small.png", (30, 20)),
    )
    answer = (Segment("One", large), Segment("Two", small), Segment("Three", large))
    page = labelling_page(
        [item(sample(str(n), question=(Segment("", small),), answer=answer)) for n in range(5)],
        title="Answers",
        scale=SCALE,
        seed=SEED,
    )
    pictures = [Image.open(io.BytesIO(picture)).size for picture in pictures_of(page.html)]
    assert sorted(pictures) == [(30, 20), (1024, 256)]
    shown = content_of(page.html)["samples"][4]["shown"]
    assert [
        piece.get("text") or pictures[int(piece["image"].removeprefix("x-picture-"))]
        for piece in shown
    ] == [*("One", (1024, 256), "Two", (30, 20), "Three", (1024, 256))]
    assert page.missing_images == 0


def test_an_unusable_picture_is_a_note_with_its_reason_and_is_counted(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    question = (
        Segment("Look", str(tmp_path / "gone.png")),
        Segment(image=str(tmp_path / "broken.png")),
        Segment(image="http://h/x.png", problem="remote"),
        Segment(image=noise(tmp_path / "good.png", (20, 20))),
    )
    page = labelling_page(
        [item(sample("1", question=question))] * 2, title="Answers", scale=SCALE, seed=SEED
    )
    assert page.missing_images == 6
    opened = begin(open_page(context(), saved(tmp_path, page.html), charts=False))
    notes = " ".join(opened.locator(".absent").all_inner_texts())
    for words in (
        "the file no longer exists",
        "gone.png",
        "the file is not a readable image",
        "remote: http://h/x.png",
    ):
        assert words in notes
    assert opened.locator("main img").count() == 1
    expect(opened.locator("main img")).to_have_js_property("naturalWidth", 20)
    opened.get_by_role("button", name="image 4 of the question").click()
    expect(opened.get_by_role("dialog", name="Picture").locator("img")).to_be_visible()


def test_too_many_pictures_are_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmie_tasks.quality.calibrate.labelling_page.BUDGET_CHARACTERS", 1000)
    items = [item(sample("1", question=(Segment(image=noise(tmp_path / "a.png", (200, 200))),)))]
    with pytest.raises(SettingWrong, match="plan fewer samples"):
        page_text(items)


def test_the_reference_is_labelled_and_closed_until_it_is_opened(
    context: Callable[..., BrowserContext], tmp_path: Path
) -> None:
    items = [item(sample(str(n), question=text("Q"), gold=text(f"Gold {n}"))) for n in range(2)]
    page = begin(open_page(context(), saved(tmp_path, page_text(items)), charts=False))
    expect(page.get_by_text("Gold 0")).to_be_hidden()
    page.get_by_text("Reference answer").click()
    expect(page.get_by_text("Gold 0")).to_be_visible()
    press(page, "j")
    expect(page.get_by_text("Gold 1")).to_be_visible()  # it stays open


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scale", [SCALE, PERCENT], ids=["buttons", "field"])
def test_the_page_is_readable_named_and_never_scrolls_sideways(
    context: Callable[..., BrowserContext], tmp_path: Path, scheme: str, scale: Scale
) -> None:
    wide = noise(tmp_path / "a.png", (1000, 400))
    long = (Segment("w" * 500 + HOSTILE[0], wide),)
    items = [item(sample(f"{n}" * 90, question=long, gold=long, answer=long)) for n in range(150)]
    address = saved(tmp_path, page_text(items, scale))
    page = begin(
        open_page(
            context(color_scheme=scheme, viewport={"width": 390, "height": 800}),
            address,
            charts=False,
        )
    )
    page.get_by_text("All samples").click()
    page.get_by_text("Reference answer").click()
    page.locator(".marks button").nth(2).click()
    page.locator("#x-field").or_(page.locator("[data-points='2']")).click()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOW) <= 0
    colours = text_colours(page)
    assert len(colours) > 150
    assert {pair for pair in colours if contrast(*pair) < 4.5} == set()
    unnamed = page.locator("input").evaluate_all(
        "(all) => all.filter((each) => !each.labels?.length).length"
    )
    assert unnamed == 0
    assert page.locator("img:not([alt]), img[alt='']").count() == 0
    for role in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
