"""The choice of a run's judges, and how a judge is opened.

In order of precedence: the launcher (``--launcher_args name=openai,model=...``, which
``mmie-tasks eval --judge`` is turned into), ``MMIE_TASKS_JUDGE``, the benchmark's default. The
first two choose one judge for all benchmarks, one for each of some, or both: the named ones win. In
place of one judge there may be several, a panel.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, default_path
from mmie_tasks.judges.panel_choice import ChosenJudges, join_judges, judges_of, refuse_equal_judges
from mmie_tasks.judges.registry import PANEL, JudgeChoice, parse_choice

VARIABLE = "MMIE_TASKS_JUDGE"

_ON = ("on", "true", "yes", "1")
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")  # of a model: `gpt-4o-2024-11-20`
_OFF = ("off", "false", "no", "0")

ALL_OTHERS = ""
"""In `JudgeChoices`, the key of the judge for all benchmarks that are not named."""

DEFAULT = "default"
"""In ``--launcher_args``, the name that leaves benchmarks that are not named their own judge."""

JudgeChoices: TypeAlias = Mapping[str, JudgeChoice]
"""Benchmark to its judge; `ALL_OTHERS` to the judge of those that are not named."""


def parse_choices(texts: Iterable[str], source: str) -> JudgeChoices:
    """Parse choices of the form ``JUDGE`` or ``BENCHMARK=JUDGE``, with a judge as `parse_choice`
    reads it.

    Several judges for the same benchmarks are a panel.

    Raises:
        SettingWrong: As `parse_choice`, or there is a panel beside another judge for the same
            benchmarks.

    >>> choices = parse_choices(["replay", "mmie=mmie_score"], "here")
    >>> {name: choice.name for name, choice in choices.items()}
    {'': 'replay', 'mmie': 'mmie_score'}
    """
    judges: dict[str, list[JudgeChoice]] = {}
    for text in texts:
        match = re.fullmatch(
            r"\s*([^\s=:,]+)\s*=(.*)", text, re.DOTALL
        )  # behind a `:`, an `=` is an option's
        benchmark, judge = match.groups() if match else (ALL_OTHERS, text)
        judges.setdefault(benchmark, []).append(parse_choice(judge, source))
    return {
        benchmark: chosen[0] if len(chosen) == 1 else join_judges(chosen, source)
        for benchmark, chosen in judges.items()
    }


def environment_choices(environment: Mapping[str, str]) -> JudgeChoices:
    """The choices of ``MMIE_TASKS_JUDGE``: separated by spaces, that for all others first.

    Raises:
        SettingWrong: As `parse_choices`.

    >>> list(environment_choices({"MMIE_TASKS_JUDGE": "openai:gpt-4o, timeout=60 mmie=mmie_score"}))
    ['', 'mmie']
    """
    text = environment.get(VARIABLE, "").strip()
    texts = re.split(r"(?<![\s,])\s+(?=[^\s=:,]+=)", text) if text else []
    return parse_choices(texts, f"`{VARIABLE}`")


def as_launcher_args(choices: JudgeChoices) -> str:
    """The value of the runner's ``--launcher_args`` for these choices.

    The options of a named benchmark's judge begin with the benchmark.

    Raises:
        SettingWrong: The runner would not hand an option on as it is.

    >>> as_launcher_args(parse_choices(["mmie=mmie_score", "mia_bench=openai:gpt-4o"], "here"))
    'name=default,mia_bench.name=openai,mia_bench.model=gpt-4o,mmie.name=mmie_score'
    """
    pairs = {"name": DEFAULT}
    for benchmark, choice in sorted(choices.items()):
        prefix = f"{benchmark}." if benchmark else ""
        pairs |= {
            f"{prefix}{key}": value
            for key, value in {"name": choice.name, **choice.options}.items()
        }
    if quoted := [key for key, value in pairs.items() if re.search("['\"{}]", value)]:
        message = (
            f"The option `{quoted[0]}` of a judge has a quote or brace, which lmms-eval interprets."
        )
        raise SettingWrong(message, hint=f"set `{VARIABLE}` instead of `--judge`")
    return ",".join(f"{key}={value}" for key, value in pairs.items())


def from_launcher_args(name: str, options: Mapping[str, str], source: str) -> JudgeChoices:
    """The choices of ``--launcher_args``, the inverse of `as_launcher_args`.

    Args:
        name: The option ``name``.
        options: The other options.
        source: Where they come from, for messages.

    Raises:
        SettingWrong: There is no such judge or option, or a benchmark has options and no judge.
    """
    judges: dict[str, dict[str, str]] = {}
    for key, value in {"name": name, **options}.items():
        match = re.fullmatch(
            r"(?:(.*?)\.)??((?:\d+\.)?[^.]*)", key
        )  # `mmie.2.model`: of a panel's second judge
        benchmark, option = match.groups(default="") if match else ("", key)
        judges.setdefault(benchmark, {})[option] = value
    choices: dict[str, JudgeChoice] = {}
    for benchmark, judge in judges.items():
        chosen = judge.pop("name", "")
        keeps_default = chosen == DEFAULT and not benchmark
        if keeps_default and not judge:
            continue
        if keeps_default or not chosen:
            key = f"{benchmark}.name" if benchmark else "name"
            raise SettingWrong(
                f"{source} has `{min(judge)}=`, and no judge for it.", hint=f"add `{key}=JUDGE`"
            )
        choices[benchmark] = JudgeChoice(name=chosen, options=judge, source=source)
    _check_options(choices)
    return choices


def _check_options(choices: JudgeChoices) -> None:
    """Raise `SettingWrong` unless every judge and option exists."""
    for choice in choices.values():
        for judge in judges_of(choice).judges:
            registry.parse_options(judge.name, judge.options)


def choose_judges(
    benchmark: str, default: str, environment: Mapping[str, str], launched: JudgeChoices
) -> ChosenJudges:
    """The judge of a run for a benchmark, or the judges of its panel.

    A choice with the default's judge and no model uses the default's model. The environment
    variables that name a model for the judge replace the default's model, never a chosen one.

    Args:
        benchmark: Its name.
        default: Its default judge, as `parse_choice` reads it.
        environment: Read: ``MMIE_TASKS_JUDGE``, and the judge's model variables.
        launched: The choices of the runner's launcher, if it is a judge.

    Raises:
        SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice, or the panel is invalid.
    """
    fallback = parse_choice(default, "the default")
    settings = (launched, environment_choices(environment))
    chosen = [
        setting[key] for setting in settings for key in (benchmark, ALL_OTHERS) if key in setting
    ]
    choice = chosen[0] if chosen else fallback
    own = judges_of(choice)
    judges = tuple(_with_default_model(judge, fallback, environment) for judge in own.judges)
    refuse_equal_judges(judges, choice.source)
    return replace(own, judges=judges)


def _with_default_model(
    choice: JudgeChoice, fallback: JudgeChoice, environment: Mapping[str, str]
) -> JudgeChoice:
    if choice.name != fallback.name or (choice is not fallback and "model" in choice.options):
        return choice
    options = {**fallback.options, **choice.options}
    variables = registry.model_variables(choice.name) if "model" in fallback.options else ()
    variable = next((name for name in variables if environment.get(name)), None)
    if variable is None:
        return replace(choice, options=options)
    options["model"] = environment[variable]
    return replace(choice, options=options, source=f"{choice.source}, `{variable}`")


def is_paper_judge(chosen: ChosenJudges, signature: str, default: str, paper: str = "") -> bool:
    """Whether a run's judge is that of the benchmark's paper: by name, model and server, or as a
    replay names them.

    A panel is not. Other options count where the signature names them; those that a named paper
    judge leaves open do not count, so `mmie_score` is any checkpoint, and a model without a date
    stands for all its dates.

    Args:
        chosen: The judges of the run.
        signature: Theirs.
        default: The benchmark's default judge, as `parse_choice` reads it: the paper's, if `paper`
            names none.
        paper: The paper's judge, in the same form.

    >>> chosen = ChosenJudges(judges=(JudgeChoice(name="replay"),))
    >>> signature = "judge:openai|model:gpt-4o-2024-11-20|t:0"
    >>> is_paper_judge(chosen, signature, "mmie_score", "openai:gpt-4o")
    True
    >>> is_paper_judge(chosen, "judge:openai|model:gpt-4o|t:0|host:127.0.0.1", "openai:gpt-4o")
    False
    """
    if chosen.panel is not None:
        return False
    choice, wanted = chosen.judges[0], parse_choice(paper or default, "the paper's judge")
    fields = dict(part.partition(":")[::2] for part in signature.split("|"))
    more = choice.options if choice.name == wanted.name and not paper else ()
    for key, value in {**dict.fromkeys(more, ""), "judge": wanted.name, **wanted.options}.items():
        options = (
            {"judge": choice.name, **choice.options} if key in {"judge", "model", *fields} else {}
        )
        values = {values[key] for values in (options, fields) if key in values}
        if values and value not in values | {_DATE.sub("", dated) for dated in values if paper}:
            return False
    return fields.get("host", "") in wanted.options.get("base_url", "")


def open_judge(choice: JudgeChoice, environment: Mapping[str, str]) -> Judge:
    """Create the judge, with a cache around it unless ``cache=off`` or it needs none.

    Sends no request and opens no file. ``cache=PATH`` names another cache file.

    Raises:
        SettingWrong: No such judge or option, or an unusable value; lists the valid ones.
    """
    judge = registry.create(choice.name, choice.options, environment)
    path = cache_path(choice, environment)
    return judge if path is None else CachedJudge(judge=judge, file=CacheFile(path))


def cache_path(choice: JudgeChoice, environment: Mapping[str, str]) -> Path | None:
    """Path of the cache file of a chosen judge; None if its replies are not cached."""
    option = choice.options.get("cache", "on")
    if option.lower() in _OFF or not registry.is_cached(choice.name):
        return None
    return default_path(environment) if option.lower() in _ON else Path(option).expanduser()


def with_launcher_args(
    arguments: Sequence[str], check: Callable[[JudgeChoices, str], None] = lambda *_: None
) -> list[str]:
    """Replace ``--judge`` and ``--judge_args`` by the runner's ``--launcher_args``.

    An option without a value ends the process with status 2, as argparse does.

    Args:
        arguments: The command line.
        check: Checks the named benchmarks, which judges do not know; called with the choices and
            their source. Raises a `MmieTasksError`.

    Raises:
        SettingWrong: As `parse_flags`, or ``--launcher_args`` is given too.

    >>> with_launcher_args(["eval", "--judge", "openai:gpt-4o", "--judge_args", "timeout=60"])
    ['eval', '--launcher_args', 'name=openai,model=gpt-4o,timeout=60']
    """
    parsed, remaining = _flag_parser().parse_known_args(arguments)
    choices = parse_flags(parsed.judge, parsed.judge_args)
    if not choices:
        return remaining
    check(choices, "`--judge`")
    if any(argument.partition("=")[0] == "--launcher_args" for argument in remaining):
        hint = "`--launcher_args name=JUDGE,k=v` does the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    return [*remaining, "--launcher_args", as_launcher_args(choices)]


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--judge`` and ``--judge_args``; `parse_flags` reads their values."""
    group = parser.add_argument_group("judges")
    group.add_argument(
        "--judge",
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
        help=f"the judge ({', '.join(registry.names())}) and its model, for all benchmarks or for "
        "the one that is named: `--judge mmie=mmie_score --judge mia_bench=openai:MODEL`; several "
        "for the same benchmarks judge together; default: that of the benchmark",
    )
    group.add_argument(
        "--judge_args",
        action="append",
        default=[],
        metavar="k=v,...",
        help="options of a single `--judge`, or of several judges together (rule, min_valid); "
        "default: none. Those of one of several follow it: `--judge openai:MODEL,k=v`",
    )
    hidden = argparse.SUPPRESS
    group.add_argument(
        "--judge-args", action="append", dest="judge_args", default=hidden, help=hidden
    )


def judge_options_help() -> str:
    """The help of ``--judge`` and ``--judge_args``, to stand below the runner's."""
    return _flag_parser().format_help()


def _flag_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks eval", usage=argparse.SUPPRESS, add_help=False, allow_abbrev=False
    )
    add_judge_options(parser)
    return parser


def parse_flags(judges: Sequence[str], judge_args: Sequence[str]) -> JudgeChoices:
    """The choices of ``--judge`` and ``--judge_args``; empty without ``--judge``.

    Args:
        judges: The values of ``--judge``, as `parse_choices` reads them.
        judge_args: The values of ``--judge_args``: none, or one beside judges of the same
            benchmarks.

    Raises:
        SettingWrong: As `parse_choices`; there is no such judge or option; or it is not clear
            which judge ``--judge_args`` belongs to.
    """
    hint = (
        "`--judge NAME[:MODEL] --judge_args k=v,...`, or the options of each after it: `--judge "
        "NAME:k=v,...`"
    )
    if judge_args and not judges:
        raise SettingWrong("`--judge_args` needs `--judge`.", hint=hint)
    if len(judge_args) > 1:
        raise SettingWrong("`--judge_args` is given twice.", hint="one `--judge_args k=v,k=v`")
    if judge_args and len(judges) == 1:
        judges = [with_judge_args(judges[0], judge_args[0])]
    choices = parse_choices(judges, "`--judge`")
    if judge_args and len(judges) > 1:
        if len(choices) > 1:
            raise SettingWrong(
                "`--judge_args` is ambiguous beside judges of several benchmarks.", hint=hint
            )
        panel = parse_choice(with_judge_args(PANEL, judge_args[0]), "`--judge_args`")
        choices = {
            benchmark: replace(choice, options={**panel.options, **choice.options})
            for benchmark, choice in choices.items()
        }
    _check_options(choices)
    return choices


def with_judge_args(judge: str, judge_args: str) -> str:
    """A judge as `parse_choice` reads it, followed by the value of ``--judge_args``.

    >>> with_judge_args("openai:gpt-4o", "timeout=60"), with_judge_args("replay", "path=a.jsonl")
    ('openai:gpt-4o,timeout=60', 'replay:path=a.jsonl')
    """
    return f"{judge}{',' if ':' in judge else ':'}{judge_args}"
