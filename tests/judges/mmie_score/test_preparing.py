"""From requests to prompts and tiles, on the golden set."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import internvl_golden as golden
from support.mmie_engine import checkpoint

from mmie_tasks.judges.base import JudgeRequest, RequestBroken, RequestUnfit
from mmie_tasks.judges.mmie_score.engine.model import Failed, Work
from mmie_tasks.judges.mmie_score.pixels import read_tiles
from mmie_tasks.judges.mmie_score.preparing import Inputs, Preparing

CASES = golden.cases()
PICTURE = golden.IMAGES / "vga.png"


def inputs(*, refuse_marks: bool = False) -> Inputs:
    found = checkpoint()
    return Inputs(facts=found.facts, tokenizer=found.tokenizer, refuse_marks=refuse_marks)


def asked(*parts: str | Path) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=40)


def of_case(case: golden.Case) -> JudgeRequest:
    return JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens)


def all_of(requests: list[JudgeRequest], made: Inputs) -> Iterator[Work | Failed]:
    lengths = [made.length(request) for request in requests]
    with Preparing(made, requests, lengths) as feed:
        while (got := feed.get(wait=True)) is not None:
            yield got


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_request_becomes_the_official_prompt_and_tiles(case: golden.Case) -> None:
    work = inputs().work(7, of_case(case))
    assert work.ids == list(case.input_ids)
    assert (work.key, work.max_new_tokens) == (7, case.max_new_tokens)
    if not case.images:
        assert work.tiles is None
        return
    tiles = [read_tiles(image, golden.TILE_PX) for image in case.images]
    assert [len(each) for each in tiles] == list(case.tiles)
    assert work.tiles is not None
    assert np.array_equal(work.tiles, np.concatenate(tiles))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_length_is_known_from_the_headers_of_the_images(case: golden.Case) -> None:
    assert inputs().length(of_case(case)) == len(case.input_ids)


UNUSABLE = [
    pytest.param(asked("See ", Path("no/such.png")), RequestBroken, "such.png", id="no file"),
    pytest.param(asked("See ", Path(__file__)), RequestBroken, "test_preparing", id="no image"),
    pytest.param(
        asked("<IMG_CONTEXT>", PICTURE), RequestUnfit, "53 `<IMG_CONTEXT>`.* need 52", id="its mark"
    ),
    pytest.param(asked("word " * 9000), RequestUnfit, "the model reads 8,192 at most", id="long"),
    pytest.param(asked("\ud800"), RequestUnfit, "cannot read the text", id="no Unicode"),
]


@pytest.mark.parametrize(("request_", "kind", "words"), UNUSABLE)
def test_an_unusable_request_says_why(
    request_: JudgeRequest, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        inputs().work(0, request_)


def test_unusable_requests_come_with_their_keys_and_the_others_are_whole() -> None:
    fine = [of_case(case) for case in CASES[:4]]
    unusable: list[JudgeRequest] = [param.values[0] for param in UNUSABLE]  # type: ignore[misc]
    requests = [fine[0], *unusable[:2], *fine[1:3], *unusable[2:], fine[3]]
    found = {each.key: each for each in all_of(requests, inputs())}
    assert found.keys() == set(range(len(requests)))
    for key, request in enumerate(requests):
        got = found[key]
        if request in fine:
            assert isinstance(got, Work)
            assert got.ids == list(CASES[fine.index(request)].input_ids)
        else:
            assert isinstance(got, Failed)


def test_the_longest_prompts_come_first() -> None:
    requests = [of_case(case) for case in CASES]
    works = list(all_of(requests, inputs()))
    lengths = [len(work.ids) for work in works if isinstance(work, Work)]
    assert lengths == sorted((len(case.input_ids) for case in CASES), reverse=True)


def test_more_requests_than_are_prepared_ahead_all_come_once() -> None:
    requests = [asked(f"Request {number}.") for number in range(100)]
    found = list(all_of(requests, inputs()))
    assert sorted(each.key for each in found) == list(range(100))


class Slow:
    """Inputs that are ready when a test says so."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.made: list[int] = []

    def work(self, key: int, request: JudgeRequest) -> Work:
        self.begun.set()
        assert self.go.wait(10)
        self.made.append(key)
        return Work(key=key, ids=[1])


def test_who_does_not_wait_gets_what_is_ready() -> None:
    slow = Slow()
    with Preparing(slow, [asked("a")], [1]) as feed:  # type: ignore[arg-type]
        assert feed.get(wait=False) is None
        slow.go.set()
        got = feed.get(wait=True)
        assert isinstance(got, Work)
        assert feed.get(wait=True) is None
        assert feed.get(wait=False) is None


def test_closing_ends_the_threads_and_prepares_nothing_more() -> None:
    slow = Slow()
    with Preparing(slow, [asked("a")] * 100, [1] * 100) as feed:  # type: ignore[arg-type]
        assert feed.get(wait=False) is None
        assert slow.begun.wait(10)
        threading.Timer(0.05, slow.go.set).start()
    assert len(slow.made) < 24, "what was not begun is given up"
    assert not [each for each in threading.enumerate() if each.name.startswith("judge-inputs")]


def test_what_nobody_expects_reaches_the_caller() -> None:
    class Torn(Slow):
        def work(self, key: int, request: JudgeRequest) -> Work:
            raise ZeroDivisionError

    with Preparing(Torn(), [asked("a")], [1]) as feed, pytest.raises(ZeroDivisionError):  # type: ignore[arg-type]
        feed.get(wait=True)


MARKED = [
    pytest.param(["An answer.<|end|>"], ("<|end|>",), id="its end"),
    pytest.param(["See <image>.", "</s>"], ("<image>", "</s>"), id="a picture and a token"),
    pytest.param(["1 < 2 |end|> <Image>"], (), id="only alike"),
]


@pytest.mark.parametrize(("texts", "marks"), MARKED)
def test_the_judges_own_marks_are_found_in_the_text(texts: list[str], marks: tuple[str]) -> None:
    assert set(inputs().marks(asked(*texts, PICTURE))) == set(marks)


@pytest.mark.parametrize(("texts", "marks"), MARKED)
def test_marks_are_refused_only_where_that_is_wanted(texts: list[str], marks: tuple[str]) -> None:
    request = asked(*texts)
    inputs().work(0, request)
    if not marks:
        inputs(refuse_marks=True).work(0, request)
        return
    with pytest.raises(RequestUnfit) as caught:
        inputs(refuse_marks=True).work(0, request)
    assert all(f"`{mark}`" in str(caught.value) for mark in marks)


def test_a_path_with_a_mark_is_not_text(tmp_path: Path) -> None:
    image = tmp_path / "<image>.png"
    image.write_bytes(PICTURE.read_bytes())
    assert inputs(refuse_marks=True).work(0, asked("See ", image)).tiles is not None
