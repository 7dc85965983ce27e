"""Odd rows of MMIE's data file: judged as by the official script, or left out and counted."""

import pytest
from support.mmie_data import conversation, folder, in_file_order, judge_input, segment

from mmie_tasks.benchmarks.mmie import benchmark
from mmie_tasks.benchmarks.mmie.data import dataset
from mmie_tasks.core.errors import DataBroken, SettingWrong

USUAL = [judge_input(f"MSR-{i}", gold=[segment("7")]) for i in range(20)]


def load(path, rows, selection="all", **environment):
    folder(path, rows, pictures=False)
    return in_file_order(dataset(selection, {"MMIE_DATA": str(path), **environment}))


def odd(sample_id="MSR-odd", question="Why?", gold="7", **more):
    return judge_input(sample_id, question, gold, **more)


UNUSABLE = [
    pytest.param(odd(7), "row 3: `id` is int", id="id is no string"),
    pytest.param(odd("X-1"), "row 3, id 'X-1': `id` contains none of SA", id="no category"),
    pytest.param(odd("MSR-0"), "row 3: the id 'MSR-0' is that of row 0", id="repeated"),
    pytest.param(
        odd(question=[segment("Look", "../secret.png")]),
        "row 3, id 'MSR-odd': its question names '../secret.png', not a file inside",
        id="outside",
    ),
    pytest.param(odd(question=[{"text": 5}]), "`question[0].text` is int", id="question"),
]


@pytest.mark.parametrize(("row", "problem"), UNUSABLE)
def test_a_row_that_cannot_be_judged_is_left_out_and_counted(row, problem, logs, tmp_path):
    (tmp_path / "secret.png").write_bytes(b"x")
    docs = load(tmp_path / "in", [*USUAL[:3], row, *USUAL[3:]])
    assert list(docs["id"]) == [usual["id"] for usual in USUAL]
    assert sorted(docs["row"]) == list(docs["index"]) == list(range(20))
    [line] = [line for line in logs if "left out" in line]
    assert line.startswith("MMIE: 1 of 21 rows cannot be used and are left out")
    assert problem in line
    assert ",left_out=1,rows=" in docs[0]["data"]
    assert docs[0]["data"] in benchmark.JUDGED.provenance(docs[0])


def test_stop_ends_the_run_at_such_a_row(tmp_path):
    with pytest.raises(DataBroken, match="row 3: `id` is int"):
        load(tmp_path, [*USUAL[:3], odd(7), *USUAL[3:]], MMIE_TASKS_ODD_ROWS="stop")


def test_a_gold_image_outside_the_folder_is_not_opened_and_its_row_is_judged(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"x")
    row = odd(gold=[segment("7", "../secret.png")])
    docs = load(tmp_path / "in", [row, *USUAL], MMIE_TASKS_ODD_ROWS="stop")
    assert docs[0]["gold"] == [segment("7")]
    assert "left_out" not in docs[0]["data"]


def test_one_warning_names_the_first_rows(logs, tmp_path):
    load(tmp_path, [*(odd(i) for i in range(4)), *USUAL, *more_usual()])
    [line] = [line for line in logs if "left out" in line]
    assert [f"row {i}: `id` is int" in line for i in range(4)] == [True, True, True, False]
    assert line.rstrip().endswith("; ...")


def more_usual():
    return [odd(f"SA-{i}") for i in range(30)]


def test_other_rows_left_out_of_one_file_are_another_revision(tmp_path):
    def rows(position):
        return [*USUAL[:position], odd(7), *USUAL[position:]]

    first, second = (load(tmp_path, rows(n))[0]["data"] for n in (3, 4))
    assert first.rpartition(",")[2] != second.rpartition(",")[2]


@pytest.mark.parametrize(("count", "stops"), [(2, False), (3, True)])
def test_a_file_with_more_than_a_tenth_of_odd_rows_is_the_wrong_file(count, stops, tmp_path):
    rows = [*(odd(i) for i in range(count)), *USUAL]
    if not stops:
        assert len(load(tmp_path, rows)) == 20
        return
    with pytest.raises(DataBroken, match=r"row 0: .*3 of 23 rows cannot be used, more than 10 %"):
        load(tmp_path, rows)


def test_a_setting_of_another_value_is_refused_with_a_hint(tmp_path):
    with pytest.raises(SettingWrong, match=r"valid are skip and stop[\s\S]*hint: .*ODD_ROWS=skip"):
        load(tmp_path, [conversation("SA-1")], MMIE_TASKS_ODD_ROWS="yes")
