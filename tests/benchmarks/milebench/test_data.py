"""MileBench's samples, and its local folders: the layouts that exist, and what can be wrong."""

import pytest
from support.example import DATA, change, copy_of

from mmie_tasks.benchmarks.milebench.data import dataset
from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASKS, MileSample, datasets_in
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing, SettingWrong


def load(root, selection="DocVQA"):
    return dataset(selection, {"MILEBENCH_DATA": str(root)})


def entry(**changes):
    task = {"context": "{image#1} q", "images_path": ["a.png"], "choice_list": ["x", "y"]}
    task.update(changes.pop("task", {}))
    fields = {"sample_id": 7, "task_instruction_id": 0, "task_instance": task, "response": "x"}
    return {**fields, **changes}


def read(one):
    return MileSample.from_annotation(one, dataset="DocVQA", rule="choice", instructions=["Do it."])


def test_a_sample_has_an_id_a_level_and_the_text_of_its_gold():
    sample = read(entry(response=7984462))
    assert (sample.id, sample.level, sample.choices) == ("DocVQA/7", "few", ("x", "y"))
    assert sample.gold == "7984462"
    assert read(entry(response=None)).gold is None
    assert read(entry(task={"choice_list": None})).choices == ()


@pytest.mark.parametrize(
    ("n", "level"), [(0, "few"), (5, "few"), (6, "medium"), (31, "medium"), (32, "many")]
)
def test_the_level_counts_the_annotated_images(n, level):
    assert read(entry(task={"images_path": ["a.png"] * n})).level == level


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        pytest.param([], ": not an object", id="no object"),
        pytest.param(entry(sample_id=True), "`sample_id`", id="a truth for an id"),
        pytest.param(entry(task_instruction_id=1), "id 7: `task_instruction_id`", id="index"),
        pytest.param(entry(task_instruction_id=-1), "`task_instruction_id`", id="negative index"),
        pytest.param(entry(task={"context": 3}), "id 7: `task_instance.context`", id="context"),
        pytest.param(entry(task={"images_path": [1]}), r"images_path\[0\]`", id="image number"),
        pytest.param(entry(response="\ud800"), "`response`", id="surrogate"),
        pytest.param(entry(task={"choice_list": ["x", None]}), r"choice_list\[1\]`", id="option"),
    ],
)
def test_a_broken_annotation_is_named(broken, names):
    with pytest.raises(BadSample, match=f"DocVQA.*{names}"):
        read(broken)


def test_there_are_29_datasets_in_12_tasks_and_26_adversarial_ones():
    assert (len(DATASETS), len(TASKS), len(datasets_in("adv"))) == (29, 12, 26)


@pytest.fixture
def root(tmp_path):
    return copy_of("DocVQA", tmp_path)


def test_a_row_has_the_fields_of_scoring_and_paths_for_images():
    row = load(DATA)[0]
    assert row["id"] == "DocVQA/0"
    assert row["gold"] in row["choices"]
    assert all(path.startswith(str(DATA / "DocVQA" / "images")) for path in row["images"])
    assert row["data"].startswith("sha256:")


def test_all_goes_round_the_datasets():
    rows = load(DATA, "all")
    assert len(set(rows["data"])) == 1
    assert len(rows) == 2 * len(DATASETS)
    assert {row["dataset"] for row in rows.select(range(29))} == set(DATASETS)


def test_in_a_dataset_the_order_is_random_and_the_same_whatever_the_file(root):
    def enlarge(whole):
        whole["data"] = [{**whole["data"][0], "sample_id": i} for i in range(20)]

    change(root, "DocVQA", enlarge)
    ids = list(load(root)["id"])
    assert ids[:5] == [f"DocVQA/{i}" for i in (7, 0, 6, 11, 17)]
    change(root, "DocVQA", lambda whole: whole["data"].reverse())
    assert list(load(root)["id"]) == ids


def test_the_adversarial_variant_has_its_own_file():
    plain, shuffled = load(DATA)[0], load(DATA, "DocVQA@adv")[0]
    assert plain["id"] == shuffled["id"]
    assert plain["choices"] == shuffled["choices"][::-1]
    assert len(load(DATA, "all@adv")) == 2 * 26


@pytest.mark.parametrize("prefix", ["MileBench", "MLBench"])
def test_a_folder_around_the_datasets_does_not_matter(prefix, tmp_path):
    copy_of("DocVQA", tmp_path / prefix)
    assert len(load(tmp_path)) == 2


def test_all_takes_the_datasets_of_a_local_folder(root):
    assert {row["dataset"] for row in load(root, "all")} == {"DocVQA"}


def test_a_missing_dataset_is_named_with_the_existing_ones(root):
    with pytest.raises(DataMissing, match=r"`TQA` is not in .* contains: DocVQA"):
        load(root, "TQA")


def test_a_dataset_or_variant_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(SettingWrong, match=r"no dataset `DocVqa`[\s\S]*DocVQA"):
        load(DATA, "DocVqa")
    with pytest.raises(SettingWrong, match="no variant `hard`"):
        load(DATA, "DocVQA@hard")
    with pytest.raises(SettingWrong, match="not published as `adv`"):
        load(DATA, "GPR1200@adv")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"data": []}', id="no meta_data"),
        pytest.param(b'{"meta_data": {"task_instruction": []}, "data": []}', id="no samples"),
    ],
)
def test_a_file_that_is_not_official_json_is_named(content, root):
    path = root / "DocVQA" / "DocVQA.json"
    path.write_bytes(content)
    with pytest.raises(DataBroken, match=r"DocVQA\.json"):
        load(root)


def edit_sample(entry, path=None, **fields):
    instance = dict(entry["task_instance"])
    if path:
        instance["images_path"] = [path]
    return {**entry, "task_instance": instance, **fields}


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        pytest.param(
            {"path": "../../secret.png"}, "7: The dataset names '../../secret.png'", id="outside"
        ),
        pytest.param(
            {"sample_id": "3"}, "row 7: the id 'DocVQA/3' is that of row 3", id="repeated"
        ),
    ],
)
def test_a_sample_that_cannot_be_used_is_an_error_that_names_row_and_field(edit, problem, root):
    (root / "secret.png").write_bytes(b"x")

    def enlarge(whole):
        samples = [{**whole["data"][0], "sample_id": i} for i in range(20)]
        whole["data"] = [*samples[:7], edit_sample(samples[7], **edit), *samples[8:]]

    change(root, "DocVQA", enlarge)
    with pytest.raises(DataBroken) as caught:
        load(root)
    assert problem in caught.value.message
    assert "DocVQA.json" in caught.value.message


@pytest.mark.parametrize("field", ["task_instruction", "question_type"])
def test_meta_data_that_is_not_official_is_named(field, root):
    change(root, "DocVQA", lambda whole: whole["meta_data"].update({field: 3}))
    with pytest.raises(DataBroken, match=field):
        load(root)


@pytest.mark.parametrize("names", [["0.jpg", "1.jpg"], []], ids=len)
def test_other_than_one_combined_image_of_a_sample_is_named(names, root):
    def add(whole):
        whole["data"][0]["task_instance"]["combined_1_images"] = names

    change(root, "DocVQA", add)
    assert len(load(root)) == 2
    with pytest.raises(DataBroken, match=f"sample 0: `combined_1_images` names {len(names)} files"):
        load(root, "DocVQA@combined1")
