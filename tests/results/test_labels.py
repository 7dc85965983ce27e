"""Scores by people, in CSV files of spreadsheets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.record.metrics import Scale
from mmie_tasks.results.labels import read_labels

SIX = Scale(full_marks=6, unit="points, 0 to 6", whole=True, percent=lambda mean: mean / 0.06)


def read(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "people.csv"
    path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
    return read_labels(path, SIX)


def points_by_rater(labels):
    points = {}
    for label in labels:
        points.setdefault(label.rater, {})[label.id] = label.points
    return points


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("id,score\nSA-1,5\nSA-2,3.5\n", id="plain"),
        pytest.param("\ufeffid,score\r\nSA-1,5\r\nSA-2,3.5\r\n", id="bom-and-windows"),
        pytest.param("Score; ID\n5;SA-1\n3,5;SA-2", id="semicolons-decimal-comma-any-order"),
        pytest.param("id\tscore\nSA-1\t5\n\nSA-2\t3.5\n\t\n", id="tabs-and-blank-lines"),
        pytest.param("\n\nid,score,x\nSA-1,5,,,\nSA-2,35e-1,y", id="blank-start-more-cells"),
    ],
)
def test_csv_files_of_spreadsheets_are_read(tmp_path, text):
    assert points_by_rater(read(tmp_path, text)) == {"people": {"SA-1": 5.0, "SA-2": 3.5}}


def test_several_people_are_distinguished_and_an_empty_score_means_not_rated(tmp_path):
    labels = read(tmp_path, "id,rater,score\na,ann,6\na,bob,0\nb,ann,\n")
    assert points_by_rater(labels) == {"ann": {"a": 6.0, "b": None}, "bob": {"a": 0.0}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("id,rater,score\na,,5\nb,,", id="empty-rater"),
        pytest.param("id,answer,score\na,a cat,5\nb,a dog,", id="another-column"),
    ],
)
def test_a_file_without_raters_is_one_rater(tmp_path, text):
    assert points_by_rater(read(tmp_path, text)) == {"people": {"a": 5.0, "b": None}}
    assert {label.rater for label in read_labels(tmp_path / "people.csv", SIX, "ann")} == {"ann"}


def test_a_row_that_nobody_scored_needs_no_rater(tmp_path):
    labels = read(tmp_path, "id,rater,score\na,ann,1\nb,,\n")
    assert [label.rater for label in labels] == ["ann", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "needs one column `id`, and has nothing", id="empty"),
        pytest.param("id,points\na,1", "needs one column `score`.* 'points'", id="no-score"),
        pytest.param("id,score\n", "a header and no scores", id="no-rows"),
        pytest.param("id,score\na,good", "line 2: the score 'good' is not a number", id="text"),
        pytest.param("id,score\n\na,nan", "line 3: .*'nan' is not", id="nan"),
        pytest.param("id,score\na,1_0", "'1_0' is not", id="underscore"),
        pytest.param("id,score\na,7", "the score 7 is not on the scale, 0 to 6", id="too-high"),
        pytest.param("id,score\na,1\na,1", "line 3: the sample a has a second", id="twice"),
        pytest.param(
            "id,score,rater\na,1,x\na,2,x", "second score by x", id="twice-by-one-of-several"
        ),
        pytest.param("id,score\n,1", "its `id` is empty", id="no-id"),
        pytest.param(
            "id,score,rater\na,1,ann\nb,2,", "line 3: its `rater` is empty", id="no-rater"
        ),
        pytest.param("id,score\na", "it has 1 of the 2 columns", id="short"),
        pytest.param("id,score\na,5\nb,3,5", "line 3: .* 3 cells.* 2 columns", id="decimal-comma"),
        pytest.param("id,score\na,5,,x", "line 2: .* 4 cells.* 2 columns", id="cell-far-right"),
        pytest.param("answer;id;score\nYes; no;a;5", "line 2: .* 4 cells", id="shifted"),
        pytest.param('id,score\n"a,1', "line 2: unexpected end of data", id="open-quote"),
        pytest.param(f"id,score\n{'a' * 200_000},1", "field larger than", id="huge-field"),
        pytest.param("id,score\na,1".encode("utf-16"), "not UTF-8", id="utf-16"),
    ],
)
def test_an_unusable_file_is_an_error_that_names_the_line(tmp_path, text, message):
    with pytest.raises(AnswersUnusable, match=f"(?s)people.csv.*{message}"):
        read(tmp_path, text)


@given(text=st.text(max_size=60))
@settings(max_examples=50)
def test_any_text_is_read_or_refused_with_an_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "people.csv"
    path.write_bytes(f"id,score\n{text}".encode("utf-8", "surrogatepass"))
    try:
        labels = read_labels(path, SIX)
    except AnswersUnusable:
        return
    assert all(label.points is None or 0 <= label.points <= 6 for label in labels)
