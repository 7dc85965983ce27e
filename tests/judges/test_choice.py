"""Which judge a run has: its flags, variables and defaults, and whether it is the paper's."""

import pytest

from mmie_tasks.core.choice import Choice, parse_choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.choice import (
    ALL_OTHERS,
    ChosenJudges,
    choose_judges,
    environment_choices,
    is_paper_judge,
    open_judge,
    parse_flags,
    split_eval_arguments,
)
from mmie_tasks.record.signature import Signature

DEFAULT = "openai:gpt-4o-2024-11-20"


def text_of(judge):
    return ",".join([judge.name, *(f"{key}={value}" for key, value in judge.options.items())])


def texts_of(choices):
    return {name: [text_of(judge) for judge in chosen.judges] for name, chosen in choices.items()}


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("openai", "openai", {}),
        ("openai:a:b", "openai", {"model": "a:b"}),
        ("openai:a/b?c=d,timeout=60", "openai", {"model": "a/b?c=d", "timeout": "60"}),
        ('openai:m,a={"b": [1, 2]}', "openai", {"model": "m", "a": '{"b": [1, 2]}'}),
        ("openai:base_url=http://h:1/v1?a=b", "openai", {"base_url": "http://h:1/v1?a=b"}),
    ],
)
def test_a_choice_is_parsed(text, name, options):
    assert parse_choice(text, "here") == Choice(name=name, options=options, source="here")


@pytest.mark.parametrize(
    "text", ["", ":gpt", ",a=1", "openai:a=1,b", "openai:a=1,a=2", "openai:,=3"]
)
def test_invalid_choices_are_refused_without_repeating_them(text):
    with pytest.raises(SettingWrong, match=r"^here names"):
        parse_choice(text, "here")


OURS = "openai,model=gpt-4o-2024-11-20"
JUDGE = "MMIE_TASKS_JUDGE"


@pytest.mark.parametrize(
    ("flags", "variables", "judges"),
    [
        ([], {}, [OURS]),
        ([], {JUDGE: "openai:v"}, ["openai,model=v"]),
        (["openai:f"], {JUDGE: "openai:v"}, ["openai,model=f"]),
        (["openai:max_cost=2"], {}, [f"{OURS},max_cost=2"]),
        ([], {"MODEL_VERSION": "s"}, ["openai,model=s"]),
        ([], {"MODEL_VERSION": "s", JUDGE: "openai:v"}, ["openai,model=v"]),
        (["mia_bench=replay", "mmie=mmie_score"], {}, ["replay"]),
        (["mmie_score", "mia_bench=replay"], {}, ["replay"]),
        (["mmie_score", "mmie=replay"], {}, ["mmie_score"]),
        (["mmie=replay"], {JUDGE: "mia_bench=mmie_score"}, ["mmie_score"]),
        (["mia_bench=openai", "mmie=replay", "mia_bench=mmie_score"], {}, [OURS, "mmie_score"]),
    ],
)
def test_flags_come_before_variables_and_those_before_the_default(flags, variables, judges):
    chosen = choose_judges("mia_bench", DEFAULT, variables, parse_flags(flags, ()))
    assert [text_of(judge) for judge in chosen.judges] == judges
    for name in ("MODEL_VERSION", "JUDGE_MODEL_NAME"):
        is_source = variables.get(name) and f"model={variables[name]}" in judges[0]
        assert bool(is_source) == (f"`{name}`" in chosen.judges[0].source)


def test_the_variable_chooses_one_judge_or_several_for_each_benchmark():
    text = "openai:m , timeout=60\n mmie=openai:base_url=http://a/v1  mmie=replay:path=/a b/c"
    assert texts_of(environment_choices({"MMIE_TASKS_JUDGE": text})) == {
        "": ["openai,model=m,timeout=60"],
        "mmie": ["openai,base_url=http://a/v1", "replay,path=/a b/c"],
    }


@pytest.mark.parametrize(
    ("cache", "file"),
    [
        pytest.param({}, "home/mmie-tasks/judge/replies.sqlite3", id="by-default"),
        pytest.param({"cache": "{}/mine.db"}, "mine.db", id="path"),
        pytest.param({"cache": "off"}, None, id="off"),
    ],
)
def test_every_judge_is_cached_unless_the_cache_is_off(tmp_path, cache, file):
    options = {"model": "m", **{k: v.format(tmp_path) for k, v in cache.items()}}
    environment = {"XDG_CACHE_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "x"}
    judge = open_judge(Choice(name="openai", options=options), environment)
    assert (judge.cache and judge.cache.path) == (None if file is None else tmp_path / file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "choices"),
    [
        ("--judge-args=timeout=60 --judge openai:m", {"": ["openai,model=m,timeout=60"]}),
        ("--judge mmie=openai --judge_args timeout=60", {"mmie": ["openai,timeout=60"]}),
        ("--judge mmie=replay --judge openai:m", {"mmie": ["replay"], "": ["openai,model=m"]}),
        ("--judgement", {}),
    ],
)
def test_the_judge_flags_are_taken_from_the_command_line(flags, choices):
    split = split_eval_arguments(["eval", *flags.split(), "--tasks", "x"])
    assert split.for_runner == ["eval", *["--judgement"] * (not choices), "--tasks", "x"]
    assert texts_of(split.choices) == choices


SEVERAL = "`--judge NAME:MODEL,timeout=...`"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--judge opnai:x", "There is no judge `opnai`"),
        ("--judge openai:x --judge_args tiemout=60", "no option `tiemout`"),
        ("--judge openai:x --judge_args timeout=soon", "`timeout=soon`"),
        ("--judge openai --judge openai", "The judges 1 and 2 of the panel are the same"),
        ("--judge openai:a --judge openai:b --judge_args timeout=60", SEVERAL),
        ("--judge openai:a --judge openai:b --judge_args =sk-1234567", "`k=v,k=v`"),
        ("--judge openai:a --judge openai:b,api_key=sk-1234567", "no option `api_key`"),
        ("--judge_args a=b", "needs `--judge`"),
    ],
)
def test_invalid_judge_flags_are_refused(flags, message):
    with pytest.raises(SettingWrong) as error:
        split_eval_arguments(flags.split())
    assert message in str(error.value)
    assert "1234567" not in str(error.value)


MIN = {"min_coverage": "0.5"}


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ("--judge_args min_coverage=0.5", {"": MIN}),
        ("--judge openai:a --judge_args timeout=9,min_coverage=0.5", {"": MIN}),
        ("--judge mmie=openai:m,min_coverage=0.5 --judge replay:path=a", {"mmie": MIN, "": {}}),
        (
            "--judge mmie=openai:a --judge mia_bench=openai:b --judge_args min_coverage=0.5",
            {"mmie": {}, "mia_bench": {}, "": MIN},
        ),
    ],
)
def test_settings_of_benchmarks_may_be_given_like_options_of_a_judge(flags, settings):
    is_setting = {"min_coverage"}.__contains__
    choices = split_eval_arguments(flags.split(), is_setting).choices
    assert {name: dict(chosen.settings) for name, chosen in choices.items()} == settings
    assert "min_coverage" not in str(texts_of(choices))
    with pytest.raises(SettingWrong, match="`steps`"):
        split_eval_arguments(["--judge", "openai:a,steps=untold"], is_setting)


SIGNATURE = {"judge": "openai", "model": "gpt-4o-2024-11-20", "t": "0"}


@pytest.mark.parametrize(
    ("default", "paper", "signature", "is_papers"),
    [
        (DEFAULT, "", SIGNATURE, True),
        (DEFAULT, "", {**SIGNATURE, "model": "o1"}, False),
        (DEFAULT, "", {**SIGNATURE, "host": "h"}, False),
        (DEFAULT, "", {**SIGNATURE, "host": "me.openai.azure.com"}, True),
        (DEFAULT, "", {}, False),
        (f"{DEFAULT},base_url=http://h/v1", "", {**SIGNATURE, "host": "h"}, True),
        (DEFAULT, "openai:gpt-4o", SIGNATURE, True),
        ("mmie_score", "", {"judge": "mmie_score", "model": "c@1"}, True),
        (DEFAULT, "mmie_score", SIGNATURE, False),
    ],
)
def test_the_papers_judge_is_known_by_kind_model_and_server(default, paper, signature, is_papers):
    chosen, of_judge = (
        ChosenJudges(judges=(parse_choice(default, ""),)),
        Signature.of_judges([signature]),
    )
    assert is_paper_judge(chosen, of_judge, default, paper) is is_papers


def test_a_panel_is_not_the_papers_judge():
    panel = parse_flags([DEFAULT, "openai:gpt-4o"], ())[ALL_OTHERS]
    assert not is_paper_judge(panel, Signature.of_judges([SIGNATURE]), DEFAULT)
