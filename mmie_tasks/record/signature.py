"""The signature of a number: everything that can move it, as one line of ``key:value`` parts.

``panel:mean,min_valid=2|judge:openai|model:gpt-4o|paper_judge:no|prompt:official|...|pkg:0.1.0``:
the rule of a panel, each judge from ``judge:`` up to the next one, whether the judge is the
paper's, and what the benchmark adds. This module puts the text together and takes it apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from mmie_tasks.core import __version__
from mmie_tasks.core.options import coverage_floor
from mmie_tasks.core.tables import numbered_names
from mmie_tasks.core.verdict import COVERAGE_FLOOR

_OF_THE_BENCHMARK = frozenset(
    {"paper_judge", "prompt", "reader", "task", "data", "pkg", "replayed"}
)
"""Keys that end the part of the last judge."""

_PANEL = re.compile(r"\Apanel:(mean|median|majority),min_valid=(\d+)")
_PACKAGE = re.compile(r"\|pkg:[^|]*")
_TASK_VERSION = re.compile(r"(?P<scoring>.+@\d+)-\w+")  # name@N-X: X is the interface


def signature_text(*parts: str, **fields: object) -> str:
    """A signature of parts that are signatures themselves, then of keys with their values.

    >>> signature_text("judge:a|t:0", prompt="official", data="sha256:12")
    'judge:a|t:0|prompt:official|data:sha256:12'
    """
    return "|".join((*parts, *(f"{key}:{value}" for key, value in fields.items())))


def run_signature(*parts: str, environment: Mapping[str, str]) -> str:
    """The signature of a benchmark's numbers in a run: its parts, the floor of coverage if it is
    not the default, and the version of this package.

    Raises:
        SettingWrong: See `coverage_floor`.
    """
    floor = coverage_floor(environment)
    changed = {} if floor == COVERAGE_FLOOR else {"min_coverage": f"{floor:g}"}
    return signature_text(*parts, **changed, pkg=__version__)


Rule: TypeAlias = Literal["mean", "median", "majority"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How several judges make one verdict.

    Attributes:
        rule: Combines the points of the judges that gave any. ``majority``: the points that most
            judges give; of several such, their mean.
        min_valid: The fewest judges with points; with fewer, the sample is unscored.
    """

    rule: Rule = "mean"
    min_valid: int

    @property
    def signature(self) -> str:
        """Everything of the panel that can move a score, except its judges.

        >>> Panel(min_valid=2).signature
        'panel:mean,min_valid=2'
        """
        return f"panel:{self.rule},min_valid={self.min_valid}"


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature, by its text; ``str`` gives the same text again.

    Attributes:
        text: The parts, joined by ``|``.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts in order, ``key:value`` each."""
        return tuple(filter(None, self.text.split("|")))

    @property
    def fields(self) -> dict[str, str]:
        """Key to value; several values of a key are joined.

        A judge of a panel that lacks a key of the others has the value ``none``, so that values
        tell judges apart.

        >>> Signature("judge:openai|model:gpt-4o|paper_judge:no").fields["model"]
        'gpt-4o'
        >>> Signature("panel:mean|judge:openai|host:a|judge:replay|paper_judge:no").fields["host"]
        'a, none'
        """
        pairs = [part.partition(":")[::2] for part in self.parts]
        judges, number = sum(key == "judge" for key, _ in pairs), 0
        values: defaultdict[str, list[str]] = defaultdict(list)
        judge_keys = set()
        for key, value in pairs:
            number += key == "judge"
            if 0 < number < judges:  # after the last judge, it may be the benchmark's
                judge_keys.add(key)
            if key in judge_keys:
                values[key] += ["none"] * (number - 1 - len(values[key]))
            values[key].append(value)
        for key in judge_keys:
            values[key] += ["none"] * (judges - len(values[key]))
        return {key: ", ".join(parts) for key, parts in values.items()}

    @property
    def scoring_fields(self) -> dict[str, str]:
        """The fields; of the task's version only what moves a score.

        >>> Signature("judge:openai|t:0|task:mmie@1-A|data:sha256:12").scoring_fields
        {'judge': 'openai', 't': '0', 'task': 'mmie@1', 'data': 'sha256:12'}
        """
        fields = self.fields
        if version := _TASK_VERSION.fullmatch(fields.get("task", "")):
            fields["task"] = version["scoring"]
        return fields

    @property
    def is_of_another_judge(self) -> bool:
        """Whether the judge is known not to be the paper's."""
        return "paper_judge:no" in self.parts

    def has(self, key: str, value: str) -> bool:
        """Whether a part is this key with this value."""
        return f"{key}:{value}" in self.parts

    @property
    def panel(self) -> Panel | None:
        """How the judges of a panel make one verdict; None for a single judge.

        >>> Signature("panel:mean,min_valid=2|judge:a|judge:b").panel
        Panel(rule='mean', min_valid=2)
        """
        match = _PANEL.match(self.text)
        return Panel(rule=cast("Rule", match[1]), min_valid=int(match[2])) if match else None

    def with_panel(self, panel: Panel) -> Signature:
        """The same judges with another rule.

        >>> signature = Signature("panel:mean,min_valid=2|judge:a|judge:b")
        >>> str(signature.with_panel(Panel(rule="median", min_valid=1)))
        'panel:median,min_valid=1|judge:a|judge:b'
        """
        return Signature(_PANEL.sub(panel.signature, self.text))

    def with_package(self, version: str) -> Signature:
        """The same signature, of another version of this package.

        >>> str(Signature("judge:a|pkg:0.1.0").with_package("0.2.0"))
        'judge:a|pkg:0.2.0'
        """
        return Signature(_PACKAGE.sub(f"|pkg:{version}", self.text))

    @property
    def judges(self) -> tuple[Signature, ...]:
        """From each ``judge:`` up to the next: of a panel, its members.

        >>> [str(judge) for judge in Signature("panel:mean|judge:a|t:0|judge:b|p:no").judges]
        ['judge:a|t:0', 'judge:b|p:no']
        """
        _, *judges = f"|{self.text}".split("|judge:")
        return tuple(Signature(f"judge:{judge}") for judge in judges)

    @property
    def judge_alone(self) -> tuple[Signature, ...]:
        """What may be the signature of the judge itself, the longest first: a judge of another
        package may have keys that benchmarks have as well.

        >>> [str(judge) for judge in Signature("judge:a|t:0|task:m@1|data:x").judge_alone]
        ['judge:a|t:0|task:m@1|data:x', 'judge:a|t:0|task:m@1', 'judge:a|t:0']
        """
        parts = self.text.split("|")
        ends = [
            end for end, part in enumerate(parts) if part.partition(":")[0] in _OF_THE_BENCHMARK
        ]
        return tuple(Signature("|".join(parts[:end])) for end in (len(parts), *reversed(ends)))

    @property
    def judge_names(self) -> list[str]:
        """The names of a panel's judges, in order: the model, or else the kind; empty for a single
        judge.

        >>> signature = "panel:mean,min_valid=2|judge:openai|model:gpt-4o|judge:mmie_score|t:0"
        >>> Signature(signature).judge_names
        ['gpt-4o', 'mmie_score']
        """
        is_panel = "panel" in self.fields
        return numbered_names([judge.name for judge in self.judges]) if is_panel else []

    @property
    def name(self) -> str:
        """The judge's model, or else its kind; of a panel its judges and rule; empty for a
        benchmark scored by rule.

        >>> signature = "panel:mean,min_valid=2|judge:openai|model:gpt-4o|judge:mmie_score|t:0"
        >>> Signature(signature).name
        'panel of gpt-4o, mmie_score (mean)'
        """
        fields = self.fields
        if judges := self.judge_names:
            return f"panel of {', '.join(judges)} ({fields['panel'].partition(',')[0]})"
        return fields.get("model") or fields.get("judge", "")

    @property
    def kind_and_model(self) -> str:
        """The judge's kind and model.

        >>> Signature("judge:openai|host:127.0.0.1:8000|model:gpt-4o|t:0").kind_and_model
        'openai/gpt-4o'
        """
        fields = self.fields
        return "/".join(filter(None, (fields.get("judge"), fields.get("model"))))
