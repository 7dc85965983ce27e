"""A sample from an annotation, and the errors that an annotation can have."""

import pytest

from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASKS, Sample, datasets_in, rule_of
from mmie_tasks.core.errors import BadSample


def entry(**changes):
    task = {"context": "{image#1} q", "images_path": ["a.png"], "choice_list": ["x", "y"]}
    task.update(changes.pop("task", {}))
    return {
        "sample_id": 7,
        "task_instruction_id": 0,
        "task_instance": task,
        "response": "x",
        **changes,
    }


def read(one):
    return Sample.from_annotation(one, dataset="DocVQA", rule="choice", instructions=["Do it."])


def test_a_sample_has_an_id_and_a_level():
    sample = read(entry())
    assert (sample.id, sample.level, sample.choices) == ("DocVQA/7", "few", ("x", "y"))


@pytest.mark.parametrize(
    ("n", "level"), [(0, "few"), (5, "few"), (6, "medium"), (31, "medium"), (32, "many")]
)
def test_the_level_counts_the_annotated_images(n, level):
    assert read(entry(task={"images_path": ["a.png"] * n})).level == level


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        pytest.param([], ": not an object", id="no object"),
        pytest.param(entry(sample_id=None), "`sample_id`", id="no id"),
        pytest.param(entry(sample_id=True), "`sample_id`", id="a truth for an id"),
        pytest.param(entry(task_instruction_id=1), "id 7: `task_instruction_id`", id="index"),
        pytest.param(entry(task_instruction_id=-1), "`task_instruction_id`", id="negative index"),
        pytest.param(entry(task_instance=None), "id 7: `task_instance`", id="no instance"),
        pytest.param(entry(task={"context": 3}), "id 7: `task_instance.context`", id="context"),
        pytest.param(entry(task={"images_path": None}), "images_path`", id="no images"),
        pytest.param(entry(task={"images_path": "a.png"}), "images_path`", id="images as text"),
        pytest.param(entry(task={"images_path": [1]}), r"images_path\[0\]`", id="image number"),
        pytest.param(entry(response="\ud800"), "`response`", id="surrogate"),
        pytest.param(entry(task={"choice_list": ["x", None]}), r"choice_list\[1\]`", id="option"),
    ],
)
def test_a_broken_annotation_is_named(broken, names):
    with pytest.raises(BadSample, match=f"DocVQA.*{names}"):
        read(broken)


def test_null_options_mean_an_open_question():
    assert read(entry(task={"choice_list": None})).choices == ()


def test_a_gold_becomes_text_and_none_stays_none():
    assert read(entry(response=7984462)).gold == "7984462"
    assert read(entry(response=None)).gold is None


def test_an_unknown_question_type_is_named():
    with pytest.raises(BadSample, match=r"DocVQA.*'essay'"):
        rule_of("DocVQA", "essay")


def test_there_are_29_datasets_in_12_tasks_and_26_adversarial_ones():
    assert (len(DATASETS), len(TASKS), len(datasets_in("adv"))) == (29, 12, 26)
