"""The script `tests/bench/judge_bias.py` on made-up verdicts in OpenING's format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench import judge_bias

WINNERS = ("A", "B", "Tie(A)", "Tie(B)")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Verdicts on 300 pairs of three models; the judges take people's in three of four."""
    made_up = np.random.default_rng(0)
    arena = tmp_path / "Interleaved_Arena"
    arena.mkdir()
    pairs = [made_up.permutation(["first", "second", "third"])[:2] for _ in range(300)]
    people = made_up.choice(WINNERS, len(pairs)).tolist()
    copied = [winner if made_up.random() < 0.75 else "A" for winner in people]
    for name, winners in {
        judge_bias.PEOPLE: people,
        **dict.fromkeys(judge_bias.JUDGES.values(), copied),
    }.items():
        rows = [
            {
                "data_id": str(number),
                "model_A": {"id": "1", "name": a},
                "model_B": {"id": "2", "name": b},
                "winner": w,
            }
            for number, ((a, b), w) in enumerate(zip(pairs, winners, strict=True))
        ]
        (arena / name).write_text(json.dumps(rows))
    return tmp_path


def test_a_table_per_judge_is_printed_and_the_status_says_that_intervals_hold(folder, capsys):
    assert judge_bias.main([str(folder), "--labels", "50", "--draws", "100"]) == 0
    output = capsys.readouterr().out
    assert output.count("of 300 pairs; 100 draws of 50 labels") == 2
    assert [output.count(f"\n{model} ") for model in ("first", "second", "third", "mean")] == [
        2,
        2,
        2,
        2,
    ]
    assert output.endswith("Corrected intervals hold people's win rate as often as they should.\n")


def test_a_tie_is_half_a_win_for_both_and_pairs_without_both_verdicts_are_left_out():
    people = {("1", "x", "y"): "A", ("2", "y", "x"): "Tie(B)", ("3", "x", "y"): "B"}
    judge = {("1", "x", "y"): "Tie(A)", ("2", "y", "x"): "A", ("4", "x", "y"): "B"}
    x, y = judge_bias.scores_of_models(people, judge, 2)
    assert (x.model, x.judge.tolist(), x.people.tolist()) == ("x", [0, 50], [50, 100])
    assert (y.model, y.judge.tolist(), y.people.tolist()) == ("y", [50, 100], [0, 50])
    assert judge_bias.agreement(people, judge) == 50  # a tie counts for the answer it names


def test_such_intervals_make_the_status_1(folder, capsys, monkeypatch):
    monkeypatch.setattr(judge_bias, "MEAN_COVERAGE", (101, 102))
    assert judge_bias.main([str(folder), "--labels", "20", "--draws", "2"]) == 1
    assert "GPT-4o: the mean coverage is" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param('[{"data_id": "1"}]', "0.model_A: Field required", id="other rows"),
        pytest.param("[]", "has no verdict", id="empty"),
    ],
)
def test_other_files_are_refused_with_what_is_wrong(folder, capsys, content, message):
    path = folder / "Interleaved_Arena" / judge_bias.PEOPLE
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(SystemExit) as exit_info:
        judge_bias.main([str(folder)])
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "hint: " in error
