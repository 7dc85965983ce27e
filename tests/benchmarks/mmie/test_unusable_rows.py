"""Rows of MMIE's data file that cannot be used."""

import pytest
from support.mmie_data import folder, in_file_order, judge_input, segment

from mmie_tasks.benchmarks.mmie.data import dataset
from mmie_tasks.core.errors import DataBroken

USUAL = [judge_input(f"MSR-{i}", gold=[segment("7")]) for i in range(20)]


def load(path, rows):
    folder(path, rows, pictures=False)
    return in_file_order(dataset("all", {"MMIE_DATA": str(path)}))


def odd(sample_id="MSR-odd", question="Why?", gold="7", **more):
    return judge_input(sample_id, question, gold, **more)


UNUSABLE = [
    pytest.param(odd(7), "row 3, id 7: `id`", id="id is no string"),
    pytest.param(odd("X-1"), "row 3, id 'X-1': `id` contains none of SA", id="no category"),
    pytest.param(odd("MSR-0"), "row 3: the id 'MSR-0' is that of row 0", id="repeated"),
    pytest.param(
        odd(question=[segment("Look", "../secret.png")]),
        "row 3, id 'MSR-odd': its question names '../secret.png', not a file inside",
        id="outside",
    ),
    pytest.param(odd(question=[{"text": [5]}]), "`question[0].text`", id="question"),
]


@pytest.mark.parametrize(("row", "problem"), UNUSABLE)
def test_a_row_that_cannot_be_judged_is_an_error_that_names_row_and_field(row, problem, tmp_path):
    (tmp_path / "secret.png").write_bytes(b"x")
    with pytest.raises(DataBroken) as caught:
        load(tmp_path / "in", [*USUAL[:3], row, *USUAL[3:]])
    assert problem in caught.value.message
    assert "data.json" in caught.value.message


def test_a_gold_image_outside_the_folder_is_not_opened_and_its_row_is_judged(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"x")
    docs = load(tmp_path / "in", [odd(gold=[segment("7", "../secret.png")]), *USUAL])
    assert docs[0]["gold"] == [segment("7")]
