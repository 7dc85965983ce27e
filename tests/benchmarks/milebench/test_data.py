"""MileBench's samples, and its local folders: the layouts that exist, and what can be wrong."""

from types import SimpleNamespace

import pytest
from support.example import DATA, change, copy_of

from mmie_tasks.benchmarks.milebench import data
from mmie_tasks.benchmarks.milebench.data import PARTS, dataset
from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASKS, MileSample, datasets_in
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong


def load(root, selection="DocVQA"):
    return dataset(selection, {"MILEBENCH_DATA": str(root)})


def read(**changes):
    task = {"context": "{image#1} q", "images_path": ["a.png"], "choice_list": ["x", "y"]}
    task |= changes.pop("task", {})
    fields = {"sample_id": 7, "task_instruction_id": 0, "task_instance": task, "response": "x"}
    return MileSample.from_annotation(
        fields | changes, dataset="DocVQA", rule="choice", instructions=["Do it."]
    )


def test_a_sample_has_an_id_a_level_and_the_text_of_its_gold():
    sample = read(response=7984462)
    assert (sample.id, sample.level, sample.choices) == ("DocVQA/7", "few", ("x", "y"))
    assert sample.gold == "7984462"
    assert read(response=None).gold is None
    assert read(task={"choice_list": None}).choices == ()


def test_the_level_counts_the_annotated_images():
    levels = [read(task={"images_path": ["a"] * n}).level for n in (0, 5, 6, 31, 32)]
    assert levels == ["few", "few", "medium", "medium", "many"]


def test_29_datasets_are_12_tasks_in_six_archives_and_26_have_an_adversarial_variant():
    assert (len(DATASETS), len(TASKS), len(datasets_in("adv"))) == (29, 12, 26)
    assert len(PARTS) == 6
    assert sorted(name for part in PARTS for name in part) == sorted(DATASETS)


@pytest.fixture
def root(tmp_path):
    return copy_of("DocVQA", tmp_path)


def test_all_goes_round_the_datasets():
    rows = load(DATA, "all")
    assert len(set(rows["data"])) == 1
    assert len(rows) == 2 * len(DATASETS)
    assert {row["dataset"] for row in rows.select(range(29))} == set(DATASETS)


def test_in_a_dataset_the_order_is_random_and_the_same_whatever_the_file(root):
    change(root, "DocVQA", samples_with())
    ids = list(load(root)["id"])
    assert ids[:5] == [f"DocVQA/{i}" for i in (7, 0, 6, 11, 17)]
    change(root, "DocVQA", lambda whole: whole["data"].reverse())
    assert list(load(root)["id"]) == ids


def test_the_adversarial_variant_has_its_own_file():
    plain, shuffled = load(DATA)[0], load(DATA, "DocVQA@adv")[0]
    assert plain["id"] == shuffled["id"]
    assert plain["choices"] == shuffled["choices"][::-1]
    assert len(load(DATA, "all@adv")) == 2 * 26


def test_a_folder_around_the_datasets_does_not_matter(tmp_path):
    for prefix in ("MileBench", "MLBench"):
        copy_of("DocVQA", tmp_path / prefix / prefix)
        assert len(load(tmp_path / prefix)) == 2


def test_all_takes_the_datasets_of_a_local_folder_and_names_the_others(root, logs):
    assert {row["dataset"] for row in load(root, "all")} == {"DocVQA"}
    assert "ActionLocalization" in logs[0]
    with pytest.raises(DataMissing, match=r"`TQA` is not in .*: DocVQA"):
        load(root, "TQA")


def test_an_archive_without_its_dataset_is_listed(root, monkeypatch):
    fetched = SimpleNamespace(folder=root, source="owner/repo@abc")
    monkeypatch.setattr(data, "_archive", lambda _: SimpleNamespace(fetch=lambda: fetched))
    assert set(dataset("DocVQA", {})["data"]) == {"abc"}
    with pytest.raises(DataBroken, match=r"`SlideVQA/SlideVQA\.json`.*DocVQA"):
        dataset("SlideVQA", {})


def test_a_dataset_or_variant_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(SettingWrong, match=r"no dataset `DocVqa`[\s\S]*DocVQA"):
        load(DATA, "DocVqa")
    with pytest.raises(SettingWrong, match="no variant `hard`"):
        load(DATA, "DocVQA@hard")
    with pytest.raises(SettingWrong, match="not published as `adv`"):
        load(DATA, "GPR1200@adv")


def samples_with(**changes):
    """Makes 20 samples of an annotation, of which number 7 is changed."""

    def enlarge(whole):
        first = whole["data"][0]
        task = {**first["task_instance"], **changes.pop("task", {})}
        whole["data"] = [{**first, "sample_id": i} for i in range(20)]
        whole["data"][7] |= {"task_instance": task, **changes}

    return enlarge


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda whole: whole.pop("meta_data"), "task_instruction"),
        (lambda whole: whole["meta_data"].update(task_instruction=3), "task_instruction"),
        (lambda whole: whole["meta_data"].update(question_type=3), "question_type"),
        (lambda whole: whole["data"].clear(), "no list of rows"),
        (lambda whole: whole["data"].append([]), "DocVQA: not an object"),
        (samples_with(sample_id=True), "DocVQA.*`sample_id`"),
        (samples_with(sample_id="3"), "row 7: the id 'DocVQA/3' is that of row 3"),
        (samples_with(task_instruction_id=2), "id 7: `task_instruction_id`"),
        (samples_with(task_instruction_id=-1), "id 7: `task_instruction_id`"),
        (samples_with(task={"context": 3}), "id 7: `task_instance.context`"),
        (samples_with(task={"images_path": [1]}), r"id 7: .*images_path\[0\]`"),
        (samples_with(task={"images_path": ["../../secret.png"]}), "row 7: .*'../../secret.png'"),
        (samples_with(response="\ud800"), "id 7: `response`"),
        (samples_with(task={"choice_list": ["x", None]}), r"id 7: .*choice_list\[1\]`"),
    ],
)
def test_an_annotation_that_cannot_be_used_is_named_with_row_and_field(edit, problem, root):
    (root / "secret.png").touch()
    change(root, "DocVQA", edit)
    with pytest.raises(DataBroken, match=rf"DocVQA\.json.*{problem}"):
        load(root)


def test_samples_with_the_same_images_are_one_set_of_images(root):
    change(root, "DocVQA", samples_with(task={"images_path": ["0.png"]}))
    sets = {row["id"]: row["image_set"] for row in load(root)}
    other = sets.pop("DocVQA/7")
    assert len({*sets.values()}) == 1
    assert other not in sets.values()


@pytest.mark.parametrize("names", [["0.jpg", "1.jpg"], []], ids=len)
def test_other_than_one_combined_image_of_a_sample_is_named(names, root):
    change(root, "DocVQA", samples_with(task={"combined_1_images": names}))
    assert len(load(root)) == 20
    with pytest.raises(DataBroken, match=f"sample 7: `combined_1_images` names {len(names)} files"):
        load(root, "DocVQA@combined1")
