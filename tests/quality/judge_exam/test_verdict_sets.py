"""People's verdicts on pairs of answers: small files in the layouts of OpenING and MMRB2."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.file_server import Server, sends, serving
from support.verdict_files import (
    MMRB2_FILE,
    OPENING_FILE,
    OPENING_ROWS,
    built_mmrb2_folder,
    mmrb2_file,
    mmrb2_row,
    opening_folder,
    opening_row,
    write_json,
)

from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing
from mmie_tasks.hub.pinned_file import RetryPolicy
from mmie_tasks.quality.judge_exam import mmrb2, opening
from mmie_tasks.quality.judge_exam.grade import grade_judge
from mmie_tasks.quality.judge_exam.judgement_file import read_judgements
from mmie_tasks.quality.judge_exam.verdict_set import Judgement, NoVerdict, Pair, VerdictSet

ONCE = RetryPolicy(tries=1, timeout_s=60.0)
CONTENT = json.dumps(OPENING_ROWS).encode()
FIRST = "1502046 / Red / Green"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    with serving() as file_server:
        yield file_server


def readable(verdict_set: VerdictSet) -> Pair:
    """The first pair, its files by name."""

    def names(segments: tuple[str | Path, ...]) -> tuple[str | Path, ...]:
        return tuple(segment.name if isinstance(segment, Path) else segment for segment in segments)

    pair = verdict_set.pairs[0]
    a, b = pair.answers
    return replace(pair, question=names(pair.question), answers=(names(a), names(b)))


# OpenING


def download(server: Server, cache: Path, content: bytes = CONTENT) -> VerdictSet:
    pin = replace(
        opening.OPENING_VERDICTS,
        url=f"{server.url}/verdicts",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    return opening.load_opening(None, {"MMIE_TASKS_CACHE": str(cache)}, pin, ONCE)


def test_opening_is_downloaded_once_and_has_verdicts_only(server: Server, tmp_path: Path) -> None:
    server.gives(sends(CONTENT))
    first, second = (download(server, tmp_path) for _ in range(2))
    assert first == second
    assert server.paths == ["/verdicts"]
    assert [path.name for path in tmp_path.rglob("*.json")] == ["judge_modelAB_results.json"]
    assert (len(first.pairs), first.has_answers, first.both_orders) == (3, False, False)
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
        votes=(),
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


@pytest.mark.parametrize("name", ["opening", "mmrb2"])
def test_a_folder_without_the_file_is_missing_data_with_the_layout_in_the_hint(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(
        DataMissing, match=r"cannot be read(.|\n)*hint: name a folder with `[\w/]+\.json`"
    ):
        (opening.load_opening if name == "opening" else mmrb2.load_mmrb2)(tmp_path, {})


def test_the_source_of_a_local_file_says_whether_it_is_the_published_one(tmp_path: Path) -> None:
    path = write_json(tmp_path / "verdicts.json", OPENING_ROWS)
    pin = replace(opening.OPENING_VERDICTS, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    assert (
        opening.load_opening(path, {}, pin).source
        == f"`{path}` (SHA-256 {pin.sha256[:12]}…, the published file)"
    )
    assert opening.load_opening(path, {}).source.endswith("…, not the published file)")


# MMRB2


def test_mmrb2_verdicts_are_the_published_ones_whatever_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [mmrb2_row(1), mmrb2_row(2)]
    loaded = mmrb2.load_mmrb2(mmrb2_file(tmp_path, rows), {})
    assert loaded.source.endswith(" (not the published verdicts)")
    monkeypatch.setattr(mmrb2, "MMRB2_VERDICTS_SHA256", mmrb2.verdicts_sha256(loaded.pairs))
    assert mmrb2.load_mmrb2(mmrb2_file(tmp_path, rows[::-1]), {}).source.endswith(
        " (the published verdicts)"
    )
    rows[0]["chosen"] = "A" if rows[0]["chosen"] == "B" else "B"
    assert mmrb2.load_mmrb2(mmrb2_file(tmp_path, rows), {}).source.endswith(
        " (not the published verdicts)"
    )


def test_mmrb2_verdicts_have_votes_texts_and_numbers_of_images(tmp_path: Path) -> None:
    verdict_set = mmrb2.load_mmrb2(mmrb2_file(tmp_path, [mmrb2_row(1)]), {})
    assert verdict_set.has_answers is False
    assert verdict_set.both_orders is True
    assert verdict_set.missing_answers == 0
    assert verdict_set.licence.startswith("CC BY-NC 4.0")
    assert verdict_set.pairs == (
        Pair(
            id="pair-1",
            sample="isgbench/HowTo/1",
            subset="isgbench",
            winner="A",
            is_tie=False,
            votes=("B", "A", "A"),
            models=("red", "green"),
            question=(),
            answers=((" First. ",), ("One.",)),
            images=(2, 1),
        ),
    )
    assert mmrb2.load_mmrb2(tmp_path / MMRB2_FILE, {}) == verdict_set


@pytest.mark.parametrize(("field", "value"), [pytest.param("chosen", "C", id="another-side")])
def test_mmrb2_fields_of_another_type_are_broken_data(
    tmp_path: Path, field: str, value: object
) -> None:
    folder = mmrb2_file(tmp_path, [mmrb2_row(1), mmrb2_row(2, **{field: value})])
    with pytest.raises(DataBroken, match=rf"`pairs\.1\.{field}"):
        mmrb2.load_mmrb2(folder, {})


def test_a_folder_that_the_official_script_has_built_has_answers(
    tmp_path: Path, logs: list[str]
) -> None:
    folder = built_mmrb2_folder(tmp_path, [mmrb2_row(1), mmrb2_row(2)])
    verdict_set = mmrb2.load_mmrb2(folder, {})
    assert (verdict_set.has_answers, verdict_set.missing_answers, logs) == (True, 0, [])
    pair = readable(verdict_set)
    assert pair.question == ("q.png", "Go on.")
    assert pair.answers == (("1_a0.jpg", " First. ", "1_a1.jpg"), ("One.", "1_b0.jpg"))
    (folder / "images/1_b0.jpg").unlink()
    verdict_set = mmrb2.load_mmrb2(folder, {})
    assert ([pair.id for pair in verdict_set.pairs], verdict_set.missing_answers) == (["pair-2"], 1)


# Verdicts of judges


@pytest.fixture
def people(tmp_path: Path) -> VerdictSet:
    return opening.load_opening(write_json(tmp_path / "people.json", OPENING_ROWS), {})


@pytest.fixture
def experts(tmp_path: Path) -> VerdictSet:
    return mmrb2.load_mmrb2(mmrb2_file(tmp_path, [mmrb2_row(number) for number in range(3)]), {})


def judged(verdict_set: VerdictSet, folder: Path, content: object) -> tuple[Judgement, ...]:
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


def test_of_mmrb2_the_first_entry_of_each_order_counts(experts: VerdictSet, tmp_path: Path) -> None:
    a, b, none, empty, tie = (
        {"judgement": text, "evaluator": "x"} for text in ("A", "B", None, "", "Tie(A)")
    )
    content = {
        "pair-0": {"forward": [a, b], "reverse": [b, a]},
        "pair-1": {"forward": [empty, a], "reverse": [a], "extra": 3},
        "pair-2": {"forward": [none], "reverse": [tie]},
    }
    judgements = judged(experts, tmp_path, content)
    assert [
        (judgement.pair[-1], judgement.is_reversed, judgement.a_wins) for judgement in judgements
    ] == [
        *(("0", False, 1), ("0", True, 1)),
        *(("1", False, None), ("1", True, 0)),
        *(("2", False, None), ("2", True, 0.5)),
    ]
    # as its own script counts: 4 verdicts, of which the tie is wrong
    winners = [pair.winner for pair in experts.pairs]
    right = [winners[0] == "A", winners[0] == "A", winners[1] == "B", False]
    assert grade_judge(experts, judgements).agreement.value == 100 * sum(right) / 4


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
