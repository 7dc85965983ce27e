"""Judges with a planted fault sit the exam: the fault's planted size lies in the interval, and a
fair judge passes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from support.judge_server import JudgeServer
from support.mmie_judge import gives
from support.opening_folder import (
    ALWAYS_FIRST,
    FAIR,
    MORE_PICTURES,
    JudgeFunction,
    judge_by,
    points_by,
    right_in,
    write_opening,
)

from mmie_tasks.quality.judge_exam.command import run

Quality = Literal["text", "pictures"]
FAIR_POINTS = points_by(lambda answer: answer.quality)


@dataclass(frozen=True)
class Planted:
    """A judge, where the quality of the answers is, planted shares and leanings in percent by
    name, and what it favours.
    """

    method: Literal["compare", "mmie"]
    judge: JudgeFunction | str
    shares: dict[str, float]
    quality_in: Quality = "text"
    unlike: dict[str, float] = field(default_factory=dict)
    leanings: tuple[str, ...] = ()


CASES = {
    "compare-fair": Planted(
        "compare", FAIR, {"agreement": 100, "flips": 0, "undecided": 0, "first_answer": 50}
    ),
    "compare-fair-on-pictures": Planted("compare", FAIR, {"agreement": 100}, "pictures"),
    "compare-constant": Planted(
        "compare", "Verdict: undecided", {"agreement": 50, "undecided": 100}
    ),
    "compare-first-answer": Planted(
        "compare",
        ALWAYS_FIRST,
        {"agreement": 50, "first_answer": 100, "flips": 100},
        leanings=("follows order: first",),
    ),
    "compare-more-pictures": Planted(
        "compare",
        MORE_PICTURES,
        {"agreement": 50, "more_images": 100},
        leanings=("prefers more pictures",),
    ),
    "compare-longer-text": Planted(
        "compare",
        judge_by(lambda answer: len(answer.text)),
        {"agreement": 50, "longer_text": 100, "more_images": 0},
        leanings=("prefers longer answers",),
    ),
    "compare-image-blind": Planted(
        "compare",
        judge_by(lambda answer: answer.quality_of_text),
        {"agreement": 50, "undecided": 100},
        "pictures",
    ),
    "compare-right-on-80-percent": Planted(
        "compare", right_in(0.8, FAIR), {"agreement": 80}, unlike={"agreement": 100}
    ),
    "points-fair": Planted(
        "mmie", FAIR_POINTS, {"agreement": 100, "undecided": 0, "more_images": 0}
    ),
    "points-fair-on-pictures": Planted("mmie", FAIR_POINTS, {"agreement": 100}, "pictures"),
    "points-constant": Planted("mmie", gives(4), {"agreement": 50, "undecided": 100}),
    "points-more-pictures": Planted(
        "mmie",
        points_by(lambda answer: len(answer.pictures)),
        {"agreement": 50, "more_images": 100},
        leanings=("prefers more pictures",),
    ),
    "points-longer-text": Planted(
        "mmie",
        points_by(lambda answer: 5 if "more words" in answer.text else 2),
        {"agreement": 50, "longer_text": 100, "more_images": 0},
        leanings=("prefers longer answers",),
    ),
    "points-image-blind": Planted(
        "mmie",
        points_by(lambda answer: answer.quality_of_text),
        {"agreement": 50, "undecided": 100},
        "pictures",
    ),
    "points-right-on-80-percent": Planted(
        "mmie", right_in(0.8, FAIR_POINTS), {"agreement": 80}, unlike={"agreement": 100}
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Quality, Path]:
    root = tmp_path_factory.mktemp("opening")
    return {
        "text": write_opening(root / "text", samples=36),
        "pictures": write_opening(
            root / "pictures", samples=36, quality_in="pictures", fewest_pictures=1
        ),
    }


@pytest.mark.parametrize("planted", CASES.values(), ids=CASES)
def test_a_planted_fault_lies_in_the_interval_and_a_fair_judge_passes(
    planted: Planted,
    server: JudgeServer,
    folders: dict[Quality, Path],
    environment: dict[str, str],
    judge_words: str,
) -> None:
    server.says(planted.judge)
    judge = f"openai:judge-model,base_url={server.url}"
    pairs = ["--folder", str(folders[planted.quality_in])]
    if planted.method == "mmie":
        pairs += ["--judge_args", f"prompts={judge_words}"]
    output = run([judge, *pairs, "--method", planted.method, "--json"], environment)
    assert isinstance(output, str)
    grade: dict[str, Any] = json.loads(output)["grade"]
    assert grade["coverage"] == 100
    for name, percent in planted.shares.items():
        low, high = grade[name]["interval"]
        assert low <= percent <= high, (name, grade[name])
        assert high - low < 80, (name, grade[name])
    assert tuple(grade["leanings"]) == planted.leanings
    for name, percent in planted.unlike.items():
        low, high = grade[name]["interval"]
        assert not low <= percent <= high, (name, grade[name])
