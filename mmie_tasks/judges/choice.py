"""Chooses and opens the judges of a run.

A judge is ``[BENCHMARK=]NAME[:MODEL][,key=value...]``. The prefix limits it to one benchmark, and
several judges of the same benchmarks are a panel. Settings of a benchmark may be given like options
of its judge. In order of precedence: ``--judge`` or, for one judge, the launcher
(``--launcher_args name=NAME,key=value``), ``MMIE_TASKS_JUDGE``, the benchmark's default. Within
each, a judge of the benchmark wins over one of all benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from mmie_tasks.core.choice import Choice, parse_choice, parse_pairs, split_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache_file import CacheFile, default_path
from mmie_tasks.judges.names import judge_parser
from mmie_tasks.record.signature import Signature

VARIABLE = "MMIE_TASKS_JUDGE"

ALL_OTHERS = ""
"""The key in `JudgeChoices` for all benchmarks that are not named."""

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_NEXT_CHOICE = re.compile(r"(?<![\s,])\s+(?=[^\s=:,]+=)")
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")  # as in `gpt-4o-2024-11-20`
_AZURE = ".openai.azure.com"  # OpenAI's models at Azure, which are the paper's, too


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenJudges:
    """The judge of a run for a benchmark, or the members of its panel in order.

    Attributes:
        judges: Empty for the benchmark's default.
        settings: Name to value of the benchmark's settings that were given with the judges.
    """

    judges: tuple[Choice, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


JudgeChoices: TypeAlias = Mapping[str, ChosenJudges]
"""Benchmark, or `ALL_OTHERS`, to judges."""


def parse_judges(
    texts: Iterable[str],
    source: str,
    judge_args: str = "",
    is_setting: Callable[[str], bool] = lambda _name: False,
) -> JudgeChoices:
    """Parse judges of the form ``[BENCHMARK=]NAME[:MODEL][,key=value...]``.

    Args:
        texts: The judges; several for the same benchmarks are a panel.
        source: Where the texts come from, for messages.
        judge_args: ``k=v,...``: options and settings of a single judge; without one, or with
            several, only settings of benchmarks.
        is_setting: Whether a name is a setting of a benchmark.

    Raises:
        SettingWrong: A text is not a valid judge, an option is unknown, repeated or has an invalid
            value, or a panel has a judge twice.

    >>> choices = parse_judges(["replay,path=a", "mmie=mmie_score"], "here")
    >>> {benchmark: chosen.judges[0].name for benchmark, chosen in choices.items()}
    {'': 'replay', 'mmie': 'mmie_score'}
    """
    judges: dict[str, list[Choice]] = {}
    settings: dict[str, dict[str, str]] = {}
    texts = list(texts)
    if judge_args and len(texts) == 1:
        texts, judge_args = [f"{texts[0]},{judge_args}"], ""
    for text in texts:
        benchmark, equals, judge = text.partition("=")
        if not equals or re.search("[:,]", benchmark):  # after one of these, it is an option's
            benchmark, judge = ALL_OTHERS, text
        choice = parse_choice(judge, source)
        own = registry.judge_class(choice.name).Options.model_fields
        given = {k: v for k, v in choice.options.items() if k not in own and is_setting(k)}
        options = {k: v for k, v in choice.options.items() if k not in given}
        choice = replace(choice, options=options)
        registry.options_of(choice)
        judges.setdefault(benchmark.strip(), []).append(choice)
        settings.setdefault(benchmark.strip(), {}).update(given)
    pairs = parse_pairs(judge_args, "`--judge_args` is")
    if others := [key for key in pairs if not is_setting(key)]:
        raise SettingWrong(
            f"`--judge_args {others[0]}=...` needs `--judge`, and a single one.",
            hint=f"options of one of several follow it: `--judge NAME:MODEL,{others[0]}=...`",
        )
    if pairs:
        settings.setdefault(ALL_OTHERS, {}).update(pairs)
    for panel in judges.values():
        _refuse_equal_judges(panel)
    return {
        name: ChosenJudges(judges=tuple(judges.get(name, ())), settings=of_benchmark)
        for name, of_benchmark in settings.items()
    }


def _refuse_equal_judges(judges: Sequence[Choice]) -> None:
    """Raise `SettingWrong` if a judge is repeated with the same options: it would count twice."""
    choices = [(judge.name, judge.options) for judge in judges]
    for second, choice in enumerate(choices):
        first = choices.index(choice)
        if first < second:
            raise SettingWrong(
                f"The judges {first + 1} and {second + 1} of the panel are the same.",
                hint="another judge, another model or other options",
            )


def environment_choices(environment: Mapping[str, str]) -> JudgeChoices:
    """The choices of ``MMIE_TASKS_JUDGE``, separated by spaces; one for all others comes first.

    >>> list(environment_choices({"MMIE_TASKS_JUDGE": "openai:gpt-4o, timeout=60 mmie=mmie_score"}))
    ['', 'mmie']
    """
    text = environment.get(VARIABLE, "").strip()
    return parse_judges(split_options(text, _NEXT_CHOICE) if text else [], f"`{VARIABLE}`")


def parse_flags(
    judges: Sequence[str],
    judge_args: Sequence[str],
    is_setting: Callable[[str], bool] = lambda _name: False,
) -> JudgeChoices:
    """The choices of all ``--judge`` and ``--judge_args``; see `parse_judges`.

    Raises:
        SettingWrong: As `parse_judges`, or ``--judge_args`` is repeated.
    """
    if len(judge_args) > 1:
        raise SettingWrong("`--judge_args` is given twice.", hint="one `--judge_args k=v,k=v`")
    return parse_judges(judges, "`--judge`", "".join(judge_args), is_setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalArguments:
    """The arguments of ``mmie-tasks eval``: the judges of ``--judge``, and lmms-eval's."""

    choices: JudgeChoices
    for_runner: list[str]


def split_eval_arguments(
    arguments: Sequence[str], is_setting: Callable[[str], bool] = lambda _name: False
) -> EvalArguments:
    """Separate ``--judge`` and ``--judge_args`` from the options of lmms-eval.

    Ends the process with status 2, like argparse, if an option has no value.

    Raises:
        SettingWrong: A judge is not valid, or ``--launcher_args`` is given too.

    >>> split = split_eval_arguments(["eval", "--judge", "openai:gpt-4o", "--tasks", "mmie"])
    >>> split.for_runner, split.choices[""].judges[0].options
    (['eval', '--tasks', 'mmie'], {'model': 'gpt-4o'})
    """
    parsed, remaining = judge_parser().parse_known_args(arguments)
    choices = parse_flags(parsed.judge, parsed.judge_args, is_setting)
    has_launcher = any(argument.partition("=")[0] == "--launcher_args" for argument in remaining)
    if choices and has_launcher:
        hint = "`--launcher_args name=JUDGE,k=v` does the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    return EvalArguments(choices=choices, for_runner=remaining)


def choose_judges(
    benchmark: str, default: str, environment: Mapping[str, str], launched: JudgeChoices
) -> ChosenJudges:
    """The judges of a run for a benchmark.

    A choice of the default judge without a model uses the default's model. The judge's model
    variables replace the default's model, never a chosen one.

    Args:
        benchmark: Name of the benchmark.
        default: The benchmark's default judge, as `parse_choice` reads it.
        environment: Contains ``MMIE_TASKS_JUDGE`` and the judge's model variables.
        launched: The choices of ``--judge``, or of the runner's launcher if it is a judge.

    Raises:
        SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice, or a panel repeats a judge.
    """
    fallback = parse_choice(default, "the default")
    matching = [
        choices[key]
        for choices in (launched, environment_choices(environment))
        for key in (benchmark, ALL_OTHERS)
        if key in choices and choices[key].judges
    ]
    chosen = matching[0] if matching else ChosenJudges(judges=(fallback,))
    judges = tuple(_with_default_model(judge, fallback, environment) for judge in chosen.judges)
    _refuse_equal_judges(judges)
    return replace(chosen, judges=judges)


def _with_default_model(choice: Choice, fallback: Choice, environment: Mapping[str, str]) -> Choice:
    if choice.name != fallback.name or (choice is not fallback and "model" in choice.options):
        return choice
    options = {**fallback.options, **choice.options}
    if "model" in fallback.options:
        for variable in registry.judge_class(choice.name).model_variables:
            if model := environment.get(variable):
                options["model"] = model
                return replace(choice, options=options, source=f"{choice.source}, `{variable}`")
    return replace(choice, options=options)


def is_paper_judge(
    chosen: ChosenJudges, signature: Signature, default: str, paper: str = ""
) -> bool:
    """Whether a run has the judge of the benchmark's paper, live or as a replay of it.

    Kind, model and server are compared; any model is the paper's if the paper's judge names none,
    and a model without a date is any of its dates. A panel is never the paper's judge.

    Args:
        chosen: The judges of the run.
        signature: The signature of the run.
        default: The benchmark's default judge, as `parse_choice` reads it.
        paper: The paper's judge in the same form; empty if it is the default.

    >>> chosen = ChosenJudges(judges=(Choice(name="replay"),))
    >>> run = Signature.of_judges([{"judge": "openai", "model": "gpt-4o-2024-11-20"}])
    >>> is_paper_judge(chosen, run, "mmie_score", "openai:gpt-4o")
    True
    >>> other = Signature.of_judges([{"judge": "openai", "model": "gpt-4o", "host": "127.0.0.1"}])
    >>> is_paper_judge(chosen, other, "openai:gpt-4o")
    False
    """
    if len(chosen.judges) > 1:
        return False
    papers, fields = parse_choice(paper or default, "the paper's judge"), signature.fields
    model, host = fields.get("model", ""), fields.get("host", "")
    is_model = papers.options.get("model", model) in (model, _DATE.sub("", model))
    is_server = host.endswith(_AZURE) or host == urlsplit(papers.options.get("base_url", "")).netloc
    return fields.get("judge") == papers.name and is_model and is_server


def open_judge(choice: Choice, environment: Mapping[str, str]) -> Judge:
    """Create a judge with its cache, if it has one. Sends no request and opens no file.

    Raises:
        SettingWrong: A name, an option or a value is not valid; the message lists the valid ones.
    """
    judge = registry.create(choice, environment)
    path = cache_path(choice, environment)
    judge.cache = None if path is None else CacheFile(path)
    return judge


def cache_path(choice: Choice, environment: Mapping[str, str]) -> Path | None:
    """Path of a judge's cache file; None if its replies are not cached."""
    option = choice.options.get("cache", "on")
    if option.lower() in _OFF or not registry.judge_class(choice.name).is_cached:
        return None
    return default_path(environment) if option.lower() in _ON else Path(option).expanduser()
