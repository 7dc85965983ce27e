"""The choice of a run's judges, and how a judge is opened.

In order of precedence: the launcher (``--launcher_args name=openai,model=...``, which ``mmie-tasks eval --judge`` is
turned into), ``MMIE_TASKS_JUDGE``, the benchmark's default. The first two choose one judge for all benchmarks, one for
each of some, or both: the named ones win. In place of one judge there may be several, a panel.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, default_path
from mmie_tasks.judges.registry import PANEL, JudgeChoice, parse_choice

VARIABLE = "MMIE_TASKS_JUDGE"

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")

ALL_OTHERS = ""
"""In `JudgeChoices`, the key of the judge for all benchmarks that are not named."""

DEFAULT = "default"
"""In ``--launcher_args``, the name that leaves benchmarks that are not named their own judge."""

JudgeChoices: TypeAlias = Mapping[str, JudgeChoice]
"""Benchmark to its judge; `ALL_OTHERS` to the judge of those that are not named."""

Rule: TypeAlias = Literal["mean", "median", "majority"]

_Value: TypeAlias = str | bool | int | float | None


def parse_choices(texts: Iterable[str], source: str) -> JudgeChoices:
    """Parse choices of the form ``JUDGE`` or ``BENCHMARK=JUDGE``, with a judge as `parse_choice` reads it.

    Several judges for the same benchmarks are a panel.

    Raises:
        SettingWrong: As `parse_choice`, or there is a panel beside another judge for the same benchmarks.

    >>> {name: choice.name for name, choice in parse_choices(["replay", "mmie=mmie_score"], "here").items()}
    {'': 'replay', 'mmie': 'mmie_score'}
    """
    judges: dict[str, list[JudgeChoice]] = {}
    for text in texts:
        match = re.fullmatch(r"\s*([^\s=:,]+)\s*=(.*)", text, re.DOTALL)  # behind a `:`, an `=` is an option's
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
        pairs |= {f"{prefix}{key}": value for key, value in {"name": choice.name, **choice.options}.items()}
    if quoted := [key for key, value in pairs.items() if re.search("['\"{}]", value)]:
        message = f"The option `{quoted[0]}` of a judge has a quote or brace, which lmms-eval interprets."
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
        match = re.fullmatch(r"(?:(.*?)\.)??((?:\d+\.)?[^.]*)", key)  # `mmie.2.model`: of a panel's second judge
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
            raise SettingWrong(f"{source} has `{min(judge)}=`, and no judge for it.", hint=f"add `{key}=JUDGE`")
        choices[benchmark] = JudgeChoice(name=chosen, options=judge, source=source)
    _check_options(choices)
    return choices


def _check_options(choices: JudgeChoices) -> None:
    """Raise `SettingWrong` unless every judge and option exists."""
    for choice in choices.values():
        for judge in judges_of(choice).judges:
            registry.parse_options(judge.name, judge.options)


def choose_judges(benchmark: str, default: str, environment: Mapping[str, str], launched: JudgeChoices) -> ChosenJudges:
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
    chosen = [setting[key] for setting in settings for key in (benchmark, ALL_OTHERS) if key in setting]
    choice = chosen[0] if chosen else fallback
    own = judges_of(choice)
    judges = tuple(_with_default_model(judge, fallback, environment) for judge in own.judges)
    _refuse_equal_judges(judges, choice.source)
    return replace(own, judges=judges)


def _with_default_model(choice: JudgeChoice, fallback: JudgeChoice, environment: Mapping[str, str]) -> JudgeChoice:
    if choice.name != fallback.name or (choice is not fallback and "model" in choice.options):
        return choice
    options = {**fallback.options, **choice.options}
    variables = registry.model_variables(choice.name) if "model" in fallback.options else ()
    variable = next((name for name in variables if environment.get(name)), None)
    if variable is None:
        return replace(choice, options=options)
    options["model"] = environment[variable]
    return replace(choice, options=options, source=f"{choice.source}, `{variable}`")


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
        help=f"the judge ({', '.join(registry.names())}) and its model, for all benchmarks or for the one that is "
        "named: `--judge mmie=mmie_score --judge mia_bench=openai:MODEL`; several for the same benchmarks judge "
        "together, as those of `panel:FILE.yaml` do; default: that of the benchmark",
    )
    group.add_argument(
        "--judge_args",
        action="append",
        default=[],
        metavar="k=v,...",
        help="options of a single `--judge`, or of several judges together (rule, min_valid, cascade, "
        "max_entropy_bits, max_spread); default: none. Those of one of several stand behind it: `--judge "
        "openai:MODEL,k=v`",
    )
    hidden = argparse.SUPPRESS
    group.add_argument("--judge-args", action="append", dest="judge_args", default=hidden, help=hidden)


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
        judge_args: The values of ``--judge_args``: none, or one beside judges of the same benchmarks.

    Raises:
        SettingWrong: As `parse_choices`; there is no such judge or option; or it is not clear
            which judge ``--judge_args`` belongs to.
    """
    hint = "`--judge NAME[:MODEL] --judge_args k=v,...`, or the options of each behind it: `--judge NAME:k=v,...`"
    if judge_args and not judges:
        raise SettingWrong("`--judge_args` needs `--judge`.", hint=hint)
    if len(judge_args) > 1:
        raise SettingWrong("`--judge_args` is given twice.", hint="one `--judge_args k=v,k=v`")
    if judge_args and len(judges) == 1:
        judges = [with_judge_args(judges[0], judge_args[0])]
    choices = parse_choices(judges, "`--judge`")
    if judge_args and len(judges) > 1:
        if len(choices) > 1:
            raise SettingWrong("`--judge_args` is ambiguous beside judges of several benchmarks.", hint=hint)
        panel = parse_choice(with_judge_args(PANEL, judge_args[0]), "`--judge_args`")
        choices = {
            benchmark: replace(choice, options={**panel.options, **choice.options})
            for benchmark, choice in choices.items()
        }
    _check_options(choices)
    return choices


def with_judge_args(judge: str, judge_args: str) -> str:
    """A judge as `parse_choice` reads it, with the value of ``--judge_args`` behind it.

    >>> with_judge_args("openai:gpt-4o", "timeout=60"), with_judge_args("replay", "path=a.jsonl")
    ('openai:gpt-4o,timeout=60', 'replay:path=a.jsonl')
    """
    return f"{judge}{',' if ':' in judge else ':'}{judge_args}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How several judges make one verdict.

    Attributes:
        rule: Combines the points of the judges that gave any. ``majority``: the points that most judges give; of
            several such, their mean.
        min_valid: The fewest judges with points; with fewer, the sample is unscored.
        is_cascade: Whether a judge is asked only where those before it are unsure.
        max_entropy_bits: In a cascade, a single verdict with an entropy up to this one is sure.
        max_spread: In a cascade, verdicts whose points differ by no more than this agree; in percent of full marks.
    """

    rule: Rule = "mean"
    min_valid: int
    is_cascade: bool = False
    max_entropy_bits: float = 1.0
    max_spread: float = 20.0

    @property
    def signature(self) -> str:
        """Everything of the panel that can move a score, beside its judges.

        >>> Panel(min_valid=2).signature, Panel(min_valid=1, is_cascade=True).signature
        ('panel:mean,min_valid=2', 'panel:mean,min_valid=1,cascade=on,max_entropy_bits=1,max_spread=20')
        """
        text = f"panel:{self.rule},min_valid={self.min_valid}"
        if not self.is_cascade:
            return text
        return f"{text},cascade=on,max_entropy_bits={self.max_entropy_bits:g},max_spread={self.max_spread:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenJudges:
    """The judges of a run for a benchmark.

    Attributes:
        judges: One, or those of the panel in order.
        panel: How several judges make one verdict; None for a single judge.
    """

    judges: tuple[JudgeChoice, ...]
    panel: Panel | None = None


class _PanelOptions(BaseModel):
    """The panel's own options."""

    model_config = ConfigDict(extra="forbid")

    rule: Rule = "mean"
    min_valid: int | None = Field(None, ge=1)
    cascade: bool = False
    max_entropy_bits: float = Field(1.0, ge=0, allow_inf_nan=False)
    max_spread: float = Field(20.0, ge=0, le=100)


class _PanelFile(BaseModel):
    """A YAML file: the judges, and further keys, which are the panel's own options."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Value]

    judges: list[str | dict[str, _Value]]


def join_judges(judges: Sequence[JudgeChoice], source: str) -> JudgeChoice:
    """The panel of several judges that are chosen one by one.

    Raises:
        SettingWrong: One of them is a panel.

    >>> join_judges([JudgeChoice(name="replay"), JudgeChoice(name="openai", options={"model": "m"})], "here").options
    {'1.name': 'replay', '2.name': 'openai', '2.model': 'm'}
    """
    if any(judge.name == PANEL for judge in judges):
        message = f"{source} names a panel beside other judges of the same benchmarks."
        raise SettingWrong(message, hint="name all judges in the panel, or none: `--judge a --judge b`")
    options = {
        f"{number}.{key}": value
        for number, judge in enumerate(judges, start=1)
        for key, value in {"name": judge.name, **judge.options}.items()
    }
    return JudgeChoice(name=PANEL, options=options, source=source)


def judges_of(choice: JudgeChoice) -> ChosenJudges:
    """The chosen judge itself, or the judges of a panel. A panel's file is read again when it has changed.

    Raises:
        SettingWrong: The file cannot be read; the numbers of the judges have gaps; there is only one judge, or one
            twice; there is no such judge, option or rule; a value is of another type or range.
    """
    if choice.name != PANEL:
        return ChosenJudges(judges=(choice,))
    path = Path(choice.options["file"]).expanduser().absolute() if "file" in choice.options else None
    try:
        changed_ns = path.stat().st_mtime_ns if path else 0
    except OSError as error:
        hint = "`panel:FILE.yaml`, with the path of an existing file"
        raise SettingWrong(f"{choice.source}: `{path}` cannot be read: {error.strerror}.", hint=hint) from error
    return _read_panel(tuple(choice.options.items()), choice.source, path, changed_ns)


@lru_cache(maxsize=16)  # a run asks for its panel with every sample
def _read_panel(pairs: tuple[tuple[str, str], ...], source: str, path: Path | None, _changed_ns: int) -> ChosenJudges:
    options = {key: value for key, value in pairs if key != "file"}
    if path:
        if any(re.match(r"\d+\.", key) for key in options):
            message = f"{source} names a panel by a file and by judges."
            raise SettingWrong(message, hint="add the judges to the file, or leave the file out")
        source = f"`{path}`"
        options = {**_file_options(path), **options}
    own = {key: value for key, value in options.items() if not re.match(r"\d+\.", key)}
    parsed = _parse_panel_options(own, source)
    judges = _parse_numbered_judges({key: value for key, value in options.items() if key not in own}, source)
    _refuse_equal_judges(judges, source)
    min_valid = parsed.min_valid or (1 if parsed.cascade else len(judges) // 2 + 1)
    if min_valid > len(judges):
        message = f"{source}: `min_valid={min_valid}` is more than the {len(judges)} judges of the panel."
        raise SettingWrong(message, hint=f"`min_valid=` with a number from 1 to {len(judges)}")
    same_names = parsed.model_dump(include={"rule", "max_entropy_bits", "max_spread"})
    panel = Panel(min_valid=min_valid, is_cascade=parsed.cascade, **same_names)
    return ChosenJudges(panel=panel, judges=judges)


def _parse_panel_options(options: Mapping[str, str], source: str) -> _PanelOptions:
    try:
        return _PanelOptions.model_validate(options)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
    key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        names = ", ".join(f"`{name}`" for name in (*_PanelOptions.model_fields, "file"))
        hint = f"its options: {names}; options of a judge stand behind it: `--judge openai:MODEL,{key}=...`"
        raise SettingWrong(f"{source}: a panel has no option `{key}`.", hint=hint)
    hint = f"`{key}=` with such a value, or leave it out"
    raise SettingWrong(f"{source}: a panel cannot use `{key}={options[key]}`. {problem['msg']}.", hint=hint)


def _parse_numbered_judges(options: Mapping[str, str], source: str) -> tuple[JudgeChoice, ...]:
    """The judges of the options ``N.name``, ``N.model`` and so on; each is checked."""
    by_number: dict[int, dict[str, str]] = {}
    for key, value in options.items():
        prefix, _, option = key.partition(".")
        by_number.setdefault(int(prefix), {})[option] = value
    if sorted(by_number) != list(range(1, len(by_number) + 1)) or len(by_number) < 2:
        numbers = ", ".join(map(str, sorted(by_number))) or "none"
        message = f"{source}: a panel needs judges 1, 2 and so on without gaps; it has {numbers}."
        raise SettingWrong(message, hint="`--judge a --judge b`, or `panel:FILE.yaml`; a single judge is no panel")
    judges = []
    for number, judge_options in sorted(by_number.items()):
        where = f"{source}, judge {number}"
        name = judge_options.pop("name", "")
        if not name or name == PANEL:
            what = "is a panel" if name else "has no name"
            raise SettingWrong(f"{where} {what}.", hint=f"`{number}.name=` with one of {registry.names()}")
        try:
            registry.parse_options(name, judge_options)
        except SettingWrong as error:
            raise SettingWrong(f"{where}: {error.message}", hint=error.hint) from None
        judges.append(JudgeChoice(name=name, options=judge_options, source=where))
    return tuple(judges)


def _refuse_equal_judges(judges: Sequence[JudgeChoice], source: str) -> None:
    """Raise `SettingWrong` if a judge is named twice with the same options: it would count twice."""
    for index, judge in enumerate(judges):
        for earlier, other in enumerate(judges[:index]):
            if (judge.name, judge.options) == (other.name, other.options):
                message = f"{source}: the judges {earlier + 1} and {index + 1} of the panel are the same."
                raise SettingWrong(message, hint="another judge, another model or other options")


def _file_options(path: Path) -> dict[str, str]:
    """The options of a panel in a YAML file, as text. No message repeats its content: it may hold an API key."""
    hint = "a YAML file with `judges:`, a list of `NAME:MODEL` or of `{name: NAME, model: MODEL}`, and options"
    try:
        panel_file = _PanelFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise SettingWrong(f"`{path}`{where} cannot be read as YAML.", hint=hint) from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        steps = [
            step for step in problem["loc"] if isinstance(step, int) or step in {"judges", *_PanelOptions.model_fields}
        ]
        where = f"judge {steps[1] + 1}" if len(steps) > 1 and isinstance(steps[1], int) else ", ".join(map(str, steps))
        raise SettingWrong(f"`{path}`{where and f', {where}'}: {problem['msg']}.", hint=hint) from None
    judges: list[JudgeChoice] = []
    for number, entry in enumerate(panel_file.judges, start=1):
        if isinstance(entry, str):
            judges.append(parse_choice(entry, f"`{path}`, judge {number},"))
        else:
            options = {key: _as_text(value) for key, value in entry.items()}
            judges.append(JudgeChoice(name=options.pop("name", ""), options=options))
    own = {key: _as_text(value) for key, value in panel_file.__pydantic_extra__.items()}
    return {**own, **join_judges(judges, f"`{path}`").options}


def _as_text(value: _Value) -> str:
    """A value of a YAML file as on the command line: ``true``, ``none``, ``0.5``."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
