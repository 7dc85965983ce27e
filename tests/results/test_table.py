from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.golden import vectors
from support.logged_runs import JUDGE, mia_lines, milebench_lines, mmie_lines, write_run
from support.report_runs import SIGNATURE, SKETCH, run, sample
from support.stored_exams import write_exam

from mmie_tasks.benchmarks.benchmark import PublishedRow
from mmie_tasks.benchmarks.milebench import benchmark as milebench_benchmark
from mmie_tasks.benchmarks.milebench.metrics import MEANS_OF_TASKS
from mmie_tasks.benchmarks.mmie import benchmark as mmie_benchmark
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Scored
from mmie_tasks.quality.calibrate.correction import correct
from mmie_tasks.quality.plan import judged_samples, planned_answers
from mmie_tasks.record.metric_values import metric_value
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.labels import csv_text, read_label_files
from mmie_tasks.results.render import sheet_text
from mmie_tasks.results.table import ScoreTable, as_json, score_table
from mmie_tasks.results.table import run as run_table
from mmie_tasks.runs.run import Run
from mmie_tasks.runs.summary import marks_of, value_of

MODEL_A = run("model_a", [sample(str(number), number % 5, category="a") for number in range(10)])
MODEL_B = run(
    "model-b",
    [sample(str(number), None if number == 3 else 4, category="b") for number in range(4)],
)
SOURCE = "a paper & its 2nd table"
PUBLISHED = replace(
    SKETCH,
    published_rows=(PublishedRow(model="Someone's", scores={"": 12.5, "a": 20.0}, source=SOURCE),),
)


table_of = partial(score_table, environment={"XDG_CACHE_HOME": "/nowhere"})


def as_markdown(scores: ScoreTable) -> str:
    return sheet_text(scores.sheet, "md")


def as_csv(scores: ScoreTable) -> str:
    return sheet_text(scores.sheet, "csv")


def as_latex(scores: ScoreTable) -> str:
    return sheet_text(scores.sheet, "latex")


def of_benchmark(opened: Run, **fields: Any) -> Run:
    return replace(
        opened, tasks={name: replace(task, **fields) for name, task in opened.tasks.items()}
    )


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of a Markdown table by the first cell of a row."""
    lines = (line.strip("| ").split("|") for line in text.splitlines() if line.startswith("|"))
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}


@pytest.fixture
def two_models(tmp_path: Path) -> list[str]:
    for name in ("one", "two"):
        write_run(
            tmp_path / name, "mmie", mmie_lines(30, unscored=0, answers=name, in_proportion=True)
        )
    write_run(tmp_path / "one", "mia_bench", mia_lines(16))
    write_run(tmp_path / "two", "milebench", milebench_lines(1))
    return [f"A={tmp_path / 'one'}", f"B={tmp_path / 'two'}"]


def test_models_are_rows_and_benchmarks_are_columns(two_models: list[str]) -> None:
    rows = rows_of(run_table([*two_models, "--tasks", "mmie,mia_bench,milebench"], {}))
    header = rows["model"]
    assert header[0] == "MIA-Bench"
    assert "MMIE" in header
    assert "MileBench real" in header
    assert rows["A"][header.index("MileBench real")] == rows["B"][header.index("MIA-Bench")] == "-"
    task = open_run(two_models[0]).tasks["mmie"]
    value = value_of(task, task.benchmark.metrics[0], "official")
    assert value is not None
    assert value.interval is not None
    expected = f"{value.percent:.2f} [{value.interval.low:.2f}, {value.interval.high:.2f}]"
    assert rows["A"][header.index("MMIE")].startswith(f"{expected} [^")


def test_a_footnote_says_what_makes_a_score_incomparable(two_models: list[str]) -> None:
    text = run_table([*two_models, "--tasks", "mmie"], {})
    (number,) = {
        row[0].rpartition("[^")[2].rstrip("]")
        for name, row in rows_of(text).items()
        if name in "AB"
    }
    (footnote,) = [line for line in text.splitlines() if line.startswith(f"[^{number}]: ")]
    marks = marks_of(open_run(two_models[0]).tasks["mmie"])
    assert footnote == f"[^{number}]: {'; '.join(marks)}"
    assert "30 of 20,103 samples" in marks


def test_a_comparable_score_has_no_footnote() -> None:
    assert marks_of(MODEL_A.tasks["sketch"]) == ()
    text = as_markdown(table_of([MODEL_A]))
    assert "[^" not in text


def test_a_score_that_does_not_exist_is_not_zero_and_says_why() -> None:
    text = as_markdown(table_of([MODEL_A, MODEL_B]))
    assert rows_of(text)["model-b"] == ["n/a [^1]"]
    assert "[^1]: only 3 of 4 samples have a score; 1 unscored" in text


def test_further_columns_and_robust_scores_on_request() -> None:
    assert rows_of(as_markdown(table_of([MODEL_A], ["headline"], robust=True)))["model"] == [
        "Sketch",
        "Sketch robust",
    ]
    assert rows_of(as_markdown(table_of([MODEL_A], ["category"])))["model"] == [
        "Sketch c",
        "Sketch a",
        "Sketch b",
    ]
    every = rows_of(as_markdown(table_of([MODEL_A], ["all"])))
    assert len(every["model"]) == len(SKETCH.metrics)
    with pytest.raises(
        SettingWrong,
        match=r"no columns `field`[\s\S]*hint: one of headline, category, component, paper, all",
    ):
        table_of([MODEL_A], ["field"])


def test_expected_scores_have_a_column_where_a_run_has_one(tmp_path: Path) -> None:
    write_run(tmp_path, "mmie", mmie_lines(30, unscored=0, with_digits=30))
    write_run(tmp_path, "mia_bench", mia_lines(16))
    text = run_table([str(tmp_path), "--expected", "--robust"], {})
    rows = rows_of(text)
    assert [title for title in rows["model"] if "MIA-Bench" not in title] == [
        "MMIE",
        "MMIE robust",
        "MMIE expected",
    ]
    assert "MIA-Bench expected" not in rows["model"]
    task = open_run(str(tmp_path)).tasks["mmie"]
    value = metric_value(task.samples, task.benchmark.metrics[0], "expected", task.benchmark.scale)
    assert value is not None
    assert rows[tmp_path.name][-1].startswith(f"{value.percent:.2f} [")
    assert "mia_bench: no run has expected scores." in text
    assert "MMIE expected" not in run_table([str(tmp_path)], {})
    published = rows_of(
        run_table([str(tmp_path), "--expected", "--published", "--tasks", "mmie"], {})
    )
    assert published["EMU-2 (published)"][1] == "-"


def test_the_papers_own_columns_are_those_of_the_runners_table(two_models: list[str]) -> None:
    scores = table_of([open_run(word) for word in two_models], ["paper"])
    names = {
        title: [column.metric.name for column in scores.columns if column.benchmark.title == title]
        for title in ("MMIE", "MIA-Bench", "MileBench")
    }
    assert names["MMIE"][:4] == ["", "SA", "PBL", "MSR"]
    assert names["MIA-Bench"][0] == ""
    assert {"describe", "basic"} <= set(names["MIA-Bench"])
    assert {"real", "diag", "T-1", "I-1"} <= set(names["MileBench"])
    assert "clean" not in names["MIA-Bench"]
    assert "ALFRED" not in names["MileBench"]


def test_a_part_of_a_benchmark_is_named_by_its_task() -> None:
    part = of_benchmark(run("a", [sample("1"), sample("2")], task="sketch_a"))
    assert rows_of(as_markdown(table_of([part])))["model"] == ["sketch_a"]


def test_published_scores_stand_below_the_runs_with_their_source() -> None:
    opened = of_benchmark(MODEL_A, benchmark=PUBLISHED)
    text = as_markdown(table_of([opened], ["headline", "category"], robust=True, published=True))
    rows = rows_of(text)
    assert list(rows)[-1] == "Someone's (published)"
    assert rows["Someone's (published)"] == [
        "12.50 [^1]",
        "-",
        "-",
        "-",
        "20.00 [^1]",
        "-",
        "-",
        "-",
    ]
    assert f"[^1]: published: {SOURCE}" in text
    assert "published" not in as_markdown(table_of([opened]))


def test_published_scores_of_a_benchmark_are_not_those_of_its_parts() -> None:
    part = of_benchmark(run("a", [sample("1"), sample("2")], task="sketch_a"), benchmark=PUBLISHED)
    assert [row.is_published for row in table_of([part], published=True).rows] == [False]


def test_a_benchmark_without_published_scores_is_named() -> None:
    text = as_markdown(table_of([MODEL_A], published=True))
    assert text.endswith("Sketch: this package holds no published scores.")


def test_csv_has_a_cell_for_every_number() -> None:
    opened = of_benchmark(MODEL_A, benchmark=PUBLISHED)
    text = as_csv(table_of([opened, MODEL_B], published=True))
    first, second, published = csv.DictReader(io.StringIO(text))
    assert first["model"] == "model_a"
    assert first["Sketch scored"] == "10"
    assert first["Sketch total"] == "10"
    assert float(first["Sketch low"]) < float(first["Sketch"]) < float(first["Sketch high"])
    assert second["Sketch"] == ""
    assert second["Sketch notes"] == "only 3 of 4 samples have a score; 1 unscored"
    assert (published["published"], published["Sketch"]) == ("yes", "12.50")
    assert published["Sketch notes"] == f"published: {SOURCE}"


def test_latex_is_escaped_and_has_superscripts() -> None:
    limited = of_benchmark(MODEL_A, benchmark=PUBLISHED, limit=8)
    text = as_latex(table_of([limited], published=True))
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule")
    assert "model\\_a" in text
    assert "]\\textsuperscript{1}" in text
    assert "12.50\\textsuperscript{2}" in text
    assert "\\textsuperscript{1} 10 samples (-{}-limit 8)." in text
    assert "paper \\& its" in text
    assert "95 \\% intervals" in text
    assert not {"\ue000", "\ue001"} & set(text)


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        pytest.param("t.csv", "model,published,MMIE,", id="csv"),
        pytest.param("t.tex", "\\begin{tabular}", id="latex"),
        pytest.param("t.md", "Scores in percent", id="markdown"),
    ],
)
def test_the_suffix_of_the_file_decides_the_format(
    two_models: list[str], tmp_path: Path, name: str, begin: str
) -> None:
    path = tmp_path / name
    message = run_table([*two_models, "--tasks", "mmie", "-o", str(path)], {})
    assert message == f"{path}: 2 models, 1 column"
    assert path.read_text(encoding="utf-8").startswith(begin)


def test_json_has_every_number_and_its_notes(two_models: list[str]) -> None:
    printed = json.loads(run_table([*two_models, "--tasks", "mmie", "--json"], {}))
    first = printed["rows"][0]
    assert (first["model"], first["published"]) == ("A", False)
    (score,) = first["scores"]
    assert (score["task"], score["metric"], score["scored"]) == ("mmie", "official", 30)
    assert "30 of 20,103 samples" in score["notes"]


def test_the_published_scores_of_mmie_are_those_of_its_site() -> None:
    rows: Mapping[str, list[float]] = {
        model: percents for model, *percents in vectors("mmie_published")["rows"]
    }
    for row in mmie_benchmark.PUBLISHED_ROWS:
        assert [row.scores[name] for name in ("SA", "PBL", "MSR", "")] == rows[row.model]


@pytest.mark.parametrize("row", milebench_benchmark.PUBLISHED_ROWS, ids=lambda row: row.model)
def test_the_published_totals_of_milebench_are_means_of_its_published_tasks(
    row: PublishedRow,
) -> None:
    assert set(row.scores) <= {metric.name for metric in milebench_benchmark.BENCHMARK.metrics}
    realistic = [row.scores[task] for task in MEANS_OF_TASKS["real"]]
    assert sum(realistic) / len(realistic) == pytest.approx(row.scores["real"], abs=0.1)
    left_out = ("I-1",) if "leaves out I-1" in row.source else ()
    diagnostic = [row.scores[task] for task in MEANS_OF_TASKS["diag"] if task not in left_out]
    assert sum(diagnostic) / len(diagnostic) == pytest.approx(row.scores["diag"], abs=0.1)


@pytest.fixture
def people(two_models: list[str], tmp_path: Path) -> str:
    """The scores of 24 answers of the first model, less two points each."""
    task_run = open_run(two_models[0]).tasks["mmie"]
    plan = planned_answers([judged_samples(task_run, "official")], 24, 0)
    points = [
        answer.sample.official.points
        for answer in plan
        if isinstance(answer.sample.official, Scored)
    ]
    rows = csv_text([(answer.id, answer.answer) for answer in plan], 0).splitlines()
    path = tmp_path / "people.csv"
    path.write_text(
        "\n".join(
            [rows[0], *(f"{row}{max(0, p - 2)}" for row, p in zip(rows[1:], points, strict=True))]
        )
    )
    return str(path)


def test_a_score_corrected_by_people_stands_marked_beside_the_official_one(
    two_models: list[str], people: str
) -> None:
    command = [*two_models, "--tasks", "mmie,mia_bench,milebench", "--people", people]
    text = run_table(command, {})
    rows = rows_of(text)
    header = rows["model"]
    assert header[header.index("MMIE") : header.index("MMIE") + 2] == [
        "MMIE",
        "MMIE, corrected by people",
    ]
    assert sum("corrected" in title for title in header) == 1
    official, corrected = (
        rows["A"][header.index(title)] for title in ("MMIE", "MMIE, corrected by people")
    )
    score = correct(
        open_run(two_models[0]).tasks["mmie"], read_label_files([people], None), population="larger"
    ).headline
    assert score.mean is not None
    interval = score.mean.corrected.interval
    assert interval is not None
    assert corrected.startswith(
        f"{score.mean.corrected.value:.2f} [{interval.low:.2f}, {interval.high:.2f}] [^"
    )
    assert official != corrected
    assert rows["B"][header.index("MMIE, corrected by people")] == "-"
    number = corrected.rpartition("[^")[2].rstrip("]")
    assert f"[^{number}]: 24 labels by 1 rater; this judge makes 24 labels worth" in text
    assert (
        "Only the intervals of scores that are corrected by people hold the judge's error too."
        in text
    )


def test_intervals_for_the_runs_samples_leave_corrected_scores_only(
    two_models: list[str], people: str
) -> None:
    command = [*two_models, "--tasks", "mmie,mia_bench", "--robust", "--people", people]
    text = run_table([*command, "--population", "run"], {})
    rows = rows_of(text)
    assert rows["model"] == ["MMIE, corrected by people"]
    score = correct(
        open_run(two_models[0]).tasks["mmie"], read_label_files([people], None), population="run"
    )
    assert score.headline.corrected is not None
    low, high = score.headline.corrected.interval or (0, 0)
    assert f"[{low:.2f}, {high:.2f}]" in rows["A"][0]
    assert "for the samples of these runs only" in text
    with pytest.raises(SettingWrong, match="--people"):
        run_table([*two_models, "--population", "run"], {})


def test_a_corrected_score_is_in_csv_latex_and_json_too(two_models: list[str], people: str) -> None:
    command = [*two_models, "--tasks", "mmie", "--people", people]
    [row, other] = csv.DictReader(io.StringIO(run_table([*command, "--format", "csv"], {})))
    assert (
        float(row["MMIE, corrected by people low"])
        < float(row["MMIE, corrected by people"])
        < float(row["MMIE"])
    )
    assert row["MMIE, corrected by people scored"] == "24"
    assert other["MMIE, corrected by people"] == ""
    assert "MMIE, corrected by people" in run_table([*command, "--format", "latex"], {})
    scores = json.loads(run_table([*command, "--json"], {}))["rows"][0]["scores"]
    assert [score["corrected_by_people"] for score in scores] == [False, True]
    assert scores[1]["percent"] < scores[0]["percent"]


def test_labels_that_are_no_random_sample_give_no_corrected_score_and_the_footnote_says_why(
    two_models: list[str], tmp_path: Path
) -> None:
    (tmp_path / "hand.csv").write_text("id,score\nPBL-0,3\n")
    text = run_table([two_models[0], "--tasks", "mmie", "--people", str(tmp_path / "hand.csv")], {})
    assert rows_of(text)["A"][1].startswith("n/a [^")
    assert "not a random sample: 1 label is not of a plan" in text


def test_without_people_the_caption_says_that_the_judges_error_is_not_in_the_intervals(
    two_models: list[str],
) -> None:
    sentence = "The intervals hold the sampling error only, not the judge's error."
    assert sentence in run_table([*two_models, "--tasks", "mmie"], {})
    assert sentence not in run_table([two_models[1], "--tasks", "milebench"], {})


@pytest.fixture
def judged_runs(two_models: list[str], tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """Two runs and a cache in which the judge of the first is graded."""
    environment = {"MMIE_TASKS_CACHE": str(tmp_path / "cache")}
    write_exam(environment, JUDGE, 71.08, asked=200, judged=199)
    write_run(
        tmp_path / "two",
        "mmie",
        mmie_lines(30, unscored=0, answers="two", judge="judge:openai|model:m_1|t:0"),
    )
    return two_models, environment


GRADED = (
    "made-up agrees with people on 71.08 [66.08, 76.08] % of 100 pairs (MMRB2, comparing, "
    "verdicts on 99.50 %)."
)
UNGRADED_LINE = "Judge of MMIE: m_1 is ungraded (mmie-tasks judge-exam openai:m_1)."


def test_the_judges_stand_below_the_table_with_their_grades(
    judged_runs: tuple[list[str], dict[str, str]],
) -> None:
    runs, environment = judged_runs
    text = run_table(runs, environment)
    assert text.endswith(f"\n\nJudge of MIA-Bench, MMIE: {GRADED}\n{UNGRADED_LINE}")
    latex = run_table([*runs, "--tasks", "mmie", "--format", "latex"], environment)
    assert (
        "Judge of MMIE: made-up agrees with people on 71.08 [66.08, 76.08] \\% of 100 pairs"
        in latex
    )
    assert "m\\_1 is ungraded" in latex


def test_csv_and_json_have_the_judges_of_every_run(
    judged_runs: tuple[list[str], dict[str, str]],
) -> None:
    runs, environment = judged_runs
    one, two = csv.DictReader(io.StringIO(run_table([*runs, "--format", "csv"], environment)))
    assert (one["judges"], two["judges"]) == (f"Judge of MIA-Bench, MMIE: {GRADED}", UNGRADED_LINE)
    first, second = json.loads(run_table([*runs, "--tasks", "mmie", "--json"], environment))["rows"]
    [judge] = second["judges"]
    assert (judge["benchmark"], judge["judge"], judge["exams"]) == ("MMIE", "m_1", [])
    [judge] = first["judges"]
    [stored] = judge["exams"]
    assert stored["agreement"] == 71.08
    assert stored["interval"] == [66.08, 76.08]
    assert stored["pairs"] == 100


def test_a_table_of_scores_by_rule_names_no_judge(two_models: list[str]) -> None:
    text = run_table([two_models[1], "--tasks", "milebench", "--format", "csv"], {})
    assert [row["judges"] for row in csv.DictReader(io.StringIO(text))] == [""]
    assert "udge" not in run_table([two_models[1], "--tasks", "milebench"], {})


def drawn_run(name: str, signature: str = f"{SIGNATURE}|answers:step-1,images,model=flux") -> Run:
    samples = [sample(str(number), number % 5, signature=signature) for number in range(10)]
    return run(name, samples, benchmark=PUBLISHED)


def test_runs_whose_pictures_we_drew_have_their_own_columns() -> None:
    plain = of_benchmark(MODEL_A, benchmark=PUBLISHED)
    text = as_markdown(table_of([plain, drawn_run("pair")], published=True))
    rows = rows_of(text)
    assert rows["model"] == ["Sketch", "Sketch, drawn by our reconstruction"]
    assert [cell == "-" for cell in rows["model_a"]] == [False, True]
    assert [cell == "-" for cell in rows["pair"]] == [True, False]
    assert [cell == "-" for cell in rows["Someone's (published)"]] == [False, True]
    assert "]: pictures drawn by our reconstruction (step-1), not by the paper's pipeline" in text


def test_columns_without_runs_are_there_only_for_published_scores() -> None:
    title = "Sketch, drawn by our reconstruction"
    for write in (as_markdown, as_csv, as_latex):
        assert title in write(table_of([drawn_run("pair")]))
    assert [c.title for c in table_of([drawn_run("pair")], robust=True).columns] == [
        title,
        "Sketch robust, drawn by our reconstruction",
    ]
    scores = table_of([drawn_run("pair")], robust=True, published=True)
    assert [c.title for c in scores.columns] == [
        "Sketch",
        title,
        "Sketch robust, drawn by our reconstruction",
    ]
    written = as_json(scores)["rows"]
    assert [[s["drawn_by_reconstruction"] for s in row["scores"]] for row in written] == [
        [True, True],
        [False],
    ]


def test_models_that_were_asked_for_pictures_have_their_own_columns() -> None:
    asked = drawn_run("asked", f"{SIGNATURE}|answers:instruct-1")
    plain = of_benchmark(MODEL_A, benchmark=PUBLISHED)
    text = as_markdown(table_of([plain, asked, drawn_run("pair")]))
    titles = ["Sketch", "Sketch, asked for pictures", "Sketch, drawn by our reconstruction"]
    rows = rows_of(text)
    assert rows["model"] == titles
    assert [cell == "-" for cell in rows["asked"]] == [True, False, True]
    assert "]: asked for pictures with words of ours (instruct-1)" in text


def test_a_run_of_which_some_answers_were_drawn_stands_with_the_drawn_ones() -> None:
    mixed = drawn_run("mixed")
    samples = (*mixed.tasks["sketch"].samples, sample("plain"))
    scores = table_of([of_benchmark(mixed, samples=samples)])
    assert [c.form for c in scores.columns] == ["drawn"]
