from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.core.choice import Choice, parse_choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.choice import (
    ALL_OTHERS,
    ChosenJudges,
    JudgeChoices,
    choose_judges,
    environment_choices,
    is_paper_judge,
    open_judge,
    parse_flags,
    split_eval_arguments,
)
from mmie_tasks.record.signature import Signature

DEFAULT = "openai:gpt-4o-2024-11-20"


def only(judge: Choice) -> ChosenJudges:
    return ChosenJudges(judges=(judge,))


def choose_judge(environment: dict[str, str], launched: JudgeChoices) -> Choice:
    """The only judge of MIA-Bench."""
    (judge,) = choose_judges("mia_bench", DEFAULT, environment, launched).judges
    return judge


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("openai", "openai", {}),
        ("openai:gpt-4o", "openai", {"model": "gpt-4o"}),
        ("openai:a:b", "openai", {"model": "a:b"}),
        ("openai:gpt-4o,timeout=60", "openai", {"model": "gpt-4o", "timeout": "60"}),
        (" replay:path=/a/b , model=x", "replay", {"path": "/a/b", "model": "x"}),
        ("replay,path=/a:b", "replay", {"path": "/a:b"}),
        ("openai:a/b?c=d,timeout=60", "openai", {"model": "a/b?c=d", "timeout": "60"}),
        (
            'openai:m,extra_body={"a": [1, 2], "b": {}}',
            "openai",
            {"model": "m", "extra_body": '{"a": [1, 2], "b": {}}'},
        ),
        ("openai:base_url=http://h:1/v1?a=b", "openai", {"base_url": "http://h:1/v1?a=b"}),
    ],
)
def test_a_choice_is_parsed(text: str, name: str, options: dict[str, str]) -> None:
    assert parse_choice(text, "here") == Choice(name=name, options=options, source="here")


@pytest.mark.parametrize(
    "text", ["", ":gpt", ",a=1", "openai:a=1,b", "openai:a=1,a=2", "openai:,=3"]
)
def test_invalid_choices_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(SettingWrong, match=r"^here names"):
        parse_choice(text, "here")


def model_of(environment: dict[str, str], launched: Choice | None = None) -> str | None:
    choices = {} if launched is None else {ALL_OTHERS: only(launched)}
    return choose_judge(environment, choices).options.get("model")


def test_the_launcher_comes_before_the_variable_and_that_before_the_default() -> None:
    launched = Choice(name="openai", options={"model": "launched"})
    variable = {"MMIE_TASKS_JUDGE": "openai:variable"}
    assert model_of(variable, launched) == "launched"
    assert model_of(variable) == "variable"
    assert model_of({}) == "gpt-4o-2024-11-20"
    assert model_of({"MMIE_TASKS_JUDGE": " "}) == "gpt-4o-2024-11-20"


def test_an_option_without_a_model_keeps_the_default_model() -> None:
    launched = Choice(name="openai", options={"max_cost": "2"})
    choice = choose_judge({}, {ALL_OTHERS: only(launched)})
    assert choice.options == {"model": "gpt-4o-2024-11-20", "max_cost": "2"}


@pytest.mark.parametrize(
    ("environment", "model"),
    [
        pytest.param({"MODEL_VERSION": "shared"}, "shared", id="shared"),
        pytest.param(
            {"MODEL_VERSION": "shared", "JUDGE_MODEL_NAME": "judge"}, "judge", id="judge-first"
        ),
        pytest.param(
            {"MODEL_VERSION": "shared", "MMIE_TASKS_JUDGE": "openai:chosen"}, "chosen", id="chosen"
        ),
        pytest.param({"MODEL_VERSION": ""}, "gpt-4o-2024-11-20", id="empty"),
    ],
)
def test_model_variables_replace_the_default_model_only(
    environment: dict[str, str], model: str
) -> None:
    assert model_of(environment) == model


def test_the_source_names_the_variable_of_the_model() -> None:
    assert "`MODEL_VERSION`" in choose_judge({"MODEL_VERSION": "x"}, {}).source


def test_another_judge_takes_no_option_from_the_default() -> None:
    replay = Choice(name="replay", options={"path": "x"})
    assert choose_judge({"MODEL_VERSION": "y"}, {ALL_OTHERS: only(replay)}) == replay


@pytest.mark.parametrize(
    ("launched", "variable", "judge"),
    [
        pytest.param(["mia_bench=replay", "mmie=mmie_score"], "", "replay", id="named"),
        pytest.param(["mmie_score", "mia_bench=replay"], "", "replay", id="named-before-plain"),
        pytest.param(["mmie_score", "mmie=replay"], "", "mmie_score", id="plain-for-the-rest"),
        pytest.param(["mmie=replay"], "", "openai", id="its-default"),
        pytest.param(["mmie=replay"], "mia_bench=mmie_score", "mmie_score", id="variable"),
        pytest.param(["replay"], "mia_bench=mmie_score", "replay", id="launcher-before-variable"),
    ],
)
def test_the_judge_of_a_benchmark_is_the_named_one_then_the_plain_one(
    launched: list[str], variable: str, judge: str
) -> None:
    environment = {"MMIE_TASKS_JUDGE": variable}
    assert choose_judge(environment, parse_flags(launched, ())).name == judge


def named(choices: JudgeChoices) -> dict[str, tuple[str, dict[str, str]]]:
    return {
        benchmark: (judge.name, dict(judge.options))
        for benchmark, chosen in choices.items()
        for judge in chosen.judges
    }


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        pytest.param(" ", {}, id="empty"),
        pytest.param(
            "openai:m , timeout=60", {"": ("openai", {"model": "m", "timeout": "60"})}, id="plain"
        ),
        pytest.param(
            "replay:path=/a b/c", {"": ("replay", {"path": "/a b/c"})}, id="path-with-a-space"
        ),
        pytest.param(
            "openai:base_url=http://a/v1\n mmie=mmie_score  mia_bench=replay:path=x",
            {
                "": ("openai", {"base_url": "http://a/v1"}),
                "mmie": ("mmie_score", {}),
                "mia_bench": ("replay", {"path": "x"}),
            },
            id="plain-and-named",
        ),
    ],
)
def test_the_variable_chooses_one_judge_or_one_for_each_benchmark(
    text: str, choices: dict[str, tuple[str, dict[str, str]]]
) -> None:
    assert named(environment_choices({"MMIE_TASKS_JUDGE": text})) == choices


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["openai", "openai:b", "mmie_score"], id="all-benchmarks"),
        pytest.param(
            ["mia_bench=openai", "mmie=replay", "mia_bench=openai:b", "mia_bench=mmie_score"],
            id="one",
        ),
    ],
)
def test_several_judges_for_one_benchmark_are_a_panel(texts: list[str]) -> None:
    chosen = choose_judges("mia_bench", DEFAULT, {}, parse_flags(texts, ()))
    models = [f"{judge.name}:{judge.options.get('model', '')}" for judge in chosen.judges]
    assert models == [DEFAULT, "openai:b", "mmie_score:"]


def test_the_variable_may_name_a_panel_too() -> None:
    text = "mmie_score mmie=openai:a mmie=replay:path=/a b"
    choices = environment_choices({"MMIE_TASKS_JUDGE": text})
    assert {name: len(chosen.judges) for name, chosen in choices.items()} == {"": 1, "mmie": 2}


@pytest.mark.parametrize(
    ("cache", "file"),
    [
        pytest.param({}, "home/mmie-tasks/judge/replies.sqlite3", id="by-default"),
        pytest.param({"cache": "on"}, "home/mmie-tasks/judge/replies.sqlite3", id="on"),
        pytest.param({"cache": "{}/mine.db"}, "mine.db", id="path"),
        pytest.param({"cache": "off"}, None, id="off"),
        pytest.param({"cache": "False"}, None, id="false"),
    ],
)
def test_every_judge_is_cached_unless_the_cache_is_off(
    tmp_path: Path, cache: dict[str, str], file: str | None
) -> None:
    options = {"model": "m", **{k: v.format(tmp_path) for k, v in cache.items()}}
    environment = {"XDG_CACHE_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "x"}
    judge = open_judge(Choice(name="openai", options=options), environment)
    path = judge.cache and judge.cache.path
    assert path == (None if file is None else tmp_path / file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "choices"),
    [
        ("--judge openai", {"": ["openai"]}),
        ("--judge=openai:gpt-4o", {"": ["openai,model=gpt-4o"]}),
        ("--judge openai --judge_args timeout=60", {"": ["openai,timeout=60"]}),
        ("--judge-args=timeout=60 --judge openai:m", {"": ["openai,model=m,timeout=60"]}),
        ("--judge replay:path=it's=f.jsonl", {"": ["replay,path=it's=f.jsonl"]}),
        ("--judge mmie=openai --judge_args timeout=60", {"mmie": ["openai,timeout=60"]}),
        (
            "--judge mmie=mmie_score --judge openai:m,timeout=60",
            {"mmie": ["mmie_score"], "": ["openai,model=m,timeout=60"]},
        ),
        ("--judge mmie=openai:m --judge mmie=replay", {"mmie": ["openai,model=m", "replay"]}),
    ],
)
def test_the_judge_flags_are_taken_from_the_command_line(
    flags: str, choices: dict[str, list[str]]
) -> None:
    split = split_eval_arguments(["eval", *flags.split(), "--tasks", "x"])
    assert split.for_runner == ["eval", "--tasks", "x"]
    assert {
        benchmark: [
            ",".join([judge.name, *(f"{key}={value}" for key, value in judge.options.items())])
            for judge in chosen.judges
        ]
        for benchmark, chosen in split.choices.items()
    } == choices


def test_a_command_without_a_judge_is_not_changed() -> None:
    line = ["eval", "--launcher_args", "name=sglang", "--judgement"]
    split = split_eval_arguments(line)
    assert (split.for_runner, split.choices) == (line, {})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--judge opnai:x", "There is no judge `opnai`"),
        ("--judge openai:x --judge_args tiemout=60", "no option `tiemout`"),
        ("--judge openai:x --judge_args timeout=soon", "`timeout=soon`"),
        ("--judge openai:x --judge_args api_key=sk-1234567", "takes no `api_key=`"),
        ("--judge openai:x --judge_args oops", "invalid form"),
        ("--judge openai --judge openai", "The judges 1 and 2 of the panel are the same"),
        (
            "--judge openai:a --judge openai:b --judge_args timeout=60",
            "`--judge NAME:MODEL,timeout=...`",
        ),
        ("--judge openai:a --judge openai:b --judge_args median", "is in an invalid"),
        ("--judge openai:a --judge openai:b --judge_args =sk-1234567", "`k=v,k=v`"),
        ("--judge openai:a --judge repaly", "There is no judge `repaly`"),
        ("--judge openai:a --judge openai:b,api_key=sk-1234567", "A judge takes no `api_key=`"),
        ("--judge_args a=b", "needs `--judge`"),
        ("--judge openai --judge_args timeout=1 --judge_args timeout=2", "given twice"),
        (
            "--judge mmie=openai --judge replay --judge_args timeout=1",
            "`--judge NAME:MODEL,timeout=...`",
        ),
        ("--judge openai:x --launcher_args name=sglang", "both given"),
    ],
)
def test_invalid_judge_flags_are_refused(flags: str, message: str) -> None:
    with pytest.raises(SettingWrong) as error:
        split_eval_arguments(flags.split())
    assert message in str(error.value)
    assert "1234567" not in str(error.value)


def test_settings_of_benchmarks_may_be_given_like_options_of_a_judge() -> None:
    def settings(flags: str) -> dict[str, dict[str, str]]:
        choices = split_eval_arguments(
            flags.split(), {"min_coverage", "missing_images"}.__contains__
        ).choices
        assert not any("min_coverage" in one.options for c in choices.values() for one in c.judges)
        return {benchmark: dict(chosen.settings) for benchmark, chosen in choices.items()}

    assert settings("--judge_args min_coverage=0.5") == {"": {"min_coverage": "0.5"}}
    assert settings("--judge mmie=openai:m,missing_images=count --judge replay:path=a") == {
        "mmie": {"missing_images": "count"},
        "": {},
    }
    for judges in ("openai:a --judge openai:b", "mmie=openai:a --judge mia_bench=openai:b"):
        flags = f"--judge {judges} --judge_args ,min_coverage=0.5,"
        assert settings(flags)[""] == {"min_coverage": "0.5"}
    assert settings("--judge openai:a --judge_args timeout=9,min_coverage=0.5") == {
        "": {"min_coverage": "0.5"}
    }
    with pytest.raises(SettingWrong, match="`steps`"):
        settings("--judge openai:a,steps=untold")


@pytest.mark.parametrize("flag", ["--judge", "--judge_args"])
def test_a_judge_flag_without_a_value_ends_with_status_2(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        split_eval_arguments(["eval", flag])
    assert stop.value.code == 2
    assert f"argument {flag}: expected one argument" in capsys.readouterr().err


OURS = {"judge": "openai", "model": "gpt-4o-2024-11-20", "t": "0"}


@pytest.mark.parametrize(
    ("default", "paper", "signature", "is_papers"),
    [
        pytest.param(DEFAULT, "", OURS, True, id="default"),
        pytest.param(DEFAULT, "", {**OURS, "model": "o1"}, False, id="another-model"),
        pytest.param(DEFAULT, "", {**OURS, "host": "h"}, False, id="own-server"),
        pytest.param(DEFAULT, "", {**OURS, "host": "me.openai.azure.com"}, True, id="azure"),
        pytest.param(DEFAULT, "", {**OURS, "replayed": "1"}, True, id="replayed"),
        pytest.param(DEFAULT, "", {}, False, id="a-signature-without-a-judge"),
        pytest.param(
            f"{DEFAULT},base_url=http://h/v1", "", {**OURS, "host": "h"}, True, id="its-own-server"
        ),
        pytest.param(DEFAULT, "openai:gpt-4o", OURS, True, id="dated"),
        pytest.param(DEFAULT, "openai:gpt-4", OURS, False, id="another-paper"),
        pytest.param(
            "mmie_score", "", {"judge": "mmie_score", "model": "c@1"}, True, id="any-checkpoint"
        ),
        pytest.param(DEFAULT, "mmie_score", OURS, False, id="the-default-is-not-the-papers"),
    ],
)
def test_the_papers_judge_is_known_by_kind_model_and_server(
    default: str, paper: str, signature: dict[str, str], is_papers: bool
) -> None:
    choice = parse_choice(default, "here")
    of_judge = Signature.of_judges([signature])
    assert is_paper_judge(only(choice), of_judge, default, paper) is is_papers


def test_a_panel_is_not_the_papers_judge() -> None:
    panel = parse_flags([DEFAULT, "openai:gpt-4o"], ())[ALL_OTHERS]
    assert not is_paper_judge(panel, Signature.of_judges([OURS]), DEFAULT)
