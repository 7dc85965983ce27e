"""The choice of a run's judges, and how a judge is opened.

In order of precedence: ``mmie-tasks eval --judge`` or the launcher (``--launcher_args
name=openai,model=...``), ``MMIE_TASKS_JUDGE``, the benchmark's default. The first two choose one
judge for all benchmarks, one for each of some, or both: the named ones win. Only ``--judge`` may
name several judges for a benchmark, a panel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.options import split_options
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile, default_path
from mmie_tasks.judges.panel_choice import ChosenJudges, join_judges, refuse_equal_judges
from mmie_tasks.judges.registry import JudgeChoice, parse_choice
from mmie_tasks.record.signature import Signature

VARIABLE = "MMIE_TASKS_JUDGE"
PANEL_HINT = "several judges for a benchmark need `mmie-tasks eval --judge a --judge b`"

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")
_NEXT_CHOICE = re.compile(r"(?<![\s,])\s+(?=[^\s=:,]+=)")
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")  # of a model: `gpt-4o-2024-11-20`

ALL_OTHERS = ""
"""In `JudgeChoices`, the key of the judge for all benchmarks that are not named."""

DEFAULT = "default"
"""In ``--launcher_args``, the name that leaves benchmarks that are not named their own judge."""

JudgeChoices: TypeAlias = Mapping[str, ChosenJudges]
"""Benchmark to its judges; `ALL_OTHERS` to the judges of those that are not named."""


def parse_texts(texts: Iterable[str], source: str) -> Mapping[str, list[JudgeChoice]]:
    """Parse choices of the form ``JUDGE`` or ``BENCHMARK=JUDGE``, with a judge as `parse_choice`
    reads it.

    Returns:
        Benchmark, or `ALL_OTHERS`, to its judges in order.

    Raises:
        SettingWrong: As `parse_choice`.

    >>> choices = parse_texts(["replay", "mmie=mmie_score"], "here")
    >>> {benchmark: [judge.name for judge in judges] for benchmark, judges in choices.items()}
    {'': ['replay'], 'mmie': ['mmie_score']}
    """
    judges: dict[str, list[JudgeChoice]] = {}
    for text in texts:
        benchmark, equals, judge = text.partition("=")
        if not equals or re.search("[:,]", benchmark):  # after a `:`, an `=` is an option's
            benchmark, judge = ALL_OTHERS, text
        judges.setdefault(benchmark.strip(), []).append(parse_choice(judge, source))
    return judges


def environment_choices(environment: Mapping[str, str]) -> JudgeChoices:
    """The choices of ``MMIE_TASKS_JUDGE``: separated by spaces, that for all others first.

    Raises:
        SettingWrong: As `parse_texts`, or a benchmark has several judges.

    >>> list(environment_choices({"MMIE_TASKS_JUDGE": "openai:gpt-4o, timeout=60 mmie=mmie_score"}))
    ['', 'mmie']
    """
    source, text = f"`{VARIABLE}`", environment.get(VARIABLE, "").strip()
    texts = split_options(text, _NEXT_CHOICE) if text else []
    chosen = parse_texts(texts, source)
    for benchmark, judges in chosen.items():
        if len(judges) > 1:
            subject = f"`{benchmark}`" if benchmark else "all benchmarks"
            raise SettingWrong(
                f"{source} names {len(judges)} judges for {subject}.", hint=PANEL_HINT
            )
    return {benchmark: ChosenJudges(judges=(*judges,)) for benchmark, judges in chosen.items()}


def from_launcher_args(options: Mapping[str, str], source: str) -> JudgeChoices:
    """The choices of ``--launcher_args``.

    Args:
        options: All of them; ``mmie.name`` and ``mmie.model`` are of the judge of a benchmark.
        source: Where they come from, for messages.

    Raises:
        SettingWrong: There is no such judge or option, or a benchmark has options and no judge.

    >>> options = {"name": "default", "mmie.name": "openai", "mmie.model": "gpt-4o"}
    >>> from_launcher_args(options, "here")["mmie"].judges[0].options
    {'model': 'gpt-4o'}
    """
    judges: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        benchmark, _, option = key.rpartition(".")
        judges.setdefault(benchmark, {})[option] = value
    choices: dict[str, ChosenJudges] = {}
    for benchmark, judge in judges.items():
        name = judge.pop("name", "")
        keeps_default = name == DEFAULT and benchmark == ALL_OTHERS
        if keeps_default and not judge:
            continue
        if keeps_default or not name:
            key = f"{benchmark}.name" if benchmark else "name"
            raise SettingWrong(
                f"{source} has `{min(judge)}=`, and no judge for it.", hint=f"add `{key}=JUDGE`"
            )
        choice = JudgeChoice(name=name, options=judge, source=source)
        choices[benchmark] = join_judges([choice])
    return choices


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
        launched: The choices of ``--judge``, or of the runner's launcher if it is a judge.

    Raises:
        SettingWrong: ``MMIE_TASKS_JUDGE`` is not a valid choice, or a panel has a judge twice.
    """
    fallback = parse_choice(default, "the default")
    settings = (launched, environment_choices(environment))
    matching = [
        setting[key] for setting in settings for key in (benchmark, ALL_OTHERS) if key in setting
    ]
    chosen = matching[0] if matching else ChosenJudges(judges=(fallback,))
    judges = tuple(_with_default_model(judge, fallback, environment) for judge in chosen.judges)
    refuse_equal_judges(judges, "`--judge`")
    return replace(chosen, judges=judges)


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


def is_paper_judge(
    chosen: ChosenJudges, signature: Signature, default: str, paper: str = ""
) -> bool:
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
    >>> signature = Signature.of_judges(["judge:openai|model:gpt-4o-2024-11-20|t:0"])
    >>> is_paper_judge(chosen, signature, "mmie_score", "openai:gpt-4o")
    True
    >>> other = Signature.of_judges(["judge:openai|model:gpt-4o|t:0|host:127.0.0.1"])
    >>> is_paper_judge(chosen, other, "openai:gpt-4o")
    False
    """
    if chosen.panel is not None:
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
