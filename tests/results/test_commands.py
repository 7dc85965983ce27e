"""Bad input to the commands on results: clear errors, and no invented numbers."""

import json
import re

import pytest
from support.logged_runs import DATE, mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import MmieTasksError

BYPASS = {"doc_id": 0, "target": "", "filtered_resps": "5", "bypass": 999, "input": "?"}


def lines(count=12, **options):
    return list(mmie_lines(count, unscored=0, **options))


def output_of(word, run):
    """What a command prints of a run, and of another one that it needs; or its error."""
    other = {"compare": {"answers": "model-b"}, "agreement": {"judge": "judge:a|model:b"}}
    more = ["-o", run.with_name("report.html")] if word == "report" else []
    if word in other:
        more = [write_run(run.with_name("other"), "mmie", lines(**other[word]))]
    try:
        return str(load_command(word)([*map(str, (run, *more))], {}))
    except MmieTasksError as error:
        return f"error: {error}"


def unscored(logged):
    for line in logged:
        line["record"]["verdicts"]["official"] = {"reason": "unavailable"}
    return logged


@pytest.mark.parametrize("word", ["report", "table", "agreement", "compare"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda logged: logged[:1], id="one-sample"),
        pytest.param(unscored, id="zero-scored"),
        pytest.param(lambda _: lines(30)[20:], id="other-samples-than-the-other"),
    ],
)
def test_missing_scores_are_never_printed_as_nan_or_none(tmp_path, word, change):
    write_run(tmp_path / "run", "mmie", change(lines()))
    output = output_of(word, tmp_path / "run")
    assert not output.startswith("error") or word in ("agreement", "compare")
    cells = " | ".join(cell for line in output.splitlines() for cell in line.split("|")[1:-1])
    assert re.findall(r"\b(?:nan|inf|None)\b", cells, re.IGNORECASE) == []  # notes may quote a log


def test_what_was_left_out_of_a_log_is_a_note(tmp_path):
    log = write_run(tmp_path, "mmie", [*lines(), BYPASS])
    log.write_text(log.read_text(encoding="utf-8") + json.dumps(lines()[0])[:-40])
    (tmp_path / f"{DATE}_results.json").write_text("{", encoding="utf-8")
    output = output_of("table", tmp_path)
    assert "line 14, the last, is cut off" in output
    assert "1 sample never scored" in output


@pytest.mark.parametrize(
    ("made", "task", "message"),
    [
        pytest.param([], "mmie", "no readable task", id="an-empty-log"),
        pytest.param([BYPASS], "mmie", "`--predict_only`", id="predict-only"),
        pytest.param(lines(), "mmmu_val", "registered benchmark, ignored", id="not-our-task"),
    ],
)
def test_a_run_without_scores_is_an_error_that_says_why(tmp_path, made, task, message):
    write_run(tmp_path, task, made)
    output = output_of("table", tmp_path)
    assert output.startswith("error")
    assert message in output


def test_one_of_several_runs_must_be_named_or_all_are_read(tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / "run" / name, "mmie", lines(answers=name))
    assert "contains 2 runs" in output_of("compare", tmp_path / "run")
    output = output_of("table", tmp_path / "run")
    assert ("one" in output, "two" in output) == (True, True)
