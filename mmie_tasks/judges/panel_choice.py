"""Several judges of one benchmark as one choice, a panel: its options, and the YAML file that may hold them.

The options of the N-th judge are ``N.name``, ``N.model`` and so on; the others are the panel's own. In a file the
judges are a list::

    rule: median
    judges:
      - openai:gpt-4o-2024-11-20
      - {name: openai, model: Qwen3-VL-32B, base_url: "http://127.0.0.1:8000/v1"}
      - mmie_score
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.registry import PANEL, JudgeChoice, parse_choice

Rule: TypeAlias = Literal["mean", "median", "majority"]

_Value: TypeAlias = str | bool | int | float | None


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


class _Options(BaseModel):
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
    parsed = _parsed_options(own, source)
    judges = _judges({key: value for key, value in options.items() if key not in own}, source)
    refuse_equal_judges(judges, source)
    min_valid = parsed.min_valid or (1 if parsed.cascade else len(judges) // 2 + 1)
    if min_valid > len(judges):
        message = f"{source}: `min_valid={min_valid}` is more than the {len(judges)} judges of the panel."
        raise SettingWrong(message, hint=f"`min_valid=` with a number from 1 to {len(judges)}")
    panel = Panel(
        rule=parsed.rule,
        min_valid=min_valid,
        is_cascade=parsed.cascade,
        max_entropy_bits=parsed.max_entropy_bits,
        max_spread=parsed.max_spread,
    )
    return ChosenJudges(panel=panel, judges=judges)


def _parsed_options(options: Mapping[str, str], source: str) -> _Options:
    try:
        return _Options.model_validate(options)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
    key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        names = ", ".join(f"`{name}`" for name in (*_Options.model_fields, "file"))
        hint = f"its options: {names}; options of a judge stand behind it: `--judge openai:MODEL,{key}=...`"
        raise SettingWrong(f"{source}: a panel has no option `{key}`.", hint=hint)
    hint = f"`{key}=` with such a value, or leave it out"
    raise SettingWrong(f"{source}: a panel cannot use `{key}={options[key]}`. {problem['msg']}.", hint=hint)


def _judges(options: Mapping[str, str], source: str) -> tuple[JudgeChoice, ...]:
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


def refuse_equal_judges(judges: Sequence[JudgeChoice], source: str) -> None:
    """Refuse a judge that is named twice with the same options: it would count twice.

    Raises:
        SettingWrong: It is.
    """
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
        steps = [step for step in problem["loc"] if isinstance(step, int) or step in {"judges", *_Options.model_fields}]
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
