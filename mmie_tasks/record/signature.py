"""The signature of a score: everything that can move it.

A record stores it as an object. Tables and logs print it as one line of text:
``judge:openai|model:gpt-4o|paper_judge:no|prompt:official|...|pkg:0.1.0``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator

from mmie_tasks.core import __version__
from mmie_tasks.core.wording import numbered_names

COVERAGE_FLOOR = 0.9
"""No mean is reported below this share of scored samples, unless a run sets ``min_coverage``."""

_SHARE = re.compile(r"0(?:\.\d+)?|1|\d(?:\.\d+)?e-\d\d")  # as `:g` writes 0 to 1
_TASK_VERSION = re.compile(r"(?P<scoring>.+@\d+)-\w+")  # name@N-X: X is the interface

AnswerForm: TypeAlias = Literal["plain", "drawn"]
"""How answers came about. ``drawn``: a drawer drew their pictures; ``plain``: none did."""
_SETTINGS = {  # key of the judge `openai`: title and default
    "t": ("temperature", "0"),
    "max": ("max_tokens", ""),
    "detail": ("detail", ""),
    "reasoning": ("reasoning_effort", ""),
    "extra_body": ("extra_body", ""),
}


def drawing_text(words: str, drawer: str) -> str:
    """The value of the key ``answers``: the words that asked for pictures, and their drawer.

    >>> drawing_text("step-3", "images,model=flux")
    'step-3,images,model=flux'
    """
    return f"{words},{drawer}"


def _texts(fields: Mapping[str, object]) -> dict[str, str]:
    """The values as texts, without None; a bar becomes a space."""
    return {key: str(v).replace("|", " ") for key, v in fields.items() if v is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Everything that can move a score; ``str`` gives its text.

    Attributes:
        judges: Key to value for each judge, in order; empty for a benchmark scored by rule.
        benchmark: The benchmark's keys and values: prompt, readers, task version, data, and whether
            the judge is the paper's.
        package: The version of this package; empty if unknown.
    """

    judges: tuple[Mapping[str, str], ...] = ()
    benchmark: Mapping[str, str] = field(default_factory=dict)
    package: str = ""

    @classmethod
    def of_run(
        cls,
        benchmark: Mapping[str, object],
        judges: Signature | None = None,
        min_coverage: float = COVERAGE_FLOOR,
    ) -> Signature:
        """The signature of a benchmark in a run: adds a changed coverage floor and our version.

        Args:
            benchmark: Key to value; a key with the value None is left out.
            judges: The signature of the judges; None for a benchmark scored by rule.
            min_coverage: The coverage floor, 0 to 1.
        """
        changed = None if min_coverage == COVERAGE_FLOOR else f"{min_coverage:g}"
        judges = judges or cls()
        fields = {**judges.benchmark, **benchmark, "min_coverage": changed}
        return replace(judges, benchmark=_texts(fields), package=__version__)

    @classmethod
    def of_judges(cls, judges: Sequence[Mapping[str, object]]) -> Signature:
        """Joins the signatures of judges; a key with the value None is left out.

        >>> str(Signature.of_judges([{"judge": "openai", "model": "gpt-4o", "max": None}]))
        'judge:openai|model:gpt-4o'
        """
        return cls(judges=tuple(map(_texts, judges)))

    def __hash__(self) -> int:  # coarse, since a run has few different signatures
        return hash((*map(len, self.judges), len(self.benchmark), self.package))

    def __str__(self) -> str:
        package = {"pkg": self.package} if self.package else {}
        parts = (*self.judges, self.benchmark, package)
        return "|".join(f"{key}:{value}" for part in parts for key, value in part.items())

    @property
    def fields(self) -> dict[str, str]:
        """Key to value, in order; the values of a panel's judges are joined.

        A judge without a key that another judge has gets the value ``none``.

        >>> Signature.of_judges([{"judge": "openai"}, {"judge": "replay", "host": "a"}]).fields
        {'judge': 'openai, replay', 'host': 'none, a'}
        """
        values: defaultdict[str, list[str]] = defaultdict(list)
        for key in dict.fromkeys(key for judge in self.judges for key in judge):
            values[key] += [judge.get(key, "none") for judge in self.judges]
        rest = {**self.benchmark, **({"pkg": self.package} if self.package else {})}
        for key, value in rest.items():
            values[key].append(value)
        return {key: ", ".join(of_key) for key, of_key in values.items()}

    @property
    def scoring_fields(self) -> dict[str, str]:
        """The fields, with only the part of the task's version that can move a score.

        >>> Signature(benchmark={"task": "mmie@1-A", "data": "sha256:12"}).scoring_fields
        {'task': 'mmie@1', 'data': 'sha256:12'}
        """
        fields = self.fields
        if version := _TASK_VERSION.fullmatch(fields.get("task", "")):
            fields["task"] = version["scoring"]
        return fields

    @property
    def is_panel(self) -> bool:
        """Whether several judges give one verdict."""
        return len(self.judges) > 1

    @property
    def is_of_another_judge(self) -> bool:
        """Whether the judge is not the paper's; False if unknown."""
        return self.benchmark.get("paper_judge") == "no"

    @property
    def judge_settings(self) -> tuple[str, ...]:
        """Settings of the judge `openai` that differ from its defaults and can move a score.

        >>> Signature.of_judges([{"judge": "openai", "t": 1, "detail": "low"}]).judge_settings
        ('temperature 1', 'detail low')
        """
        return tuple(
            f"{title} {judge[key]}"
            for judge in self.judges
            if judge.get("judge") == "openai"
            for key, (title, default) in _SETTINGS.items()
            if judge.get(key, default) != default
        )

    @property
    def self_judge(self) -> str:
        """``MODEL at HOST`` of the judge that is the tested model; empty if none is."""
        return self.benchmark.get("judges_itself", "")

    def with_replies_by(self, models: Iterable[str]) -> Signature:
        """The signature of a sample whose replies name other models than the requested judges.

        >>> signature = Signature.of_judges([{"judge": "a", "model": "m"}])
        >>> str(signature.with_replies_by(["n"]))
        'judge:a|model:m|paper_judge:no|replies_by:n'
        """
        marks = {"paper_judge": "no", "replies_by": ", ".join(models)}
        return replace(self, benchmark={**self.benchmark, **_texts(marks)})

    def with_answers(self, answers: str | None) -> Signature:
        """Sets the key ``answers`` of a sample whose pictures were drawn, unless it is None."""
        return replace(self, benchmark={**self.benchmark, **_texts({"answers": answers})})

    @property
    def has_other_prompt(self) -> bool:
        """Whether the judge's prompt has other words than the official one."""
        return not self.benchmark.get("prompt", "official").startswith("official")

    @property
    def answer_form(self) -> AnswerForm:
        """How the answers came about.

        >>> Signature(benchmark={"answers": "step-3,images,model=flux"}).answer_form
        'drawn'
        """
        return "drawn" if "," in self.benchmark.get("answers", "") else "plain"

    @property
    def picture_words(self) -> str:
        """Name and version of the words that asked for pictures; empty for other questions.

        >>> Signature(benchmark={"answers": "step-3,images,model=flux"}).picture_words
        'step-3'
        """
        return self.benchmark.get("answers", "").partition(",")[0]

    @property
    def min_coverage(self) -> float:
        """The coverage floor, 0 to 1.

        >>> Signature(benchmark={"min_coverage": "0.5"}).min_coverage
        0.5
        """
        floor = self.benchmark.get("min_coverage", "")
        return float(floor) if _SHARE.fullmatch(floor) else COVERAGE_FLOOR

    @property
    def judge_names(self) -> list[str]:
        """The model, or else the kind, of each judge of a panel; empty for a single judge."""
        return numbered_names(list(map(_name, self.judges))) if self.is_panel else []

    @property
    def name(self) -> str:
        """The judge's model, or else its kind, or a panel's judges; empty without a judge.

        >>> Signature.of_judges([{"judge": "openai", "model": "gpt-4o"}, {"judge": "x"}]).name
        'panel of gpt-4o, x (median)'
        """
        if self.is_panel:
            return f"panel of {', '.join(self.judge_names)} (median)"
        return _name(self.judges[0]) if self.judges else ""


def _name(judge: Mapping[str, str]) -> str:
    return judge.get("model") or judge.get("judge", "")


@lru_cache(maxsize=128)
def _shared(signature: Signature) -> Signature:
    return signature


SharedSignature: TypeAlias = Annotated[Signature, AfterValidator(_shared)]
"""The signature in a record; equal ones are one object, since each sample of a run has them."""
