"""``mmie-tasks agreement`` on logs as the runner writes them, and on people's CSV files."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logged_runs import mmie_lines, write_run
from support.panels import judged, mmie_line

from mmie_tasks import load_run
from mmie_tasks.benchmarks.mmie.metrics import SCALE
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.results import commands
from mmie_tasks.results.correct import Stratum, corrected_mean
from mmie_tasks.results.measures import MEASURES
from mmie_tasks.results.raters import read_people

GPT = "judge:openai|model:gpt-4o-2024-11-20"
OURS = "judge:mmie_score|model:mmie-eval"


def agreement(*words, **options):
    named = [f"--{name}={value}" for name, value in options.items()]
    return commands.agreement([*map(str, words), *named], {})


def parts(*words, **options):
    """Title to rows of the results, "Against" and "Scores" without the reference's name; and all
    notes.
    """
    sections = json.loads(agreement(*words, "--json", **options))["parts"]
    titles = (re.sub("^(Against|Scores) .*", r"\1", part["title"]) for part in sections)
    rows = {title: part["rows"] for title, part in zip(titles, sections, strict=True)}
    return rows | {"notes": [note for part in sections for note in part["notes"]]}


def scores(*words, **options):
    """The run to its row of scores."""
    return {row["run"]: row for row in parts(*words, **options)["Scores"]}


def points_of(lines):
    """Sample id to official points, None without."""
    return {line["id"]: line["record"]["verdicts"]["official"].get("points") for line in lines}


def of_category(category, points):
    return np.array([p for id_, p in points.items() if id_.startswith(category)], dtype=float)


def lines(count=120, judge=GPT, unscored=0.0, **options):
    return list(mmie_lines(count, judge=judge, unscored=unscored, in_proportion=True, **options))


def people(path, rows, header="id,score"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return path


@pytest.fixture
def judges(tmp_path):
    """Two judges of the same answers."""
    for name, judge in (("a", GPT), ("b", OURS)):
        write_run(tmp_path / name / "model", "mmie", lines(judge=judge, unscored=0.1))
    return [tmp_path / "a", tmp_path / "b"]


def test_two_judges_have_every_measure_with_its_interval_on_samples_that_both_scored(judges):
    output = parts(*judges)
    [first], [second] = output["Against"], output["Ranks, chance and bias"]
    names = "model by mmie-eval", "model by gpt-4o-2024-11-20"
    assert (first["judge"], first["reference"]) == names
    measures = [(first | second)[measure.title] for measure in MEASURES.values()]
    assert all(m["interval"][0] <= m["value"] <= m["interval"][1] for m in measures)
    points = [[*points_of(lines(judge=one, unscored=0.1)).values()] for one in (GPT, OURS)]
    both = [pair for pair in zip(*points, strict=True) if None not in pair]
    assert first["n"] == len(both) == output["Krippendorff's alpha"][0]["n"]
    assert second["bias"]["value"] == pytest.approx(np.mean([b - a for a, b in both]))
    with_points = [row["with points"] for row in output["Raters"]]
    assert with_points == [120 - of_judge.count(None) for of_judge in points]
    by_category = {row["group"]: row["n"] for row in output["By category"]}
    assert set(by_category) == {"SA", "PBL", "MSR"}
    assert sum(by_category.values()) == len(both)
    row, run = output["Scores"][0], load_run(judges[1]).tasks["mmie"].headline()
    assert row["by its judge"]["value"] == run.percent
    assert row["by its judge"]["interval"] == pytest.approx(run.interval)


def test_the_mean_of_several_people_is_the_reference_unless_one_is_named(judges, tmp_path):
    first, second = points_of(lines()[:2])
    rows = [(first, 2, "ann"), (first, 5, "bob"), (second, 4, "bob"), ("absent", 3, "ann")]
    words = f"a={judges[0]}", people(tmp_path / "crowd.csv", rows, "id,score,rater")
    [row] = parts(*words)["Against"]
    assert (row["judge"], row["reference"]) == ("a", "mean of ann, bob")
    assert {row["reference"] for row in parts(*words, reference="bob")["Against"]} == {"bob"}


def test_the_first_answers_by_people_correct_a_judge_and_later_ones_do_not(tmp_path):
    write_run(tmp_path / "b", "mmie", lines(judge=OURS))
    judged, rated = points_of(lines(judge=OURS)), points_of(lines()[:50])
    csv = people(tmp_path / "ann.csv", [*rated.items(), (lines()[50]["id"], "")])
    row = scores(f"b={tmp_path / 'b'}", csv)["b"]
    strata = []
    for category in CATEGORIES:
        f, y = of_category(category, judged), of_category(category, rated)
        weight, n = len(f) / 120, len(y)
        strata.append(Stratum(weight=weight, reference=y, judge=f[:n], others=f[n:]))
    mean = corrected_mean(strata, 6)
    assert (row["n"], row["rated"], row["worth"]) == (120, 50, round(mean.worth))
    assert row["corrected"]["value"] == SCALE.percent(mean.corrected.value)
    ends = [end / 0.06 for end in mean.corrected.interval]
    assert row["corrected"]["interval"] == pytest.approx(ends)
    assert row["reference alone"]["value"] == SCALE.percent(mean.alone.value)
    csv = people(tmp_path / "ann.csv", points_of(lines()[60:]).items())  # not the first ones
    row = scores(f"b={tmp_path / 'b'}", csv)["b"]
    assert (row["rated"], row["worth"]) == (60, None)
    assert row["corrected"]["value"] is row["reference alone"]["value"] is None


def test_an_older_judge_of_another_models_answers_moves_the_judges_points(tmp_path):
    old, new, theirs = lines()[:60], lines(judge=OURS), lines(judge=OURS, answers="b", skill=0.8)
    for name, made in (("old", old), ("new", new), ("theirs", theirs)):
        write_run(tmp_path / name, "mmie", made)
    words = [f"{name}={tmp_path / name}" for name in ("theirs", "old", "new")]
    by_run = scores(*words, reference="old")
    assert by_run["theirs"]["rated"] == by_run["new"]["rated"] == 60
    f, by_old, by_new = map(points_of, (theirs, old, new))
    moved = {id_: f[id_] + points - by_new[id_] for id_, points in by_old.items()}
    means = (len(of_category(c, f)) / 120 * of_category(c, moved).mean() for c in CATEGORIES)
    assert by_run["theirs"]["reference alone"]["value"] == SCALE.percent(sum(means))
    low, high = by_run["theirs"]["corrected"]["interval"]
    assert low < by_run["theirs"]["by its judge"]["value"] < high
    assert low > by_run["new"]["corrected"]["value"]  # not pulled towards the other model's mean


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(("x.png", "1"), ("x.png", "2"), False, id="overwritten"),
        pytest.param(("x.png", "1"), ("y.png", "1"), True, id="renamed"),
        pytest.param(("/one/x.png", ""), ("/two/x.png", ""), True, id="moved"),
        pytest.param(("x.png", ""), ("y.png", ""), False, id="unknown"),
    ],
)
def test_samples_with_other_answers_or_images_are_left_out(tmp_path, one, other, is_same):
    for name, (image, sha256) in (("a", one), ("b", other)):
        made = lines(12)
        for line in made[:4]:
            line["record"]["answer"] = [{"text": "This."}, {"image": image, "sha256": sha256}]
        write_run(tmp_path / name, "mmie", made)
    output = parts(f"a={tmp_path / 'a'}", f"b={tmp_path / 'b'}")
    assert output["Against"][0]["n"] == (12 if is_same else 8)
    assert any("4 samples with different" in note for note in output["notes"]) != is_same


@pytest.mark.usefixtures("judges")
@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        pytest.param(["a"], {}, "two raters or more", id="alone"),
        pytest.param(["a", "b"], {"reference": "unnamed"}, "none of the raters", id="reference"),
        pytest.param(["a", "other.csv"], {}, "No sample has points", id="other-ids"),
        pytest.param(["a", "c"], {}, "(?s)different answers.*judged as it was", id="two-models"),
    ],
)
def test_an_invalid_request_is_an_error(tmp_path, words, options, message):
    people(tmp_path / "other.csv", [("1", 2), ("2", 3)])
    write_run(tmp_path / "c", "mmie", lines(answers="model-b"))
    with pytest.raises(MmieTasksError, match=message):
        agreement(*(tmp_path / word for word in words), **options)


@pytest.mark.parametrize("kind", ["official", "robust"])
def test_the_judges_of_a_panel_are_compared_if_its_run_is_the_only_source(tmp_path, kind):
    made = [(4, 5, None), (2, 3, 3), (6, 6, 0)]
    lines = [mmie_line(judged(*of, sample_id=f"SA-{i}")) for i, of in enumerate(made)]
    write_run(tmp_path / "one", "mmie", lines)
    rows = parts(tmp_path / "one", score=kind)["Raters"]
    means = {row["rater"]: row["mean"]["value"] for row in rows}
    assert means == {"gpt-4o": 4, "gpt-4o-mini": pytest.approx(14 / 3), "qwen": 1.5}
    csv = people(tmp_path / "ann.csv", [("SA-0", 4), ("SA-1", 2), ("SA-2", 5)])
    assert [row["rater"] for row in parts(tmp_path / "one", csv)["Raters"]] == ["one", "ann"]


# People's files.


def read(tmp_path, text):
    path = tmp_path / "people.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return {
        rater.name: dict(rater.verdicts.set_index("id")["points"].replace(np.nan, None))
        for rater in read_people(path, SCALE)
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\ufeffid,score\r\nSA-1,5\r\nSA-2,3.5\r\n", id="bom-and-windows"),
        pytest.param("Score; ID\n5;SA-1\n3,5;SA-2", id="semicolons-decimal-comma-any-order"),
        pytest.param("id\tscore\nSA-1\t5\n\nSA-2\t3.5\n\t\n", id="tabs-and-blank-lines"),
        pytest.param("\n\nid,score,x\nSA-1,5,,,\nSA-2,35e-1,y", id="blank-start-more-cells"),
    ],
)
def test_csv_files_of_spreadsheets_are_read(tmp_path, text):
    assert read(tmp_path, text) == {"people": {"SA-1": 5.0, "SA-2": 3.5}}
    several = "id,rater,score\na,ann,6\na,bob,0\nb,ann,\nc,,\n"  # an empty score: not rated
    assert read(tmp_path, several) == {"ann": {"a": 6.0, "b": None}, "bob": {"a": 0.0}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "no scores", id="empty"),
        pytest.param("id,points\na,1", "no column `score`", id="no-score"),
        pytest.param("id,score\na,good", "line 2: the score 'good' is not a number", id="text"),
        pytest.param("id,score\n\na,nan", "line 3: .*'nan' is not", id="nan"),
        pytest.param("id,score\na,7", "the score 7 is not on the scale, 0 to 6", id="too-high"),
        pytest.param("id,score\na,1\na,1", "line 3: the sample a has a second", id="twice"),
        pytest.param("id,score\n,1", "its `id` is empty", id="no-id"),
        pytest.param("id,score,rater\na,1,ann\nb,2,", "line 3: its `rater` is empty", id="rater"),
        pytest.param("id,score\na,5\nb,3,5", "line 3: .* 3 cells.* 2 columns", id="decimal-comma"),
        pytest.param("answer;id;score\nYes; no;a;5", "line 2: .* 4 cells", id="shifted"),
        pytest.param('id,score\n"a,1', "line 2: unexpected end of data", id="open-quote"),
        pytest.param("id,score\na,1".encode("utf-16"), "not UTF-8", id="utf-16"),
    ],
)
def test_an_unusable_file_is_an_error_that_names_the_line(tmp_path, text, message):
    with pytest.raises(AnswersUnusable, match=f"(?s)people.csv.*{message}"):
        read(tmp_path, text)


@given(text=st.text(max_size=60))
@settings(max_examples=50)
def test_any_text_is_read_or_refused_with_an_error(tmp_path_factory, text):
    try:
        raters = read(tmp_path_factory.mktemp("any"), f"id,score\n{text}")
    except AnswersUnusable:
        return
    assert all(p is None or 0 <= p <= 6 for of_rater in raters.values() for p in of_rater.values())


def test_ids_of_people_may_lack_zeros_and_two_answers_need_their_digests(tmp_path):
    logged = lines(12)
    for number, line in enumerate(logged):
        line["record"]["id"] = f"{101001 + number:07d}"
    write_run(tmp_path / "a", "mmie", logged)
    csv = people(tmp_path / "p.csv", [(101001 + number, 3) for number in range(12)])
    assert parts(tmp_path / "a", csv)["Against"][0]["n"] == 12
    for line in logged:
        line["record"]["answer"] = [{"text": "Another one."}]
    write_run(tmp_path / "b", "mmie", logged)
    with pytest.raises(SettingWrong, match="answer_digest"):
        agreement(tmp_path / "a", tmp_path / "b", csv)
