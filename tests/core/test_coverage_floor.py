"""The share of scored samples below which no mean is reported."""

import pytest
from support.signatures import signature_from

from mmie_tasks.benchmarks.settings import TaskSettings, read_settings
from mmie_tasks.core import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import weighted_mean
from mmie_tasks.record.signature import Signature


@pytest.mark.parametrize(
    ("setting", "scored", "has_mean"),
    [
        pytest.param({}, 9, True, id="default, at it"),
        pytest.param({}, 8, False, id="default, below"),
        pytest.param({"min_coverage": "0.5"}, 5, True, id="set, at it"),
        pytest.param({"min_coverage": 0.5}, 4, False, id="set, below"),
        pytest.param({"min_coverage": 0}, 1, True, id="none at all"),
        pytest.param({"min_coverage": "1"}, 9, False, id="all"),
        pytest.param({"min_coverage": 1}, 10, True, id="all, complete"),
    ],
)
def test_a_mean_needs_the_share_that_is_set(setting, scored, has_mean):
    verdicts = [Scored(0.5)] * scored + [Unscored("no_answer")] * (10 - scored)
    settings = read_settings(TaskSettings, "mmie", {"version": "1-A", **setting}, {})
    mean = weighted_mean({"all": verdicts}, {"all": 1}, settings.min_coverage)
    assert (mean.value is not None) == has_mean


def test_without_any_score_there_is_no_mean_at_any_floor():
    assert weighted_mean({"all": [Unscored("no_answer")] * 5}, {"all": 1}, 0).value is None


@pytest.mark.parametrize(
    ("setting", "signature"), [(0.90, ""), (0.5, "|min_coverage:0.5"), (0, "|min_coverage:0")]
)
def test_only_another_floor_than_the_default_is_in_the_signature(setting, signature):
    made = Signature.of_run({"task": "a"}, signature_from("judge:a"), setting)
    assert str(made) == f"judge:a|task:a{signature}|pkg:{__version__}"


@pytest.mark.parametrize("setting", ["half", "90", "-0.1", "nan", "1.01", "90 %"])
def test_a_floor_that_is_no_share_is_refused_with_a_hint(setting):
    with pytest.raises(SettingWrong, match=r"`mmie`.*`min_coverage=.*`[\s\S]*hint: "):
        read_settings(TaskSettings, "mmie", None, {"min_coverage": setting})


def test_an_entry_of_the_metadata_that_is_nearly_a_setting_is_refused():
    with pytest.raises(SettingWrong, match=r"`min_coverag`[\s\S]*`min_coverage`"):
        read_settings(TaskSettings, "mmie", {"min_coverag": 0.5}, {})
    with pytest.raises(SettingWrong, match="`steps`"):
        read_settings(TaskSettings, "mia_bench", {}, {"steps": "told"})
