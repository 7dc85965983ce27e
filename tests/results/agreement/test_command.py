"""``mmie-tasks agreement`` on logs as the runner writes them."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.panels import judged, mmie_line

from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK as OPENING
from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.results.agreement.command import run
from mmie_tasks.results.agreement.measures import MEASURES
from mmie_tasks.results.labels import read_labels

GPT = "judge:openai|model:gpt-4o-2024-11-20"
OURS = "judge:mmie_score|model:mmie-eval"


def agreement(*words, **options):
    named = [f"--{name}={value}" for name, value in options.items()]
    return run([*map(str, words), *named], {})


def as_json(*words, **options):
    return json.loads(agreement(*words, "--json", **options))


def points_of(line):
    return line["record"]["official"].get("points")


def people(path, scores, header="id,score"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in scores)]))
    return path


@pytest.fixture
def judges(tmp_path):
    """Two judges of the same answers."""
    for name, judge in (("a", GPT), ("b", OURS)):
        write_run(tmp_path / name / "model", "mmie", mmie_lines(60, judge=judge, unscored=0.1))
    return [tmp_path / "a", tmp_path / "b"]


def test_two_judges_have_every_measure_with_its_interval(judges):
    output = as_json(*judges)
    [pair] = output["with_reference"]
    assert pair["reference"] == "model by gpt-4o-2024-11-20"
    assert pair["judge"] == "model by mmie-eval"
    assert set(pair["measures"]) == set(MEASURES)
    ends = [(*m["interval"], m["value"]) for m in pair["measures"].values()]
    assert all(low <= value <= high for low, high, value in ends)
    assert sum(map(sum, pair["confusion"])) == pair["samples"]


def test_unscored_samples_are_counted_and_never_compared(judges):
    output = as_json(*judges)
    lines = [list(mmie_lines(60, judge=judge, unscored=0.1)) for judge in (GPT, OURS)]
    scored = [[points_of(line) is not None for line in log] for log in lines]
    for rater, flags in zip(output["raters"], scored, strict=True):
        assert rater["with_points"] == sum(flags)
        assert rater["unscored"] == {"unparsed": 60 - sum(flags)}
    scored_by_both = sum(map(all, zip(*scored, strict=True)))
    assert output["with_reference"][0]["samples"] == scored_by_both < min(map(sum, scored))


def test_the_papers_table_comes_first_and_the_signatures_last(judges):
    text = agreement(*judges)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert "the paper's table" in headings[0]
    assert headings[-1] == "## Signatures"
    assert f"`{OURS}|paper_judge:no|prompt" in text.splitlines()[-1]
    assert "| cosine" in re.sub(" +", " ", text)


def test_the_mean_of_several_people_is_the_reference(judges, tmp_path):
    scores = [("SA-0", 2, "ann"), ("SA-0", 5, "bob"), ("SA-3", 4, "bob"), ("PBL-1", 1, "ann")]
    csv = people(tmp_path / "crowd.csv", [*scores, ("absent", 3, "ann")], "id,score,rater")
    output = as_json(*judges, csv)
    assert output["reference"] == "mean of crowd"
    assert output["means"] == {"mean of crowd": ["ann", "bob"]}
    assert output["samples"]["in_one_only"] == 1
    assert [alpha["raters"] for alpha in output["alphas"]] == ["all 4 raters", "people", "judges"]
    rows = map(sum, output["with_reference"][0]["confusion"])
    assert [*rows] == [0, 1, 0, 0, 2, 0, 0]  # 1, 4, and 3.5 rounded to the even number


def test_a_rater_can_be_named_and_be_the_reference(judges, tmp_path):
    csv = people(tmp_path / "crowd.csv", [("SA-0", 2), ("SA-3", 5)])
    output = as_json(f"x={judges[0]}", f"y={judges[1]}", f"people={csv}", reference="y")
    assert [(p["judge"], p["reference"]) for p in output["with_reference"]] == [
        ("x", "y"),
        ("people", "y"),
    ]
    assert [(p["judge"], p["reference"]) for p in output["other_pairs"]] == [("x", "people")]


def test_a_judge_agrees_perfectly_with_itself(judges):
    output = as_json(judges[0], judges[0])
    assert [rater["name"] for rater in output["raters"]] == ["model (1)", "model (2)"]
    [pair] = output["with_reference"]
    assert (pair["measures"]["kappa"]["value"], pair["measures"]["mae"]["value"]) == (1, 0)
    assert output["disputed"] == []


def test_samples_with_other_answers_are_left_out_and_counted(judges, tmp_path):
    lines = list(mmie_lines(60, judge=OURS))
    of_model_b = list(mmie_lines(60, judge=OURS, answers="model-b"))
    write_run(tmp_path / "mixed" / "model", "mmie", [*lines[:20], *of_model_b[20:]])
    output = as_json(judges[0], tmp_path / "mixed")
    assert output["samples"]["other_answers"] == 40
    assert output["samples"]["compared"] == 20
    assert "40 samples left out: the judges" in agreement(judges[0], tmp_path / "mixed")


def test_judges_of_two_models_are_not_compared(judges, tmp_path):
    write_run(tmp_path / "c" / "model", "mmie", mmie_lines(60, answers="model-b"))
    with pytest.raises(
        AnswersUnusable, match=r"(?s)judged on different answers.*mmie-tasks compare"
    ):
        agreement(judges[0], tmp_path / "c")


def test_the_folder_an_answers_image_was_saved_in_does_not_matter(tmp_path):
    for name, image in (("a", "/one/x.png"), ("b", "/two/x.png"), ("c", "/one/y.png")):
        write_run(tmp_path / name / name, "mmie", mmie_lines(9, image=image, unscored=0))
    assert as_json(tmp_path / "a", tmp_path / "b")["samples"]["compared"] == 9
    with pytest.raises(AnswersUnusable, match="different answers"):
        agreement(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(("x.png", "1"), ("x.png", "2"), False, id="overwritten"),
        pytest.param(("x.png", "1"), ("y.png", "1"), True, id="renamed"),
        pytest.param(("x.png", ""), ("x.png", "2"), True, id="one-unknown"),
        pytest.param(("x.png", ""), ("y.png", "2"), False, id="one-unknown-and-renamed"),
    ],
)
def test_images_of_answers_are_compared_by_their_content_if_it_is_known(
    tmp_path, one, other, is_same
):
    for name, (image, sha256) in (("a", one), ("b", other)):
        lines = list(mmie_lines(9, unscored=0))
        for line in lines[:4]:
            images = [{"image": "gone.png", "problem": "missing"}]
            images += [{"image": image, "sha256": sha256}]
            line["record"]["answer"] = [{"text": "Both."}, *images]
        write_run(tmp_path / name / name, "mmie", lines)
    counts = as_json(tmp_path / "a", tmp_path / "b")["samples"]
    assert (counts["compared"], counts["other_answers"]) == ((9, 0) if is_same else (5, 4))


def test_the_most_disputed_samples_come_first(tmp_path):
    lines = list(mmie_lines(30, judge=GPT, unscored=0))
    judge = {line["record"]["id"]: points_of(line) for line in lines}
    crowd = {id_: 6 * (points < 3) for id_, points in judge.items()}
    csv = people(tmp_path / "crowd.csv", crowd.items())
    write_run(tmp_path / "c" / "model", "mmie", lines)
    output = as_json(tmp_path / "c", csv, top=30)
    far = sorted((-abs(judge[id_] - crowd[id_]), id_) for id_ in judge)
    assert [(-row["spread"], row["id"]) for row in output["disputed"]] == far
    assert "disagree on most" not in agreement(tmp_path / "c", csv, top=0)


def test_agreement_is_listed_for_each_category(judges):
    output = as_json(*judges)
    by_category = {g["group"]: g for g in output["group_pairs"] if g["kind"] == "category"}
    assert set(by_category) == {"SA", "PBL", "MSR"}
    total = output["with_reference"][0]["samples"]
    assert sum(group["samples"] for group in by_category.values()) == total


def test_a_benchmark_without_whole_points_has_a_reason_for_no_kappa(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name / name, "mia_bench", mia_lines(40, judge=f"judge:{name}"))
    text = agreement(tmp_path / "a", tmp_path / "b")
    assert "n/a, points on this scale are not whole numbers: quadratic kappa" in text
    assert "(across)" not in text


@pytest.mark.parametrize("count", [1, 2])
def test_very_few_samples_give_no_nan(tmp_path, count):
    for name, judge in (("a", GPT), ("b", OURS)):
        write_run(tmp_path / name / name, "mmie", mmie_lines(count, judge=judge, unscored=0))
    assert "nan" not in agreement(tmp_path / "a", tmp_path / "b").lower()


def test_a_constant_judge_has_a_distance_but_no_correlation(judges, tmp_path):
    lines = [line["record"]["id"] for line in mmie_lines(60)]
    csv = people(tmp_path / "flat.csv", [(id_, 3) for id_ in lines])
    measures = as_json(judges[0], csv)["with_reference"][0]["measures"]
    assert measures["pearson"]["value"] is None
    assert "the same points" in measures["spearman"]["why_not"]
    assert measures["mae"]["value"] > 0


def test_judges_without_a_common_score_are_an_error(tmp_path):
    for name, unscored in (("a", 1.0), ("b", 0.0)):
        lines = mmie_lines(6, judge=f"judge:{name}", unscored=unscored)
        write_run(tmp_path / name / name, "mmie", lines)
    with pytest.raises(AnswersUnusable, match=r"a has 0 \(6 unparsed\); b has 6"):
        agreement(tmp_path / "a", tmp_path / "b")


def test_one_of_several_tasks_is_chosen_by_name(tmp_path):
    for name in ("a", "b"):
        write_run(tmp_path / name / name, "mmie", mmie_lines(9, judge=f"judge:{name}"))
        write_run(tmp_path / name / name, "milebench", islice(milebench_lines(1), 29))
    runs = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(SettingWrong, match=r"(?s)2 tasks in common.* milebench, mmie.*--task"):
        agreement(*runs)
    assert as_json(*runs, task="milebench")["with_reference"][0]["samples"] == 29


def test_a_part_of_a_benchmark_is_compared_with_all_of_it(judges, tmp_path):
    lines = [line for line in mmie_lines(60, judge=OURS) if line["record"]["id"][:2] == "SA"]
    write_run(tmp_path / "part" / "model", "mmie_sa", lines)
    output = as_json(judges[0], tmp_path / "part")
    assert (output["samples"]["compared"], output["samples"]["in_one_only"]) == (20, 40)


def test_people_alone_can_be_compared_where_the_task_is_named(tmp_path):
    rows = [("a", 1, "ann"), ("a", 2, "bob"), ("b", 5, "ann"), ("b", 5, "bob")]
    csv = people(tmp_path / "crowd.csv", rows, "id,score,rater")
    output = as_json(csv, task="mmie")
    assert (output["reference"], output["with_reference"][0]["samples"]) == ("ann", 2)
    with pytest.raises(SettingWrong, match=r"add `--task`"):
        agreement(csv)


@pytest.mark.usefixtures("judges")
@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        pytest.param(["a"], {}, "two raters or more", id="alone"),
        pytest.param(["a", "absent"], {}, "absent` does not exist", id="no-run"),
        pytest.param(["a", "b"], {"reference": "unnamed"}, "none of the raters", id="reference"),
        pytest.param(["a", "b"], {"reference": "model"}, "none of the raters", id="two-models"),
        pytest.param(["a", "other.csv"], {}, "No sample is in two", id="other-ids"),
    ],
)
def test_an_invalid_request_is_an_error(tmp_path, words, options, message):
    people(tmp_path / "other.csv", [("1", 2), ("2", 3)])
    with pytest.raises(MmieTasksError, match=message):
        agreement(*(tmp_path / word for word in words), **options)


def test_an_id_cannot_control_a_terminal(tmp_path):
    rows = [("\x1b[2Ja", 1, "ann"), ("\x1b[2Ja", 4, "bob"), ("b|c", 2, "ann"), ("b|c", 5, "bob")]
    text = agreement(people(tmp_path / "x.csv", rows, "id,score,rater"), task="mmie")
    assert "\x1b" not in text
    assert "b¦c" in text


def test_a_run_of_another_model_is_put_on_the_scale_of_the_reference(judges, tmp_path):
    of_model_b = mmie_lines(60, judge=OURS, answers="model-b", skill=0.7)
    write_run(tmp_path / "c" / "model", "mmie", of_model_b)
    sources = [f"old={judges[0]}", f"new={judges[1]}", f"theirs={tmp_path / 'c'}"]
    for order in (sources, [sources[2], *sources[:2]]):
        output = as_json(*order, reference="old")
        assert [rater["name"] for rater in output["raters"]] == ["old", "new"]
        [bridge] = output["bridges"]
        assert (bridge["judge"], bridge["reference"]) == ("new", "old")
        assert bridge["samples"] == output["with_reference"][0]["samples"]
        assert [run["run"] for run in bridge["translations"]] == ["new", "theirs"]
    bias = output["with_reference"][0]["measures"]["bias"]["value"]
    assert bridge["difference"]["value"] == pytest.approx(bias * 100 / 6)
    text = agreement(*sources)
    assert f"On these {bridge['samples']} answers new gives the score of old" in text
    assert "That holds for answers like these." in text
    assert re.search(r"\| theirs +\| +\d+ \| +\d\d\.\d\d \| \d\d\.\d\d \[", text)


def test_people_may_be_the_reference_of_a_run_of_another_model(judges, tmp_path):
    lines = list(mmie_lines(60, judge=OURS))
    write_run(tmp_path / "c" / "model", "mmie", mmie_lines(60, judge=OURS, answers="model-b"))
    csv = people(tmp_path / "crowd.csv", [(line["record"]["id"], 3) for line in lines])
    output = as_json(f"b={judges[1]}", f"c={tmp_path / 'c'}", csv)
    [bridge] = output["bridges"]
    assert (bridge["judge"], bridge["reference"]) == ("b", "crowd")
    assert [run["run"] for run in bridge["translations"]] == ["b", "c"]


def test_a_run_without_a_score_is_translated_to_none(judges, tmp_path):
    write_run(tmp_path / "c" / "model", "mmie", mmie_lines(60, judge=OURS, answers="b", unscored=1))
    [bridge] = as_json(*judges, f"c={tmp_path / 'c'}")["bridges"]
    _, run = bridge["translations"]
    assert (run["run"], run["samples"], run["score"]) == ("c", 0, None)
    assert "no sample with points" in run["by_difference"]["why_not"]


def test_a_run_by_a_judge_without_a_bridge_is_an_error(judges, tmp_path):
    other = "judge:openai|model:a-third-one"
    write_run(tmp_path / "c" / "model", "mmie", mmie_lines(60, judge=other, answers="model-b"))
    with pytest.raises(AnswersUnusable, match="different answers"):
        agreement(*judges, tmp_path / "c")


def test_the_page_makes_a_reference_of_published_replies_of_opening(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "judge.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    replies = [
        {
            "data_id": id_,
            "model": {"id": "1", "name": name},
            "score": {"Correctness": {"Score": first}, "Completeness": {"Score": second}},
        }
        for id_, name, first, second in (("0301096", "SEED-X", 3, 6), ("0301096", "GILL", 1, 1))
    ]
    (tmp_path / "Interleaved_Arena").mkdir()
    file = tmp_path / "Interleaved_Arena" / "gpt-score_results.json"
    file.write_text(json.dumps(replies), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # noqa: S102 - of our own page
    [label] = read_labels(tmp_path / "gpt-4o.csv", OPENING.scale)
    assert (label.id, label.points) == ("0301096", 4.5)


@pytest.mark.parametrize("kind", ["official", "robust"])
def test_the_judges_of_a_panel_are_compared_if_its_run_is_the_only_source(tmp_path, kind):
    lines = [
        mmie_line(judged(4, 5, None), "SA-0"),
        mmie_line(judged(2, 3, 3), "SA-1"),
        mmie_line(judged(6, 6, 0), "SA-2"),
    ]
    write_run(tmp_path / "one", "mmie", lines)
    output = as_json(tmp_path / "one", score=kind)
    assert {rater["name"]: rater["mean"] for rater in output["raters"]} == {
        "gpt-4o": 4,
        "gpt-4o-mini": pytest.approx(14 / 3),
        "qwen": 1.5,
    }
    csv = people(tmp_path / "ann.csv", [("SA-0", 4), ("SA-1", 2), ("SA-2", 5)])
    names = [rater["name"] for rater in as_json(tmp_path / "one", csv)["raters"]]
    assert names == ["one", "ann"]
