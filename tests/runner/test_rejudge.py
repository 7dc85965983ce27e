"""What `mmie-tasks rejudge` refuses before an evaluation begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support.logged_runs import DATE, Line, milebench_lines, mmie_lines, write_run

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
