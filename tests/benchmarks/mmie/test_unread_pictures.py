"""No picture of an answer disappears uncounted, whatever the form of the answer."""

import base64
import json
import time
from pathlib import Path

import pytest
from PIL import Image
from support.mmie_data import draw
from support.mmie_judge import surround

from mmie_tasks.answers import images
from mmie_tasks.answers.picture_signs import PICTURE_SIGNS
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mmie.record import MmieRecord
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.record.segment import Segment


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    surround(monkeypatch, tmp_path)
    for name in ("a.png", "b.png", "o/a b.png", "o/c(1).png"):
        draw(tmp_path / name)


def facts_of(*results):
    sample = Sample(id="SA-1", category="SA", question=(Segment("Begin."),), gold=())
    return requests.build_request(sample, results, "mmie", BENCHMARK.settings).facts


def counted_pictures(facts):
    """The pictures that are shown, or counted as missing, as unusable or as not read."""
    shown = facts.answer_images - sum(facts.image_problems.values())
    return shown + facts.missing_images + facts.bad_images + sum(facts.unread.values())


PARTS = '[{"text": "A", "image": "a.png"}, {"text": "B", "image": "b.png"}]'
CONTENT = json.dumps(
    {
        "content": [
            {"type": "text", "text": "A"},
            {"type": "image", "path": "a.png"},
            {"type": "text", "text": "B"},
            {"type": "image", "path": "b.png"},
        ]
    }
)
LISTED = '{"text": "A <image> B", "images": ["a.png", "b.png"]}'
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGMAAQAABQABJ3UyYwAAAABJRU5ErkJggg=="
SVG_BASE64 = "data:image/svg+xml;base64,"
SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
LINES = '{"text": "A", "image": "a.png"}\n{"text": "B", "image": "b.png"}'


def of_keys(**fields):
    return json.dumps({"text": "A", **fields})


FORMS = {
    "cut off in a picture": (PARTS[:-6], 2),
    "cut off in a text": (PARTS[: PARTS.index("B") + 1], 1),
    "cut off after a part": (PARTS[: PARTS.index("}") + 1], 1),
    "content without its end": (CONTENT[:-1], 2),
    "list of images cut off": (LISTED[:-5], 2),
    "prose after": (f"{PARTS}\n\nI hope this helps!", 2),
    "JSON lines": (LINES, 2),
    "fence not closed": (f"```json\n{PARTS}", 2),
    "fence on one line": (f"```json {PARTS}```", 2),
    "assignment in a fence": (f"```python\nanswer = {PARTS}\n```", 2),
    "comma too many": (f"Sure: {PARTS[:-1]},]", 2),
    "quotation mark in a text": (PARTS.replace('"B"', '"say "B""'), 2),
    "names without quotes": ("Sure: {text: A, image: a.png}", 1),
    "JSON in a JSON string": (json.dumps(PARTS), 2),
    "parts of "
    "Gemini": (json.dumps({"parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}), 1),
    **{
        f"key {key}": (of_keys(**{key: ["a.png"]}), 1)
        for key in ("imgs", "image_list", "image_files", "output_images", "image_urls", "pictures")
    },
    "numbered keys": (of_keys(image_1="a.png", image_2="b.png"), 2),
    "object of steps": (('{"step 1": {"text": "A", "image": "a.png"}, "step 2": {"image": '
                        '"b.png"}}'), 2),
    "within another object": (f'{{"result": {CONTENT}}}', 2),
    "img element": ("See <img>a.png</img> here.", 1),
    "src without quotes": ("See <img src=a.png> here.", 1),
    "saved to, after text": ("It is a fox. Generated image saved to: a.png", 1),
    "path on a line of its own": ("A\na.png\nB", 1),
    "path in a sentence": ("I drew ./a.png, a fox.", 1),
    "link": ("[see](a.png)", 1),
    "markdown by reference": ("A ![fox][1].\n\n[1]: a.png", 1),
    "markdown of a page": ("![fox](https://example.org/fox)", 1),
    "LaTeX": (r"\includegraphics[width=3cm]{a.png}", 1),
    "data URI in a sentence": (f"See data:image/png;base64,{PNG}.", 1),
    "what Python prints of an image": (("['A', <PIL.Image.Image image mode=RGB size=32x32 at "
                                       "0x7F3A>]"), 1),
    "broken data URI": ('[{"text": "A", "image": "data:image/png;base64,!!!"}]', 1),
    "data URI of a drawing": (json.dumps([{"text": "A", "image": f"{SVG_BASE64}{SVG}"}]), 1),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "named"), FORMS.values(), ids=FORMS)
def test_every_picture_is_shown_or_counted_or_its_answer_is(answer, named):
    facts = facts_of(answer)
    assert counted_pictures(facts) >= named or facts.picture_signs


@pytest.mark.parametrize(
    ("answer", "signs"),
    [
        pytest.param('{"choice": 1}', [0], id="JSON"),
        pytest.param("```\n['cat', 'dog']\n```", [0], id="what Python prints, in a fence"),
        pytest.param("See a.png.", [1], id="an image"),
        pytest.param("See `a.png`, A.PNG or gone.png.", [1], id="an image in code"),
        pytest.param("<img>out/7</img>", [2], id="element"),
        pytest.param("./gone.png", [2], id="nothing but a path"),
        pytest.param("https://example.org/a.png", [2], id="nothing but a URL"),
        pytest.param('<img src=a.png> {"image_1": "b.png"}', [0, 1, 2], id="all"),
    ],
)
def test_a_text_is_counted_under_the_names_of_its_signs(answer, signs):
    facts = facts_of(answer)
    assert facts.picture_signs == {PICTURE_SIGNS[sign]: 1 for sign in signs}
    assert facts.answer_images == 0


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("A fox.", id="prose"),
        pytest.param('In Python, d = {"a": 1} is a dict.', id="an object without an image"),
        pytest.param("Look at <image 1>, <image>, [image 2] and [IMG3].", id="placeholders"),
        pytest.param("See gone.png and https://example.org/a.png.", id="names without a file"),
        pytest.param("Files end in .png; write `<img src=x>` for one.", id="a tag in code"),
        pytest.param("See a.png. ![](a.png)", id="an image that is shown"),
    ],
)
def test_a_text_without_pictures_has_no_sign(answer):
    assert facts_of(answer).picture_signs == {}


def sample_with(facts):
    verdicts = Verdicts.unscored("unavailable", "")
    return MmieRecord.of(verdicts, id="SA-1", category="SA", facts=facts).sample({})


def test_a_logged_sample_has_the_signs_of_its_answer():
    read = sample_with(facts_of("See a.png, <img src=b.png> and ![](gone.png)."))
    assert read.picture_signs == ("names an existing image", "has an image tag")
    assert read.properties["images of the answer not used"] == "missing (1)"


@pytest.mark.parametrize(
    ("answer", "n_unplaced"),
    [
        pytest.param(LISTED, 1, id="a list with a place for one"),
        pytest.param('{"text": "A", "images": ["a.png", "b.png"]}', 2, id="a list without a place"),
        pytest.param('{"images": ["a.png", "b.png"]}', 0, id="images only"),
        pytest.param(PARTS, 0, id="pairs"),
        pytest.param(CONTENT, 0, id="parts in order"),
        pytest.param("A fox.", 1, id="on disk"),
        pytest.param("A fox. ![](b.png)", 0, id="in the text"),
    ],
)
def test_a_logged_sample_has_the_count_of_pictures_without_a_place(answer, n_unplaced):
    Path("mmie").mkdir()
    Path("mmie/0_metadata.json").write_text('{"generated_images": ["a.png"]}')
    sample = Sample(id="SA-1", category="SA", question=(), gold=())
    built = requests.build_request(sample, [answer], "mmie", BENCHMARK.settings)
    read = sample_with(built.facts)
    assert read.pictures_unplaced == n_unplaced
    assert read.properties.get("pictures without a place", 0) == n_unplaced


def test_images_that_cannot_be_used_are_counted_by_their_reasons():
    Path("bad.png").write_bytes(b"no image")
    Image.new("1", (20_000, 10_000)).save("huge.png")
    broken = "data:image/png;base64,!!!"
    references = [
        broken,
        broken,
        "bad.png",
        "huge.png",
        "gone.png",
        "../a.png",
        "https://example.org/a.png",
        "a.png",
    ]
    facts = facts_of(json.dumps([{"text": "A", "image": reference} for reference in references]))
    assert facts.image_problems == {
        "unreadable": 3,
        "too_large": 1,
        "missing": 1,
        "outside": 1,
        "remote": 1,
    }
    assert (facts.bad_images, facts.missing_images, facts.answer_images) == (4, 3, 8)


def test_an_image_that_could_not_be_written_is_counted(monkeypatch):
    def no_space(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(images, "atomic_write", no_space)
    facts = facts_of(json.dumps([{"text": "A", "image": f"data:image/png;base64,{PNG}"}]))
    assert (facts.bad_images, facts.image_problems) == (1, {"unreadable": 1})


N = 300_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("[" * N, id="brackets"),
        pytest.param("{" * N, id="braces"),
        pytest.param('[{"a":' * (N // 6), id="lists of objects"),
        pytest.param('["x", ' + '{"a":' * (N // 5), id="a list, then objects"),
        pytest.param('["' + '\\"' * (N // 2) + "\\", id="escapes"),
        pytest.param('["' + 'a","' * (N // 4), id="many strings"),
        pytest.param("```\n" * (N // 4), id="fences"),
        pytest.param("A" * 40 + "\n" * N + "!", id="base64 and line breaks"),
        pytest.param('"<think>" ' * (N // 10), id="mentions"),
        pytest.param("![" * (N // 2), id="markdown"),
        pytest.param("a.png" * (N // 5), id="paths"),
    ],
)
def test_a_hostile_text_takes_seconds_at_most(answer):
    start = time.monotonic()
    facts_of(answer)
    assert time.monotonic() - start < 10  # a quadratic search takes minutes
