import csv
import io

import pytest
from support.golden import vectors
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run
from support.report_runs import SIGNATURE, SKETCH, run, sample
from support.unloaded_benchmark import varied

from mmie_tasks.benchmarks.benchmark import PublishedRow
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK as MMIE
from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.render import rendered
from mmie_tasks.results.run import load_run
from mmie_tasks.results.table import score_table

SAMPLES_A = [sample(str(number), number % 5, category="a") for number in range(10)]
MODEL_A = run("model_a", SAMPLES_A)
MODEL_B = run("model-b", [sample(str(n), None if n == 3 else 4, category="b") for n in range(4)])
SOURCE = "a paper & its 2nd table"
ROW = PublishedRow(model="Someone's", scores={"": 12.5, "a": 20.0}, source=SOURCE)
PUBLISHED = varied(SKETCH, published_rows=(ROW,))
PUBLISHED_A = run("model_a", SAMPLES_A, benchmark=PUBLISHED)

run_table = load_command("table")


def written(scores, file_format="md"):
    table = scores.csv_table() if file_format == "csv" else scores.table()
    return rendered(table, file_format=file_format)


def rows_of(text):
    """The cells of a Markdown table by the first cell of a row."""
    lines = (line.strip("| ").split("|") for line in text.splitlines() if line.startswith("|"))
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}


@pytest.fixture
def two_models(tmp_path):
    for name in ("one", "two"):
        lines = mmie_lines(30, unscored=0, answers=name, in_proportion=True)
        write_run(tmp_path / name, "mmie", lines)
    write_run(tmp_path / "one", "mia_bench", mia_lines(16))
    write_run(tmp_path / "two", "milebench", milebench_lines(1))
    return [f"A={tmp_path / 'one'}", f"B={tmp_path / 'two'}"]


def test_models_are_rows_and_benchmarks_are_columns(two_models):
    text = run_table([*two_models, "--tasks", "mmie,mia_bench,milebench"], {})
    rows = rows_of(text)
    header = rows["model"]
    assert header[0] == "MIA-Bench"
    assert rows["A"][header.index("MileBench real")] == rows["B"][header.index("MIA-Bench")] == "-"
    task = load_run(two_models[0]).tasks["mmie"]
    marks = paper_marks(task)
    cell, _, footnote = rows["A"][header.index("MMIE")].partition(" [^")
    assert cell == task.headline().text
    assert "30 of 20,103 samples" in marks
    assert f"\n[^{footnote}: {'; '.join(marks)}\n" in text
    assert "[^" not in written(score_table([MODEL_A]))


def test_a_score_that_does_not_exist_is_not_zero_and_says_why():
    text = written(score_table([MODEL_A, MODEL_B]))
    assert rows_of(text)["model-b"] == ["n/a [^1]"]
    assert "[^1]: only 3 of 4 samples have a score; 1 unscored: unparsed" in text


@pytest.mark.parametrize(
    ("groups", "titles"),
    [
        pytest.param(["headline"], ["Sketch", "Sketch robust"], id="robust"),
        pytest.param(["category"], ["Sketch c", "Sketch a", "Sketch b"], id="category"),
        pytest.param(["paper"], ["Sketch"], id="paper-without-published-scores"),
        pytest.param(["all"], None, id="all"),
    ],
)
def test_further_columns_and_robust_scores_on_request(groups, titles):
    table = score_table([MODEL_A], groups, robust=groups == ["headline"])
    header = rows_of(written(table))["model"]
    assert header == (titles or header)
    assert len(header) == len(titles or SKETCH.metrics)
    with pytest.raises(SettingWrong, match=r"`field`[\s\S]*one of headline, category, component"):
        score_table([MODEL_A], ["field"])


def test_published_scores_stand_below_the_runs_with_their_source():
    groups = ["headline", "category"]
    text = written(score_table([PUBLISHED_A], groups, robust=True, published=True))
    name, cells = list(rows_of(text).items())[-1]
    assert name == "Someone's (published)"
    assert cells == ["12.50 [^1]", "-", "-", "-", "20.00 [^1]", "-", "-", "-"]
    assert f"[^1]: published: {SOURCE}" in text
    assert "published" not in written(score_table([PUBLISHED_A]))
    none = written(score_table([MODEL_A], published=True))
    assert none.endswith("Sketch: this package holds no published scores.")


def test_csv_has_a_cell_for_every_number():
    text = written(score_table([PUBLISHED_A, MODEL_B], published=True), "csv")
    first, second, published = csv.DictReader(io.StringIO(text))
    cells = [first[column] for column in ("model", "Sketch scored", "Sketch total")]
    assert cells == ["model_a", "10", "10"]
    assert float(first["Sketch low"]) < float(first["Sketch"]) < float(first["Sketch high"])
    assert second["Sketch"] == ""
    assert second["Sketch notes"] == "only 3 of 4 samples have a score; 1 unscored: unparsed"
    assert (published["published"], published["Sketch"]) == ("yes", "12.50")
    assert published["Sketch notes"] == f"published: {SOURCE}"


def test_latex_is_escaped_and_has_superscripts():
    limited = run("model_a", SAMPLES_A, benchmark=PUBLISHED, limit=8)
    text = written(score_table([limited], published=True), "latex")
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule")
    superscripts = "]\\textsuperscript{1}", "12.50\\textsuperscript{2}"
    footnote = "\\textsuperscript{1} 10 samples (-{}-limit 8)."
    for words in ("model\\_a", *superscripts, footnote, "paper \\& its", "95 \\% intervals"):
        assert words in text
    assert not {"\ue000", "\ue001"} & set(text)


def test_the_published_scores_of_mmie_are_those_of_its_site():
    rows = {model: percents for model, *percents in vectors("mmie_published")["rows"]}
    for row in MMIE.published_rows:
        assert [row.scores[name] for name in ("SA", "PBL", "MSR", "")] == rows[row.model]


def test_runs_whose_pictures_we_drew_have_their_own_columns():
    signature = f"{SIGNATURE}|answers:step-1,images,model=flux"
    samples = [sample(str(number), number % 5, signature=signature) for number in range(10)]
    pair = run("pair", samples, benchmark=PUBLISHED)
    text = written(score_table([PUBLISHED_A, pair], published=True))
    rows = rows_of(text)
    assert rows["model"] == ["Sketch", "Sketch, drawn by our reconstruction"]
    assert [cell != "-" for cell in rows["model_a"]] == [True, False]
    assert [cell != "-" for cell in rows["pair"]] == [False, True]
    assert rows["Someone's (published)"][1:] == ["-"]
    assert "]: pictures drawn by our reconstruction (step-1), not by the paper's pipeline" in text


def test_the_papers_columns_are_those_of_its_table(two_models):
    text = run_table([two_models[0], "--task", "mmie", "--columns", "paper"], {})
    assert rows_of(text)["model"] == ["MMIE", "MMIE SA", "MMIE PBL", "MMIE MSR"]
