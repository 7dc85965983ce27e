"""Chooses and opens the judges of a run.

A judge is ``NAME:MODEL,key=value``. The prefix ``BENCHMARK=`` limits it to one benchmark, and
several judges of the same benchmarks are a panel. In order of precedence: ``--judge`` or, for one
judge, the launcher (``--launcher_args name=NAME,key=value``), ``MMIE_TASKS_JUDGE``, the benchmark's
default. Within each, a judge of the benchmark wins over one of all benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.choice import Choice, parse_choice, parse_pairs, split_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.arguments import judge_parser
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_path import default_path
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.record.signature import Signature

VARIABLE = "MMIE_TASKS_JUDGE"

ALL_OTHERS = ""
"""The key in `JudgeChoices` for all benchmarks that are not named."""

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_NEXT_CHOICE = re.compile(r"(?<![\s,])\s+(?=[^\s=:,]+=)")
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")  # as in `gpt-4o-2024-11-20`
_SIMILAR = 0.8  # of 1: typos are more similar, options of lmms-eval less (`--model_args`: 0.67)
_ARGS_HINT = (
    "`--judge NAME[:MODEL] --judge_args k=v,...`, or the options of each after it: `--judge "
    "NAME:k=v,...`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenJudges:
    """The judge of a run for a benchmark, or the members of its panel in order.

    Attributes:
        judges: None for the benchmark's default.
        settings: Name to value of the benchmark's settings that were given with the judges.
    """

    judges: tuple[Choice, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


JudgeChoices: TypeAlias = Mapping[str, ChosenJudges]
"""Benchmark, or `ALL_OTHERS`, to judges."""


IsSetting: TypeAlias = Callable[[str], bool]
"""Whether a name is a setting of a benchmark, which may be given like a judge's option."""


def _no_setting(_name: str) -> bool:
    return False


def parse_judges(
    texts: Iterable[str], source: str, judge_args: str = "", is_setting: IsSetting = _no_setting
) -> JudgeChoices:
    """Parse judges of the form ``JUDGE`` or ``BENCHMARK=JUDGE``.

    Args:
        texts: The judges; several for the same benchmarks are a panel.
        source: Where the texts come from, for messages.
        judge_args: ``k=v,...``, the settings of a benchmark; only for several judges.
        is_setting: Tells which options are a benchmark's settings.

    Raises:
        SettingWrong: A text is not a valid judge, or the judges do not make a panel.

    >>> choices = parse_judges(["replay", "mmie=mmie_score"], "here")
    >>> {benchmark: chosen.judges[0].name for benchmark, chosen in choices.items()}
    {'': 'replay', 'mmie': 'mmie_score'}
    """
    judges: dict[str, list[Choice]] = {}
    for text in texts:
        benchmark, equals, judge = text.partition("=")
        if not equals or re.search("[:,]", benchmark):  # after a `:`, an `=` is an option's
            benchmark, judge = ALL_OTHERS, text
        judges.setdefault(benchmark.strip(), []).append(parse_choice(judge, source))
    return {name: join_judges(choices, judge_args, is_setting) for name, choices in judges.items()}


def join_judges(
    judges: Sequence[Choice], judge_args: str = "", is_setting: IsSetting = _no_setting
) -> ChosenJudges:
    """The judges of a benchmark, as a panel if there are several.

    Raises:
        SettingWrong: A judge is repeated, or an option is unknown or has an invalid value.
    """
    settings: dict[str, str] = {}
    if len(judges) == 1:
        judge = _checked(judges[0], is_setting, settings)
        return ChosenJudges(judges=(judge,), settings=settings)
    numbered = tuple(
        _checked(
            replace(judge, source=f"{judge.source}, judge {number}"),
            is_setting,
            settings,
            prefix=f"{judge.source}, judge {number}: ",
        )
        for number, judge in enumerate(judges, start=1)
    )
    _refuse_equal_judges(numbered)
    more = parse_pairs(judge_args, "`--judge_args` is")
    if others := [key for key in more if not is_setting(key)]:
        raise SettingWrong(
            f"`--judge_args {others[0]}=...` is ambiguous with several judges.",
            hint=f"options of a judge follow it: `--judge openai:MODEL,{others[0]}=...`",
        )
    return ChosenJudges(judges=numbered, settings=settings | more)


def _checked(
    judge: Choice, is_setting: IsSetting, settings: dict[str, str], prefix: str = ""
) -> Choice:
    """The judge with valid options. Those that are settings are moved to `settings`."""
    try:
        own = registry.judge_class(judge.name).Options.model_fields
        given = {k: v for k, v in judge.options.items() if k not in own and is_setting(k)}
        others = {k: v for k, v in judge.options.items() if k not in given}
        judge = replace(judge, options=others)
        registry.options_of(judge)
    except SettingWrong as error:
        raise SettingWrong(f"{prefix}{error.message}", hint=error.hint) from None
    settings |= given
    return judge


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
    judges: Sequence[str], judge_args: Sequence[str], is_setting: IsSetting = _no_setting
) -> JudgeChoices:
    """The choices of all ``--judge`` and ``--judge_args``; without ``--judge``, only settings of
    benchmarks.

    Raises:
        SettingWrong: A judge is not valid, or ``--judge_args`` is repeated or ambiguous, or has a
            judge's option without ``--judge``.
    """
    if len(judge_args) > 1:
        raise SettingWrong("`--judge_args` is given twice.", hint="one `--judge_args k=v,k=v`")
    more = judge_args[0] if judge_args else ""
    if not judges and more:
        settings = parse_pairs(more, "`--judge_args` is")
        if others := [key for key in settings if not is_setting(key)]:
            message = f"`--judge_args {others[0]}=...` needs `--judge`."
            raise SettingWrong(message, hint=_ARGS_HINT)
        return {ALL_OTHERS: ChosenJudges(settings=settings)}
    if len(judges) == 1:
        return parse_judges([with_judge_args(judges[0], more)], "`--judge`", is_setting=is_setting)
    choices = parse_judges(judges, "`--judge`", more, is_setting)
    if more and len(choices) > 1:
        raise SettingWrong(
            "`--judge_args` is ambiguous with judges of several benchmarks.", hint=_ARGS_HINT
        )
    return choices


def with_judge_args(judge: str, judge_args: str) -> str:
    """Append the value of ``--judge_args`` to a judge, as `parse_choice` reads it.

    >>> with_judge_args("openai:gpt-4o", "timeout=60"), with_judge_args("replay", "path=a.jsonl")
    ('openai:gpt-4o,timeout=60', 'replay:path=a.jsonl')
    """
    return f"{judge}{',' if ':' in judge else ':'}{judge_args}" if judge_args else judge


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalArguments:
    """The arguments of ``mmie-tasks eval``: the judges of ``--judge``, and lmms-eval's."""

    choices: JudgeChoices
    for_runner: list[str]


def split_eval_arguments(
    arguments: Sequence[str], is_setting: IsSetting = _no_setting
) -> EvalArguments:
    """Separate ``--judge`` and ``--judge_args`` from the options of lmms-eval.

    Ends the process with status 2, like argparse, if an option has no value or is misspelt.

    Raises:
        SettingWrong: A judge is not valid, or ``--launcher_args`` is given too.

    >>> split = split_eval_arguments(["eval", "--judge", "openai:gpt-4o", "--tasks", "mmie"])
    >>> split.for_runner, split.choices[""].judges[0].options
    (['eval', '--tasks', 'mmie'], {'model': 'gpt-4o'})
    """
    parser = judge_parser()
    parsed, remaining = parser.parse_known_args(arguments)
    for name in (word.partition("=")[0] for word in remaining if word.startswith("--")):
        if similar := get_close_matches(name, ("--judge", "--judge_args"), 1, _SIMILAR):
            parser.error(f"there is no option `{name}`; did you mean `{similar[0]}`?")
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
    settings = (launched, environment_choices(environment))
    matching = [
        setting[key]
        for setting in settings
        for key in (benchmark, ALL_OTHERS)
        if key in setting and setting[key].judges
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

    Name, model and server must be equal. Other options count where the signature names them, but
    not if `paper` leaves them open: `mmie_score` is any checkpoint, and a model without a date is
    any of its dates. A panel is never the paper's judge.

    Args:
        chosen: The judges of the run.
        signature: The signature of the run.
        default: The benchmark's default judge, as `parse_choice` reads it.
        paper: The paper's judge in the same form; empty if it is the default.

    >>> chosen = ChosenJudges(judges=(Choice(name="replay"),))
    >>> signature = Signature.of_judges(["judge:openai|model:gpt-4o-2024-11-20|t:0"])
    >>> is_paper_judge(chosen, signature, "mmie_score", "openai:gpt-4o")
    True
    >>> other = Signature.of_judges(["judge:openai|model:gpt-4o|t:0|host:127.0.0.1"])
    >>> is_paper_judge(chosen, other, "openai:gpt-4o")
    False
    """
    if len(chosen.judges) > 1:
        return False
    choice, wanted = chosen.judges[0], parse_choice(paper or default, "the paper's judge")
    fields = signature.fields
    more = choice.options if choice.name == wanted.name and not paper else ()
    for key, value in {**dict.fromkeys(more, ""), "judge": wanted.name, **wanted.options}.items():
        options = (
            {"judge": choice.name, **choice.options} if key in {"judge", "model", *fields} else {}
        )
        values = {values[key] for values in (options, fields) if key in values}
        if values and value not in values | {_DATE.sub("", dated) for dated in values if paper}:
            return False
    return fields.get("host", "") in wanted.options.get("base_url", "")


def open_judge(choice: Choice, environment: Mapping[str, str]) -> Judge:
    """Create a judge with its cache, if it has one. Sends no request and opens no file.

    Raises:
        SettingWrong: A name, an option or a value is not valid; the message lists the valid ones.
    """
    judge = registry.create(choice, environment)
    path = cache_path(choice, environment)
    return judge if path is None else CachedJudge(judge=judge, file=CacheFile(path))


def cache_path(choice: Choice, environment: Mapping[str, str]) -> Path | None:
    """Path of a judge's cache file; None if its replies are not cached."""
    option = choice.options.get("cache", "on")
    if option.lower() in _OFF or not registry.judge_class(choice.name).is_cached:
        return None
    return default_path(environment) if option.lower() in _ON else Path(option).expanduser()
