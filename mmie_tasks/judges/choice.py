"""Which judge a run uses, and how it is opened.

In this order: what the launcher says (``--launcher_args name=openai,model=...``, which is what
``mmie-tasks eval --judge`` becomes), ``MMIE_TASKS_JUDGE``, the benchmark's default.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, default_path
from mmie_tasks.judges.openai.settings import MODEL_VARIABLES

VARIABLE = "MMIE_TASKS_JUDGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A judge by name, with its options as they were typed.

    Attributes:
        name: As in `registry.names`.
        options: Name to value, as text.
        source: Where that was said, for messages.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def parse_choice(text: str, source: str) -> Choice:
    """Read ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``; a first part without ``=`` is the model.

    Raises:
        SettingWrong: It is none of these.

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
            # Not the pair itself: somebody may have put a key there.
            raise SettingWrong(
                f"{source} names a judge in a way that cannot be read, at option "
                f"{len(options) + 1}.",
                hint="`NAME`, `NAME:MODEL` or `NAME:k=v,k=v`, each option once",
            )
        options[key] = value
    if not name:
        raise SettingWrong(f"{source} names no judge.", hint=f"one of {registry.names()}")
    return Choice(name=name, options=options, source=source)


def choose(default: str, environment: Mapping[str, str], launched: Choice | None) -> Choice:
    """The judge of a run for a benchmark.

    A chosen judge of the same name as the default takes over the default's model where it names
    none. The environment's names for a judge's model come before a default, never before what was
    chosen.

    Args:
        default: As `parse_choice` reads it.
        environment: Read: ``MMIE_TASKS_JUDGE``, and the names other tasks use for a judge's model.
        launched: What the launcher was told, if there is one of ours.

    Raises:
        SettingWrong: ``MMIE_TASKS_JUDGE`` cannot be read.
    """
    fallback = parse_choice(default, "the default")
    named = environment.get(VARIABLE, "").strip()
    chosen = launched or (parse_choice(named, f"`{VARIABLE}`") if named else None) or fallback
    if chosen.name != fallback.name or (chosen is not fallback and "model" in chosen.options):
        return chosen
    options = {**fallback.options, **chosen.options}
    variable = next((name for name in MODEL_VARIABLES if environment.get(name)), None)
    if variable is None or "model" not in fallback.options:
        return Choice(name=chosen.name, options=options, source=chosen.source)
    options["model"] = environment[variable]
    return Choice(name=chosen.name, options=options, source=f"{chosen.source}, `{variable}`")


def open_judge(choice: Choice, environment: Mapping[str, str]) -> Judge:
    """The judge, with a cache around it unless ``cache=off`` or it is a replay.

    Nothing is asked and no file is opened yet. ``cache=PATH`` names another cache file.

    Raises:
        SettingWrong: No such judge or option, or a value that cannot be used; lists what exists.
    """
    options = dict(choice.options)
    registry.refuse_secrets(options)
    cache = options.pop("cache", "on")
    judge = registry.make(choice.name, options, environment)
    if cache.lower() in ("off", "false", "no", "0") or choice.name == "replay":
        return judge
    named = cache if cache.lower() not in ("on", "true", "yes", "1") else ""
    path = Path(named).expanduser() if named else default_path(environment)
    return CachedJudge(judge=judge, file=_cache_file(path))


@functools.cache
def _cache_file(path: Path) -> CacheFile:
    return CacheFile(path)


# ``--judge NAME[:MODEL] --judge_args k=v,...`` as the ``--launcher_args`` of the runner.

_JUDGE = ("--judge",)
_ARGS = ("--judge_args", "--judge-args")
_HINT = "`--judge NAME[:MODEL] --judge_args k=v,...`"


def with_launcher_args(arguments: Sequence[str]) -> list[str]:
    """The command line with our two options replaced by the runner's one.

    Raises:
        SettingWrong: An option has no value or comes twice, ``--judge_args`` without ``--judge``,
            a launcher beside a judge, no such judge, or no such option of it.

    >>> with_launcher_args(["eval", "--judge", "openai:gpt-4o", "--judge_args", "timeout=60"])
    ['eval', '--launcher_args', 'name=openai,model=gpt-4o,timeout=60']
    """
    rest, judge = _taken(arguments, _JUDGE)
    rest, judge_args = _taken(rest, _ARGS)
    if judge is None:
        if judge_args is not None:
            raise SettingWrong("`--judge_args` needs `--judge`.", hint=_HINT)
        return rest
    if any(word.partition("=")[0] == "--launcher_args" for word in rest):
        hint = "`--launcher_args name=JUDGE,k=v` says the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    both = judge if judge_args is None else f"{judge}{',' if ':' in judge else ':'}{judge_args}"
    choice = parse_choice(both, "`--judge`")

    from mmie_tasks.judges.registry import check_options

    check_options(choice.name, choice.options)
    pairs = "".join(f",{key}={value}" for key, value in choice.options.items())
    return [*rest, "--launcher_args", f"name={choice.name}{pairs}"]


def _taken(arguments: Sequence[str], names: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without an option, and its value."""
    rest: list[str] = []
    value: str | None = None
    words = iter(arguments)
    for word in words:
        name, equals, attached = word.partition("=")
        if name not in names:
            rest.append(word)
            continue
        if value is not None:
            raise SettingWrong(f"`{name}` is given twice.", hint=_HINT)
        value = attached if equals else next(words, "")
        if not value:
            raise SettingWrong(f"`{name}` has no value.", hint=_HINT)
    return rest, value
