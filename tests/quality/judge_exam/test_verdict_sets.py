"""People's verdicts on pairs of answers: small files in the layout of OpenING."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.loopback import LoopbackServer
from support.verdict_files import (
    OPENING_FILE,
    OPENING_ROWS,
    opening_folder,
    opening_row,
    write_json,
)

from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing
from mmie_tasks.quality.judge_exam import opening
from mmie_tasks.quality.judge_exam.opening import read_judgements
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, Pair, PairVerdict, VerdictSet

CONTENT = json.dumps(OPENING_ROWS).encode()
FIRST = "1502046 / Red / Green"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    with LoopbackServer({"/verdicts": CONTENT}) as file_server:
        yield file_server


def readable(verdict_set: VerdictSet) -> Pair:
    """The first pair, its files by name."""

    def names(segments: tuple[str | Path, ...]) -> tuple[str | Path, ...]:
        return tuple(segment.name if isinstance(segment, Path) else segment for segment in segments)

    pair = verdict_set.pairs[0]
    a, b = pair.answers
    return replace(pair, question=names(pair.question), answers=(names(a), names(b)))


# OpenING


def download(server: LoopbackServer, cache: Path, content: bytes = CONTENT) -> VerdictSet:
    pin = replace(
        opening.OPENING_VERDICTS,
        url=f"{server.url}/verdicts",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    return opening.load_opening(None, {"MMIE_TASKS_CACHE": str(cache)}, pin)


def test_opening_is_downloaded_once_and_has_verdicts_only(
    server: LoopbackServer, tmp_path: Path
) -> None:
    first, second = (download(server, tmp_path) for _ in range(2))
    assert first == second
    assert server.count("GET") == 1
    assert [path.name for path in tmp_path.rglob("*.json")] == ["judge_modelAB_results.json"]
    assert (len(first.pairs), first.has_answers) == (3, False)
    assert "none published" in first.licence
    assert first.pairs[0].question == ()
    assert first.pairs[0].answers == ((), ())
    assert first.pairs[0].images is None


def test_of_a_tie_the_forced_side_is_the_winner(tmp_path: Path) -> None:
    pairs = opening.load_opening(opening_folder(tmp_path), {}).pairs
    assert [(pair.winner, pair.is_tie) for pair in pairs] == [
        ("A", False),
        ("B", True),
        ("A", True),
    ]
    assert [(pair.sample, pair.subset) for pair in pairs[1:]] == [
        ("1502046", "task 15"),
        ("0301007", "task 03"),
    ]


def test_opening_answers_are_texts_with_their_images_behind_them(tmp_path: Path) -> None:
    verdict_set = opening.load_opening(opening_folder(tmp_path), {})
    assert (verdict_set.has_answers, verdict_set.missing_answers) == (True, 0)
    assert readable(verdict_set) == Pair(
        id=FIRST,
        sample="1502046",
        subset="task 15",
        winner="A",
        is_tie=False,
        models=("Red", "Green"),
        question=("What is 1502046?", "1502046-i-1.jpg", "Draw it."),
        answers=(
            ("Red drew this.", "1502046-o-0.jpg", "Done."),
            ("Green drew this.", "1502046-o-0.jpg", "Done."),
        ),
        images=(1, 1),
    )
    paths = [
        segment
        for answer in verdict_set.pairs[0].answers
        for segment in answer
        if isinstance(segment, Path)
    ]
    assert [path.parent.name for path in paths] == ["Red_output", "Green_output"]


def unlink(path: Path) -> None:
    path.unlink()


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xff\xd8\xff\xe0 but no more")


def empty(path: Path) -> None:
    write_json(path, {"conversations": []})


def point_to(name: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        text = path.read_text(encoding="utf-8").replace("./images/Some Task/1502046-i-1.jpg", name)
        path.write_text(text, encoding="utf-8")

    return edit


@pytest.mark.parametrize(
    ("name", "edit", "problem"),
    [
        pytest.param(
            "gen_outputs/Red_output/1502046.json", unlink, "cannot be read", id="answer-missing"
        ),
        pytest.param(
            "gen_outputs/Red_output/1502046.json",
            overwrite,
            "not in the published layout",
            id="no-json",
        ),
        pytest.param(
            "gen_outputs/Red_output/1502046-o-0.jpg", unlink, "cannot be read", id="image-missing"
        ),
        pytest.param(
            "gen_outputs/Red_output/1502046.json",
            point_to("../../secret.jpg"),
            "not a file inside",
            id="outside",
        ),
    ],
)
def test_pairs_without_complete_answers_are_left_out_and_counted(
    tmp_path: Path, logs: list[str], name: str, edit: Callable[[Path], None], problem: str
) -> None:
    folder = opening_folder(tmp_path)
    edit(folder / name)
    verdict_set = opening.load_opening(folder, {})
    assert verdict_set.has_answers
    assert (FIRST not in {pair.id for pair in verdict_set.pairs}, len(logs)) == (True, 1)
    assert verdict_set.missing_answers == 3 - len(verdict_set.pairs)
    assert f"`{FIRST}`" in logs[0]
    assert problem in logs[0]


@pytest.mark.parametrize("hostile", ["../../outside", "/outside", "a\0b", "long" * 99])
def test_a_model_or_sample_cannot_name_a_file_outside_the_folder(
    tmp_path: Path, logs: list[str], hostile: str
) -> None:
    folder = opening_folder(tmp_path)
    rows = [
        *OPENING_ROWS,
        opening_row("1502046", hostile, "Red", "A"),
        opening_row(hostile, "Red", "Green", "A"),
    ]
    write_json(folder / OPENING_FILE, rows)
    assert opening.load_opening(folder, {}).missing_answers == 2
    assert "not a file inside" in logs[0] or "File name too long" in logs[0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            json.dumps([*OPENING_ROWS, {"data_id": "1"}]),
            "`3.model_A`: Field required",
            id="field-missing",
        ),
        pytest.param(
            json.dumps([{**OPENING_ROWS[0], "winner": "Tie"}]), "`0.winner`", id="unknown-winner"
        ),
        pytest.param(json.dumps(OPENING_ROWS[:1] * 2), f"the pair `{FIRST}` twice", id="twice"),
    ],
)
def test_verdicts_in_another_layout_are_broken_data(
    tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "verdicts.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataBroken, match=r"verdicts\.json") as error:
        opening.load_opening(tmp_path / "verdicts.json", {})
    assert problem in error.value.message


def test_a_folder_without_the_file_is_missing_data_with_the_layout_in_the_hint(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        DataMissing, match=r"cannot be read(.|\n)*hint: name a folder with `[\w/]+\.json`"
    ):
        opening.load_opening(tmp_path, {})


def test_the_source_of_a_local_file_says_whether_it_is_the_published_one(tmp_path: Path) -> None:
    path = write_json(tmp_path / "verdicts.json", OPENING_ROWS)
    pin = replace(opening.OPENING_VERDICTS, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    assert (
        opening.load_opening(path, {}, pin).source
        == f"`{path}` (SHA-256 {pin.sha256[:12]}…, the published file)"
    )
    assert opening.load_opening(path, {}).source.endswith("…, not the published file)")


# Verdicts of judges


@pytest.fixture
def people(tmp_path: Path) -> VerdictSet:
    return opening.load_opening(write_json(tmp_path / "people.json", OPENING_ROWS), {})


def judged(verdict_set: VerdictSet, folder: Path, content: object) -> tuple[PairVerdict, ...]:
    return read_judgements(write_json(folder / "judge.json", content), verdict_set)


def test_a_row_with_a_and_b_exchanged_is_a_verdict_in_the_reversed_order(
    people: VerdictSet, tmp_path: Path
) -> None:
    rows = [opening_row("1502046", "Green", "Red", "A"), opening_row("1502046", "Blue", "Red", "A")]
    first, second, third = judged(people, tmp_path, rows)
    assert (first.pair, first.is_reversed, first.a_wins) == (FIRST, True, 0)
    assert (second.is_reversed, second.a_wins) == (False, 1)
    assert third.is_reversed is False
    assert third.a_wins is None
    assert third.why_not == NoVerdict("no verdict in the file")


def test_rows_on_unknown_pairs_are_counted_and_named(
    people: VerdictSet, tmp_path: Path, logs: list[str]
) -> None:
    rows = [
        *OPENING_ROWS,
        opening_row("9", "Red", "Green", "A"),
        opening_row("1502046", "Red", "Grey", "B"),
    ]
    assert len(judged(people, tmp_path, rows)) == 3
    assert "2 pairs that are not in the set: `1502046 / Red / Grey`, `9 / Red / Green`." in logs[0]


@pytest.mark.parametrize(
    ("winner", "why_not"), [pytest.param("Tie", "the verdict is 'Tie'", id="tie")]
)
def test_what_names_no_side_is_no_verdict_with_its_reason(
    people: VerdictSet, tmp_path: Path, winner: str | None, why_not: str
) -> None:
    (judgement, *_) = judged(people, tmp_path, [{**OPENING_ROWS[0], "winner": winner}])
    assert judgement.a_wins is None
    assert str(judgement.why_not).startswith(why_not)
    assert len(str(judgement.why_not)) < 80


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param({}, "not in the expected layout", id="another-layout"),
        pytest.param(OPENING_ROWS[:1] * 2, "two verdicts on", id="twice"),
    ],
)
def test_an_unusable_file_of_a_judge_is_an_error(
    people: VerdictSet, tmp_path: Path, content: object, problem: str
) -> None:
    with pytest.raises(AnswersUnusable, match=r"judge\.json") as error:
        judged(people, tmp_path, content)
    assert problem in error.value.message
