"""``mmie-tasks judge-exam --stress`` with judges on a loopback server that look at known parts of
an answer.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import stress_runs as planted
from support.judge_server import JudgeServer, error
from support.logged_runs import milebench_lines, write_run
from support.mia_judge import prompt_of

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.registry import parse_choice
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.quality.judge_exam.command import run
from mmie_tasks.quality.judge_exam.stress import stress_test
from mmie_tasks.record.log_files import SampleLog
from mmie_tasks.runs.run import read_task

FAIR = {
    "images_shuffled": "notices",
    "images_removed": "notices",
    "images_replaced": "notices",
    "text_replaced": "notices",
    "steps_reversed": "notices",
    "emptied": "notices",
    "images_reencoded": "unmoved",
    "images_resized": "unmoved",
    "whitespace": "unmoved",
    "again": "for comparison",
}
NOT = "does not notice"
DROPS = tuple(name for name, finding in FAIR.items() if finding == "notices")
Stress = Callable[..., Any]


@pytest.fixture(scope="module")
def mmie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mmie")
    write_run(folder, "mmie", planted.mmie_run(folder / "pictures", 22))
    return folder


@pytest.fixture(scope="module")
def mia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mia")
    write_run(folder, "mia_bench", planted.mia_run(folder / "pictures", 22))
    return folder


@pytest.fixture
def stress(server: JudgeServer, tmp_path: Path) -> Stress:
    server.says(planted.mmie_judge(planted.right_at_their_places))

    def output(folder: Path, *options: str, judge_args: str = "price=2.5/10") -> str | int:
        judge = ["openai:judge-model", "--judge_args", f"base_url={server.url},{judge_args}"]
        return run(
            [*judge, "--stress", str(folder), *options],
            {"MMIE_TASKS_CACHE": str(tmp_path / "cache")},
        )

    return output


def rows(output: str) -> dict[str, dict[str, Any]]:
    return {effect["name"]: effect for effect in json.loads(output)["effects"]}


def findings(output: str) -> dict[str, str]:
    return {name: effect["finding"] for name, effect in rows(output).items()}


@pytest.mark.parametrize(
    ("judge", "convicted"),
    [
        pytest.param(planted.right_at_their_places, {}, id="fair"),
        pytest.param(planted.constant, dict.fromkeys(DROPS, NOT), id="constant"),
        pytest.param(
            planted.right_words,
            {"images_shuffled": NOT, "images_removed": NOT, "images_replaced": NOT},
            id="text-only",
        ),
        pytest.param(
            planted.right_words_beside_pictures,
            {"images_shuffled": NOT, "images_replaced": NOT},
            id="image-blind",
        ),
        pytest.param(
            planted.right_in_any_order,
            {"images_shuffled": NOT, "steps_reversed": NOT},
            id="order-blind",
        ),
        pytest.param(
            planted.more_pictures,
            {
                "images_shuffled": NOT,
                "images_replaced": NOT,
                "text_replaced": NOT,
                "steps_reversed": NOT,
            },
            id="more-pictures",
        ),
        pytest.param(
            planted.brevity,
            {
                "images_shuffled": NOT,
                "images_removed": "rewards it",
                "images_replaced": NOT,
                "text_replaced": NOT,
                "steps_reversed": NOT,
                "emptied": "rewards it",
            },
            id="shorter-is-better",
        ),
        pytest.param(
            planted.copies_are_worse,
            {"images_reencoded": "moved", "images_resized": "moved"},
            id="copies-are-worse",
        ),
    ],
)
def test_a_judge_is_convicted_by_exactly_the_changes_that_it_does_not_see(
    stress: Stress,
    server: JudgeServer,
    mmie: Path,
    judge: Callable[..., int],
    convicted: Mapping[str, str],
) -> None:
    server.says(planted.mmie_judge(judge))
    assert findings(stress(mmie, "--json", "--limit", "12")) == {**FAIR, **convicted}


@pytest.mark.parametrize(
    ("judge", "convicted"),
    [
        pytest.param(planted.right_with_picture, {}, id="fair"),
        pytest.param(planted.right_words, {"images_replaced": NOT}, id="text-only"),
    ],
)
def test_where_answers_have_no_images_the_questions_image_is_changed(
    stress: Stress,
    server: JudgeServer,
    mia: Path,
    judge: Callable[..., int],
    convicted: Mapping[str, str],
) -> None:
    server.says(planted.mia_judge(judge))
    output = stress(mia, "--json", "--limit", "12")
    fair = {
        name: finding
        for name, finding in FAIR.items()
        if name not in ("images_shuffled", "images_removed")
    }
    assert findings(output) == {**fair, **convicted}
    assert rows(output)["images_replaced"]["title"] == "question's images of another sample"
    prompts = {prompt_of(body) for body in server.asked}
    assert (
        len(prompts) == 12 * 5
    )  # images change no words: unchanged, other text, reversed, empty, white space


def test_the_planted_size_is_inside_the_interval_and_a_larger_limit_asks_only_what_is_missing(
    stress: Stress, server: JudgeServer, tmp_path: Path
) -> None:
    write_run(tmp_path / "run", "mmie", planted.mmie_run(tmp_path / "pictures", 40))
    few = rows(stress(tmp_path / "run", "--json", "--limit", "20"))
    assert len(server) == 220
    sizes = {"images_shuffled": -2.7, "images_removed": -4.1, "steps_reversed": -5, "emptied": -5}
    for name, size in sizes.items():
        low, high = few[name]["interval"]
        assert low < size < high
        assert low < high
    more = rows(stress(tmp_path / "run", "--json"))
    assert len(server) == 440
    assert {name: more[name]["mean_change"] for name in sizes} == pytest.approx(sizes)


def test_without_images_the_judge_sees_no_text_that_was_cut_before(
    stress: Stress, server: JudgeServer, tmp_path: Path
) -> None:
    lines = []
    for line in planted.mmie_run(tmp_path / "pictures", 5):
        line["coverage"]["answer"].append({"text": "w0a and a cut end.", "image": None})
        lines.append(line)
    write_run(tmp_path / "run", "mmie", lines)
    stress(tmp_path / "run", "--json")
    assert len(server)
    texts = [json.dumps(body) for body in server.asked]
    with_end = [text for text in texts if "a cut end" in text]
    # in reverse order it comes first, and text of another answer is whole
    assert len(with_end) == 10


def test_replies_without_points_are_counted_by_reason_and_move_nothing(
    stress: Stress, server: JudgeServer, mmie: Path
) -> None:
    fair = planted.mmie_judge(planted.right_at_their_places)
    server.says(
        lambda body: (
            fair(body)
            if planted.plain(planted.seen(body)[1])
            else error(400, code="content_filter")
        )
    )
    output = json.loads(stress(mmie, "--json", "--limit", "4"))
    empty = next(effect for effect in output["effects"] if effect["name"] == "emptied")
    assert (empty["n"], empty["mean_change"], empty["without_points"]) == (0, None, {"refused": 4})
    assert empty["finding"] == "too few"
    assert "- Without points: empty answer: refused (4)." in stress(mmie, "--limit", "4")


def test_a_broken_image_leaves_its_sample_out_of_the_changes_that_need_it(
    stress: Stress, server: JudgeServer, tmp_path: Path
) -> None:
    write_run(tmp_path / "run", "mmie", planted.mmie_run(tmp_path / "pictures", 13))
    (tmp_path / "pictures" / "4-1.png").write_bytes(b"no image")
    (tmp_path / "pictures" / "6-2.png").unlink()
    output = json.loads(stress(tmp_path / "run", "--json"))
    assert output["unchanged_without_points"] == {"bad_image": 2}
    counts = {
        effect["name"]: (effect["n"], effect["without_points"]) for effect in output["effects"]
    }
    assert counts["images_removed"] == (11, {})
    replaced, reasons = counts["images_replaced"]
    assert 0 < reasons["bad_image"] == 11 - replaced
    assert not any("no image" in json.dumps(body) for body in server.asked)


def test_the_number_of_requests_is_printed_before_and_cost_and_signatures_behind(
    stress: Stress, mmie: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = stress(mmie, "--limit", "20")
    assert (
        "20 samples of 22 of mmie, 9 changes, and once more without: 220 requests at most;"
        in capsys.readouterr().err
    )
    assert "- Unchanged answers: 20 of 20 have points, " in output
    assert "- 220 requests. Per 1,000 replies: US dollars 0.35, seconds " in output
    assert (
        "\njudge: judge:openai|model:judge-model|t:0|host:127.0.0.1\nexam: "
        "stress:changes-2|task:mmie|" in output
    )
    assert re.search(
        r"\| images shuffled +\| +20 \| +-\d\.\d\d \[-\d\.\d\d, -\d\.\d\d\] \|.*notices \|\n",
        output,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            ["--stress", "RULE"],
            "`milebench` is scored by rule: there is no judge to test",
            id="by-rule",
        ),
        pytest.param(
            ["--stress", "BOTH"], "several judged tasks: `mia_bench`, `mmie`", id="several-tasks"
        ),
    ],
)
def test_bad_input_is_an_error_with_a_hint_before_any_request(
    server: JudgeServer, tmp_path: Path, options: list[str], message: str
) -> None:
    write_run(tmp_path / "RULE", "milebench", milebench_lines(1))
    write_run(tmp_path / "BOTH", "mmie", planted.mmie_run(tmp_path / "pictures", 2))
    write_run(tmp_path / "BOTH", "mia_bench", planted.mia_run(tmp_path / "pictures", 2))
    paths = [str(tmp_path / option) if option.isupper() else option for option in options]
    with pytest.raises(MmieTasksError, match=rf"{message}[\s\S]*hint: "):
        run(
            [f"openai:m,base_url={server.url}", *paths],
            {"MMIE_TASKS_CACHE": str(tmp_path / "cache")},
        )
    assert not len(server)


def test_a_benchmark_of_another_package_is_tested_and_replies_of_its_run_are_not_asked_again(
    server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Path(__file__).parents[3] / "examples" / "own_judged_benchmark"
    monkeypatch.syspath_prepend(example)
    captions = importlib.import_module("captions.benchmark")
    server.says("Right.\nScore: 4")
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MMIE_TASKS_SYNC", "1")
    judge = f"openai:judge-model,base_url={server.url}"
    monkeypatch.setenv("MMIE_TASKS_JUDGE", judge)
    docs = json.loads((example / "captions/task_yamls/captions/samples.json").read_text())
    answers = json.loads((example / "answers.json").read_text())
    lines = [
        {
            **captions.process_results(doc, [answers[doc["id"]]]),
            "input": "<image>",
            "filtered_resps": answers[doc["id"]],
        }
        for doc in docs
    ]
    assert len(server) == 6
    log = write_run(tmp_path / "run", "captions", lines)
    task_run = read_task(SampleLog(path=log, date="", task="captions"), captions.BENCHMARK)
    assert task_run is not None
    environment = {"MMIE_TASKS_CACHE": str(tmp_path / "cache")}
    shared = JudgingSession(environment=environment).open(parse_choice(judge, "test"))
    result = stress_test(shared, task_run, 100, tmp_path)
    assert len(server) == result.requests
    not_applicable = {
        effect.name: effect.not_applicable for effect in result.effects if effect.not_applicable
    }
    assert not_applicable == {"steps_reversed": 6}
    assert {effect.n for effect in result.effects} == {0, 6}
