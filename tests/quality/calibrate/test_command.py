"""``mmie-tasks calibrate`` on logs as the runner writes them."""

from __future__ import annotations

import csv
import json
import re

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.people import human_points

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.quality.calibrate.command import run
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.labels import answer_digest


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, skill in (("a", 0.5), ("b", 0.8)):
        write_run(folder / name, "mmie", mmie_lines(240, unscored=0.05, answers=name, skill=skill))
    return folder


@pytest.fixture
def workplace(runs, tmp_path, monkeypatch):
    """A folder with the runs `a` and `b`, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / name).symlink_to(runs / name)
    return tmp_path


def calibrate(*words):
    return run([str(word) for word in words], {})


def fill_in(path, *runs, rater="ann", rows=None):
    """Score the rows of a plan as `human_points` does, and save them under the rater's name."""
    samples = [sample for name in runs for sample in open_run(name).tasks["mmie"].samples]
    answers = {(sample.id, answer_digest(sample)): sample for sample in samples}
    with path.open(encoding="utf-8") as file:
        planned = list(csv.DictReader(file))
    target = path.with_name(f"{rater}-{path.name}")
    with target.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, planned[0])
        writer.writeheader()
        for row in planned[:rows]:
            points = human_points(answers[row["id"], row["answer"]], rater)
            writer.writerow({**row, "rater": rater, "score": points})
    return target


def test_a_plan_is_a_csv_and_a_page_and_its_scores_correct_the_run(workplace):
    output = calibrate("A=a", "--plan", 60)
    assert "people.csv: 60 answers to score, seed 0 (" in output
    assert re.search(
        r"\d+ samples without points, in neither a plan nor a corrected score: unparsed \(\d+\)",
        output,
    )
    page = (workplace / "people.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "Decide how many of them are scored before you look" in output
    text = calibrate("A=a", "--people", fill_in(workplace / "people.csv", "a"))
    assert "# MMIE (`mmie`), corrected by people: A" in text
    header, _, headline, *strata = [line for line in text.splitlines() if line.startswith("|")]
    titles = [cell.strip() for cell in header.strip("|").split("|")]
    assert titles == ["", "samples", "labels", "judge", "people alone", "corrected", "bias"]
    assert len(strata) == 3
    assert re.search(
        r"\| +60 \| +\d\d\.\d\d \|( +\d\d\.\d\d \[\d\d\.\d\d, \d\d\.\d\d\] \|){2} +\+\d", headline
    )
    assert "This judge makes 60 labels worth about " in text
    assert "One rater: how far people agree" in text
    assert "If the judge fails on bad answers, this is too high." in text
    assert (
        "The intervals are for a larger population; the labels are of a plan with the seed 0."
        in text
    )
    assert "## Problems" not in text
    whole = calibrate("A=a", "--people", workplace / "ann-people.csv", "--population", "run")
    assert "more labels would halve the corrected interval." in whole
    assert "The intervals are for the samples of the run; the labels are of a plan" in whole


def test_a_plan_is_extended_by_the_answers_that_nobody_has_scored(workplace):
    calibrate("a", "--plan", 30, "--seed", 5)
    first = fill_in(workplace / "people.csv", "a", rows=20)
    output = calibrate("a", "--people", first, "--plan", 60, "-o", "more.csv")
    assert "more.csv: 40 answers to score, seed 5" in output
    calibrate("a", "--plan", 60, "--seed", 5, "-o", "whole.csv")
    files = {
        name: (workplace / f"{name}.csv").read_text().splitlines()[1:]
        for name in ("people", "more", "whole")
    }
    assert sorted(files["people"][:20] + files["more"]) == sorted(files["whole"])
    text = calibrate("a", "--people", first, fill_in(workplace / "more.csv", "a"))
    assert "## Problems" not in text
    assert "a plan with the seed 5" in text
    with pytest.raises(SettingWrong, match="have scored all 20 answers of this plan"):
        calibrate("a", "--people", first, "--plan", 20, "-o", "none.csv")


def test_the_hint_of_a_gap_gives_the_missing_answers(workplace):
    calibrate("a", "--plan", 60)
    scores = fill_in(workplace / "people.csv", "a")
    header, *rows = scores.read_text().splitlines()
    scores.write_text("\n".join([header, *rows[2:]]))
    text = " ".join(calibrate("a", "--people", scores).split())
    assert "2 samples have no label, unlike later ones of the plan: " in text
    assert "On the 58 labelled samples, not a random sample: people " in text
    size = re.search(r"--plan (\d+) -o more.csv", text)[1]
    calibrate("a", "--people", scores, "--plan", size, "-o", "more.csv")
    missing = (workplace / "more.csv").read_text()
    assert all(row.split(",")[0] in missing for row in rows[:2])


def test_two_runs_are_compared_for_people_in_a_plain_sentence(workplace):
    assert "answers to score" in calibrate("A=a", "B=b", "--plan", 60)
    scores = fill_in(workplace / "people.csv", "a", "b")
    text = calibrate("A=a", "B=b", "--people", scores)
    assert re.search(
        r"For people, B is better than A: \+\d+\.\d\d \[\+\d+\.\d\d, \+\d+\.\d\d\]\.", text
    )
    assert "For people, A is worse than B: -" in calibrate("B=b", "A=a", "--people", scores)
    few = fill_in(workplace / "people.csv", "a", "b", rows=16, rater="bob")
    assert "It is not known whether B is better than A for people." in calibrate(
        "A=a", "B=b", "--people", few
    )
    calibrate("a", "--plan", 30, "-o", "one.csv")
    of_a = calibrate("A=a", "B=b", "--people", fill_in(workplace / "one.csv", "a"))
    assert "- no sample has the labels that it needs. Hint: " in of_a
    assert "labelled sample" not in of_a
    assert "## Problems" not in calibrate("A=a", "--people", scores)


def test_a_difference_on_which_all_samples_are_labelled_still_has_an_interval(workplace):
    for name, skill in (("c", 0.6), ("d", 0.62)):
        lines = mmie_lines(40, unscored=0, answers=name, skill=skill)
        write_run(workplace / name, "mmie", lines)
    calibrate("C=c", "D=d", "--plan", 40)
    scores = fill_in(workplace / "people.csv", "c", "d")
    text = calibrate("C=c", "D=d", "--people", scores)
    difference = r"[+-]\d+\.\d\d \[-\d+\.\d\d, \+\d+\.\d\d\]"
    assert re.search(rf"It is not known whether D is better than C for people: {difference}", text)
    assert "Differences of the official score in percentage points" in text
    assert "would halve" not in text


def test_runs_that_were_scored_by_two_judges_are_compared_with_a_remark(workplace):
    write_run(
        workplace / "c",
        "mmie",
        mmie_lines(240, unscored=0, answers="c", judge="judge:third|model:other"),
    )
    calibrate("a", "c", "--plan", 40)
    text = calibrate("a", "c", "--people", fill_in(workplace / "people.csv", "a", "c"))
    assert "The runs were not scored alike (judge, model)" in text


def test_several_raters_are_several_files_and_each_ones_mean_is_printed(workplace):
    calibrate("a", "--plan", 40)
    files = [fill_in(workplace / "people.csv", "a", rater=rater) for rater in ("ann", "bob")]
    text = " ".join(calibrate("a", "--people", *files).split())
    assert "40 answers scored by two raters or more; a rater follows " in text
    assert re.search(
        r"r = 0\.\d\d\. On the 40 answers of all: ann \d\d\.\d\d, bob \d\d\.\d\d\.", text
    )
    few = fill_in(workplace / "people.csv", "a", rater="cy", rows=12)
    text = " ".join(calibrate("a", "--people", *files, few).split())
    assert "cy scored 12 answers, not the 40 that correct the score" in text
    with pytest.raises(
        AnswersUnusable, match=r"ann-people.csv`, line 2: .* has a score by ann in another file too"
    ):
        calibrate("a", "--people", files[0], files[0])


def test_json_has_everything_and_null_with_a_reason(workplace):
    calibrate("A=a", "--plan", 40)
    scores = fill_in(workplace / "people.csv", "a")
    document = json.loads(calibrate("A=a", "--people", scores, "--json", "--population", "larger"))
    assert (document["runs"], document["task"], document["population"]) == (["A"], "mmie", "larger")
    mean = document["headline"]["mean"]
    assert (
        mean["corrected"]["interval"][0]
        < mean["corrected"]["value"]
        < mean["corrected"]["interval"][1]
    )
    assert document["problems"] == []
    few = json.loads(
        calibrate(
            "A=a", "--people", fill_in(workplace / "people.csv", "a", rows=5, rater="b"), "--json"
        )
    )
    assert few["headline"]["mean"]["corrected"]["interval"] is None
    assert few["headline"]["why_not"] == "an interval needs 10 labels, and there are 5"
    assert few["problems"][0]["name"] == "too_few"
    (workplace / "hand.csv").write_text("id,score\nSA-0,5\nSA-3,4\nPBL-1,4")
    hand = json.loads(calibrate("A=a", "--people", "hand.csv", "--json"))
    assert hand["headline"]["mean"] is None
    assert hand["headline"]["people_on_labels"] == pytest.approx(13 / 18 * 100)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["a", "b", "a", "--plan", 5], "takes one run or two, and got 3", id="three-runs"
        ),
        pytest.param(
            ["a", "--plan", 5, "-o", "p.html"], "`p.html` is the name of the page", id="page-as-csv"
        ),
        pytest.param(
            ["a", "--plan", 5, "-o", "hand.csv"], "exists, and may hold scores", id="overwritten"
        ),
        pytest.param(
            ["mile", "--plan", 5], "No judge scored `milebench`: it is scored by rule", id="by-rule"
        ),
        pytest.param(
            ["two", "--plan", 5],
            "corrects one task, and there are 2: mia_bench, mmie",
            id="two-tasks",
        ),
        pytest.param(
            ["a", "--people", "seeds.csv", "--plan", 9], "have several seeds", id="several-seeds"
        ),
        pytest.param(
            ["a", "b", "--people", "one.csv", "--population", "run"],
            "`--population run` is for one run",
            id="population",
        ),
        pytest.param(
            ["a", "--people", "one.csv", "--plan", 9, "--seed", 1],
            "is 1, and the plan .* has 7",
            id="seed",
        ),
    ],
)
def test_an_invalid_command_is_an_error_with_a_hint(workplace, words, message):
    write_run(workplace / "mile", "milebench", milebench_lines(1))
    write_run(workplace / "two", "mia_bench", mia_lines(8))
    write_run(workplace / "two", "mmie", mmie_lines(8))
    (workplace / "hand.csv").write_text("id,score\nSA-0,5")
    (workplace / "one.csv").write_text("id,seed,score\nSA-0,7,5")
    (workplace / "seeds.csv").write_text("id,seed,score\nSA-0,1,5\nSA-3,2,5")
    with pytest.raises(SettingWrong, match=rf"{message}[\s\S]*hint: "):
        calibrate(*words)
    assert not (workplace / "people.csv").exists()


def test_labels_of_another_run_are_an_error_that_names_them(workplace):
    calibrate("a", "--plan", 10)
    scores = fill_in(workplace / "people.csv", "a")
    with pytest.raises(
        AnswersUnusable,
        match=r"No label can be used: 10 labels are of other answers.*: \S+, \S+, \S+",
    ):
        calibrate("b", "--people", scores)
    with pytest.raises(AnswersUnusable, match="no score is filled in"):
        calibrate("a", "--people", workplace / "people.csv")


def test_a_task_without_strata_and_with_another_scale_is_corrected(workplace):
    write_run(workplace / "mia", "mia_bench", mia_lines(60))
    assert "people.csv: 30 answers to score, seed 0\n" in calibrate("mia", "--plan", 30)
    header, *rows = (workplace / "people.csv").read_text().splitlines()
    (workplace / "s.csv").write_text(
        "\n".join([header, *(f"{row}{40 + n}" for n, row in enumerate(rows))])
    )
    text = calibrate("mia", "--people", "s.csv")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 3
    assert " 54.50 [" in table[2]
