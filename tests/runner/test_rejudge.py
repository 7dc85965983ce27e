"""What `mmie-tasks rejudge` refuses before an evaluation begins; and without a judge, it reads the
saved replies by today's readers.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.logged_runs import DATE, Line, mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.runner.rejudge import run

JUDGE = ("--judge", "replay")
SETTING = ("--judge_args", "missing_images=count")


def judged(folder: Path, lines: Iterable[Line] = ()) -> None:
    write_run(folder / "m", "mmie", lines or mmie_lines(3), results={})
    saved = {"config": {"limit": None}, "configs": {"mmie": {}}, "results": {"mmie": {}}}
    (folder / "m" / f"{DATE}_results.json").write_text(json.dumps(saved), encoding="utf-8")


def nothing(_folder: Path) -> None:
    """No run."""


def only_results(folder: Path) -> None:
    judged(folder)
    for log in folder.rglob("*.jsonl"):
        log.unlink()


def only_samples(folder: Path) -> None:
    write_run(folder / "m", "mmie", mmie_lines(3))


def by_rule(folder: Path) -> None:
    write_run(folder / "m", "milebench", milebench_lines(1), results={})


@pytest.mark.parametrize(
    ("write", "words", "kind", "named"),
    [
        pytest.param(nothing, JUDGE, AnswersUnusable, "`--log_samples`", id="no-run"),
        pytest.param(only_results, JUDGE, AnswersUnusable, "`--log_samples`", id="no-samples"),
        pytest.param(only_samples, JUDGE, SettingWrong, "_results.json", id="no-results-file"),
        pytest.param(by_rule, JUDGE, SettingWrong, "none", id="scored-by-rule"),
        pytest.param(judged, ("--output_path", "x"), SettingWrong, "`--failed`", id="no-judge"),
        pytest.param(
            judged, (*JUDGE, "--model_args", "path=x"), SettingWrong, "`path`", id="other-answers"
        ),
        pytest.param(judged, SETTING, SettingWrong, "`--failed`", id="only-a-setting"),
        pytest.param(judged, ("--failed",), SettingWrong, "`--judge mmie=JUDGE`", id="unnamed"),
        pytest.param(
            judged, ("--failed", *SETTING), SettingWrong, "`--judge mmie=JUDGE`", id="a-setting"
        ),
        pytest.param(
            judged, ("--judge", "mia_bench=replay"), SettingWrong, "mmie", id="other-benchmark"
        ),
        pytest.param(
            judged,
            ("--failed", "--judge", "openai:other,base_url=http://127.0.0.1:1/v1,cache=off"),
            SettingWrong,
            "model:other",
            id="another-judge",
        ),
    ],
)
def test_what_cannot_be_judged_again_is_named_with_a_hint(
    tmp_path: Path,
    write: Callable[[Path], None],
    words: tuple[str, ...],
    kind: type[MmieTasksError],
    named: str,
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder)
    with pytest.raises(kind) as error:
        run([str(folder), *words], {"OPENAI_API_KEY": "k"})
    assert named in str(error.value)


# The saved replies are read again


def as_logged(lines: Any) -> list[Line]:
    """Lines as they are read from a file."""
    return [json.loads(json.dumps(line)) for line in lines]


LINES = {
    "mmie": as_logged(mmie_lines(12, unscored=0)),
    "mia_bench": as_logged(mia_lines(12)),
    "milebench": as_logged(milebench_lines(2, datasets=("DocVQA", "TQA", "GPR1200"))),
}
WRONG = {"reading": "?", "points": 0}


def read_again(
    folder: Path, capsys: pytest.CaptureFixture[str], task: str, lines: list[Line]
) -> dict[str, list[str]]:
    """The cells of each printed row, by the first two; and the other lines, by their text."""
    write_run(folder, task, lines)
    assert run([str(folder)], {}) == 0
    printed: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        printed[f"{first} {cells[0]}" if cells else first] = cells[1:]
    return printed


@pytest.mark.parametrize("task", LINES)
@pytest.mark.parametrize("kind", ["official", "robust"])
def test_only_a_verdict_that_differs_from_the_log_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, kind: str
) -> None:
    lines = copy.deepcopy(LINES[task])
    printed = read_again(tmp_path, capsys, task, lines)
    assert f"{task}: 0 verdicts changed." in printed
    before, after, difference, *_ = printed[f"{task} official"]
    assert before == after
    assert before == "n/a" or difference == "+0.00"
    number = next(
        n for n, line in enumerate(lines) if line["record"]["verdicts"][kind]["points"] > 0
    )
    sound = lines[number]["record"]
    points = sound["verdicts"][kind]["points"]
    sound["verdicts"][kind] = WRONG
    printed = read_again(tmp_path, capsys, task, lines)
    assert f"{task}: 1 verdict changed." in printed
    old, new = printed[f"{sound['id']} {kind}"]
    assert old.startswith("0 ")
    assert new.split()[0] == f"{points:g}"


def test_a_sample_whose_reply_is_not_in_the_log_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = copy.deepcopy(LINES["mmie"])
    lines[0]["record"]["verdicts"]["official"] = WRONG
    lines[0]["record"]["judgements"][0]["result"] = {}
    printed = read_again(tmp_path, capsys, "mmie", lines)
    assert "mmie: 0 verdicts changed." in printed
    assert any("cannot be read again: the log does not hold" in line for line in printed)
