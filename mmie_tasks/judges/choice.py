"""The choice of a run's judge, and how it is opened.

In order of precedence: the launcher (``--launcher_args name=openai,model=...``, which
``mmie-tasks eval --judge`` is turned into), ``MMIE_TASKS_JUDGE``, the benchmark's default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, default_path

VARIABLE = "MMIE_TASKS_JUDGE"

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_FLAGS_HINT = "`--judge NAME[:MODEL] --judge_args k=v,...`"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeChoice:
    """A judge by name, with its options as the user typed them.

    Attributes:
        name: One of `registry.names`.
        options: Name to value, as text.
        source: Where the choice was made, for messages.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def parse_choice(text: str, source: str) -> JudgeChoice:
    """Parse ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``; a first part without ``=`` is the model.

    Raises:
        SettingWrong: The text has another form.

    >>> parse_choice("openai:gpt-4o,timeout=60", "here").options
    {'model': 'gpt-4o', 'timeout': '60'}
    """
    name, _, rest = text.strip().partition(":")
    pairs = [pair.strip() for pair in rest.split(",") if pair.strip()]
    if pairs and "=" not in pairs[0]:
        pairs[0] = f"model={pairs[0]}"
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (name and key and equals) or key in options:
            # The message does not repeat the pair: it may hold an API key.
            raise SettingWrong(
                f"{source} names a judge in an invalid form, at option {len(options) + 1}.",
                hint="`NAME`, `NAME:MODEL` or `NAME:k=v,k=v`, each option once",
            )
        options[key] = value
    if not name:
        raise SettingWrong(f"{source} names no judge.", hint=f"one of {registry.names()}")
    return JudgeChoice(name=name, options=options, source=source)


def choose_judge(default: str, environment: Mapping[str, str], launched: JudgeChoice | None) -> JudgeChoice:
    """The judge of a run for a benchmark.

    A choice with the default's judge and no model uses the default's model. The environment
    variables that name a model for the judge replace the default's model, never a chosen one.

    Args:
        default: The benchmark's default, as `parse_choice` reads it.
        environment: Read: ``MMIE_TASKS_JUDGE``, and the judge's model variables.
        launched: The choice of the runner's launcher, if it is a judge.

    Raises:
        SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice.
    """
    fallback = parse_choice(default, "the default")
    text = environment.get(VARIABLE, "").strip()
    choice = launched or (parse_choice(text, f"`{VARIABLE}`") if text else fallback)
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


def with_launcher_args(arguments: Sequence[str]) -> list[str]:
    """Replace ``--judge`` and ``--judge_args`` by the runner's ``--launcher_args``.

    Raises:
        SettingWrong: An option has no value or is repeated, ``--judge_args`` comes without
            ``--judge``, ``--launcher_args`` beside it, or there is no such judge or option.

    >>> with_launcher_args(["eval", "--judge", "openai:gpt-4o", "--judge_args", "timeout=60"])
    ['eval', '--launcher_args', 'name=openai,model=gpt-4o,timeout=60']
    """
    arguments, judge = _without_flag(arguments, "--judge")
    arguments, judge_args = _without_flag(arguments, "--judge_args", "--judge-args")
    if judge is None:
        if judge_args is not None:
            raise SettingWrong("`--judge_args` needs `--judge`.", hint=_FLAGS_HINT)
        return arguments
    if any(argument.partition("=")[0] == "--launcher_args" for argument in arguments):
        hint = "`--launcher_args name=JUDGE,k=v` does the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    if judge_args is not None:
        judge += f"{',' if ':' in judge else ':'}{judge_args}"
    choice = parse_choice(judge, "`--judge`")
    registry.parse_options(choice.name, choice.options)
    pairs = "".join(f",{key}={value}" for key, value in choice.options.items())
    return [*arguments, "--launcher_args", f"name={choice.name}{pairs}"]


def _without_flag(arguments: Sequence[str], *flags: str) -> tuple[list[str], str | None]:
    """The arguments without a flag and its value, and the value."""
    remaining: list[str] = []
    flag_value: str | None = None
    words = iter(arguments)
    for word in words:
        flag, equals, attached = word.partition("=")
        if flag not in flags:
            remaining.append(word)
            continue
        if flag_value is not None:
            raise SettingWrong(f"`{flag}` is given twice.", hint=_FLAGS_HINT)
        flag_value = attached if equals else next(words, "")
        if not flag_value:
            raise SettingWrong(f"`{flag}` has no value.", hint=_FLAGS_HINT)
    return remaining, flag_value
