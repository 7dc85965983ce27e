"""The signature of a number: everything that can move it, as one line of ``key:value`` parts.

``panel:mean,min_valid=2|judge:openai|model:gpt-4o|paper_judge:no|prompt:official|...|pkg:0.1.0``:
the rule of a panel, each judge from ``judge:`` up to the next one, from ``paper_judge:`` on what
the benchmark adds. Only this module puts the text together and takes it apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from mmie_tasks.core import __version__
from mmie_tasks.core.settings import COVERAGE_FLOOR, coverage_floor
from mmie_tasks.core.wording import numbered_names
from mmie_tasks.record.panel import Panel, Rule

_PANEL = re.compile(r"\Apanel:(mean|median|majority),min_valid=(\d+)")
_PACKAGE = re.compile(r"\|pkg:[^|]*")
_REPLAYED = re.compile(r"\|replayed:[^|]*")
_SERVERS = re.compile(r"\|servers:[^|]*")
_SHARE = re.compile(r"0(?:\.\d+)?|1|\d(?:\.\d+)?e-\d\d")  # as `:g` writes 0 to 1
_TASK_VERSION = re.compile(r"(?P<scoring>.+@\d+)-\w+")  # name@N-X: X is the interface


def signature_text(*parts: str, **fields: object) -> str:
    """A signature of parts that are signatures themselves, then of keys with their values.

    A key with the value None is left out; a bar in a value becomes a blank.

    >>> signature_text("judge:a|t:0", prompt="official", max=None, data="sha256:12")
    'judge:a|t:0|prompt:official|data:sha256:12'
    """
    texts = {key: str(value) for key, value in fields.items() if value is not None}
    return "|".join((*parts, *(f"{key}:{text.replace('|', ' ')}" for key, text in texts.items())))


def run_signature(*parts: str, environment: Mapping[str, str]) -> str:
    """The signature of a benchmark's numbers in a run: its parts, the floor of coverage if it is
    not the default, and the version of this package.

    Raises:
        SettingWrong: See `coverage_floor`.
    """
    floor = coverage_floor(environment)
    changed = None if floor == COVERAGE_FLOOR else f"{floor:g}"
    return signature_text(*parts, min_coverage=changed, pkg=__version__)


AnswerForm: TypeAlias = Literal["plain", "instructed", "drawn"]
"""How answers came about. ``plain``: the model got the question; ``instructed``: and words of ours
that ask for pictures; ``drawn``: ``--model interleaved`` drew their pictures.
"""

INSTRUCTED = "instruct"
"""The name of the words for models that draw by themselves."""


def drawing_text(words: str, drawer: str) -> str:
    """The value of the key ``answers``: the words that asked for pictures, and what drew these.

    >>> drawing_text("step-2", "images,model=flux")
    'step-2,images,model=flux'
    """
    return f"{words},{drawer}"


def panel_text(panel: Panel) -> str:
    """Everything of a panel that can move a score, except its judges, as it stands before them.

    >>> panel_text(Panel(min_valid=2))
    'panel:median,min_valid=2'
    """
    return f"panel:{panel.rule},min_valid={panel.min_valid}"


def _grouped(text: str) -> dict[str, list[str]]:
    """Each key of a signature, in order, to its values."""
    values: dict[str, list[str]] = {}
    for part in filter(None, text.split("|")):
        key, _, value = part.partition(":")
        values.setdefault(key, []).append(value)
    return values


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature, by its text; ``str`` gives the same text again.

    Attributes:
        text: The parts, joined by ``|``.
    """

    text: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts in order, ``key:value`` each."""
        return tuple(filter(None, self.text.split("|")))

    @property
    def judges(self) -> tuple[Signature, ...]:
        """The signature of each judge; of a panel, of its members.

        >>> [str(judge) for judge in Signature("judge:a|t:0|judge:b|paper_judge:no").judges]
        ['judge:a|t:0', 'judge:b']
        """
        return tuple(map(Signature, self._divided[1]))

    @property
    def _divided(self) -> tuple[str, list[str], str]:
        """What stands before the judges, each judge, and what the benchmark adds."""
        before, *judges = f"|{self.text}".split("|judge:")
        if not judges:
            return self.text, [], ""
        judges[-1], mark, rest = judges[-1].partition("|paper_judge:")
        return before[1:], [f"judge:{judge}" for judge in judges], (mark + rest)[1:]

    @property
    def fields(self) -> dict[str, str]:
        """Key to value, in order; several values of a key are joined.

        A judge of a panel that lacks a key of the others has the value ``none``, so that values
        tell judges apart.

        >>> Signature("judge:openai|model:gpt-4o|paper_judge:no").fields["model"]
        'gpt-4o'
        >>> Signature("panel:mean|judge:openai|judge:replay|host:a|paper_judge:no").fields["host"]
        'none, a'
        """
        before, judges, rest = self._divided
        values = defaultdict(list, _grouped(before))
        of_judges = [_grouped(judge) for judge in judges]
        for key in dict.fromkeys(key for judge in of_judges for key in judge):
            for judge in of_judges:
                values[key] += judge.get(key, ["none"])
        for key, more in _grouped(rest).items():
            values[key] += more
        return {key: ", ".join(of_key) for key, of_key in values.items()}

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

    @property
    def self_judge(self) -> str:
        """The judge that is the tested model, as ``MODEL at HOST``; empty if none is known to be.

        >>> Signature("judge:a|paper_judge:no|judges_itself:m at 127.0.0.1:8000").self_judge
        'm at 127.0.0.1:8000'
        """
        return self.fields.get("judges_itself", "")

    def answered_by(self, models: Iterable[str]) -> Signature:
        """The signature of a sample whose judges' replies are by other models: that is not the
        paper's judge.

        >>> str(Signature("judge:a|model:m|paper_judge:yes|pkg:1").answered_by(["n"]))
        'judge:a|model:m|paper_judge:no|pkg:1|answered_by:n'
        """
        marked = self.text.replace("|paper_judge:yes", "|paper_judge:no")
        paper_judge = None if "|paper_judge:" in marked else "no"
        names = ", ".join(models)
        return Signature(signature_text(marked, paper_judge=paper_judge, answered_by=names))

    @property
    def has_other_prompt(self) -> bool:
        """Whether the words of the judge's prompt are not the official ones."""
        return not self.fields.get("prompt", "official").startswith("official")

    @property
    def has_other_assembly(self) -> bool:
        """Whether the text around the answer in the judge's request is not the official one."""
        return self.fields.get("assembly", "official") != "official"

    @property
    def answer_form(self) -> AnswerForm:
        """How the answers came about.

        >>> Signature("task:mmie@1-A|answers:step-2,images,model=flux").answer_form
        'drawn'
        """
        if not self.picture_words:
            return "plain"
        return "instructed" if self.picture_words.startswith(INSTRUCTED) else "drawn"

    @property
    def picture_words(self) -> str:
        """Name and version of the words that asked for pictures; empty for plain answers.

        >>> Signature("task:mmie@1-A|answers:step-2,images,model=flux").picture_words
        'step-2'
        """
        return self.fields.get("answers", "").partition(",")[0]

    @property
    def min_coverage(self) -> float:
        """The floor of coverage, 0 to 1.

        >>> Signature("task:mmie@1-A|min_coverage:0.5|pkg:1").min_coverage
        0.5
        """
        floor = self.fields.get("min_coverage", "")
        return float(floor) if _SHARE.fullmatch(floor) else COVERAGE_FLOOR

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

    def with_package(self, version: str) -> Signature:
        """The same signature, of another version of this package.

        >>> str(Signature("judge:a|pkg:0.1.0").with_package("0.2.0"))
        'judge:a|pkg:0.2.0'
        """
        return Signature(_PACKAGE.sub(f"|pkg:{version}", self.text))

    @property
    def without_servers(self) -> Signature:
        """Of a judge's signature in a cache, its own signature.

        >>> str(Signature("judge:a|t:0|host:b|servers:b:8000").without_servers)
        'judge:a|t:0|host:b'
        """
        return Signature(_SERVERS.sub("", self.text))

    @property
    def recorded(self) -> Signature:
        """Of a replayed judge, the signature of the judge that was recorded; else the same.

        >>> str(Signature("judge:a|t:0|replayed:1f2e").recorded)
        'judge:a|t:0'
        """
        return Signature(_REPLAYED.sub("", self.text))

    @property
    def judge_names(self) -> list[str]:
        """The model of each judge of a panel, or else its kind, in order; empty for a single judge.

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
