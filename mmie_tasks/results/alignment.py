"""Several runs of one task, sample beside sample, as arrays."""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.core.verdict import Scored, Tally, Unscored, mean_of
from mmie_tasks.runs.benchmark import LoggedSample, Metric, Scale, ScoreKind
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.metric_values import metrics_of

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one run has of each sample that any run has, in the order of the ids.

    Attributes:
        points: On the benchmark's own scale; NaN where there are none.
        present: Whether the run has the sample.
        due: Whether it is to have points: not where the official script leaves it out.
    """

    points: Floats
    present: Bools
    due: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The samples of one stratum of a number that every run has points for.

    Attributes:
        key: A name that parts with other samples do not have.
        weight: Of its mean in the number.
        points: Shape ``(runs, samples)``, on the benchmark's own scale.
    """

    key: str
    weight: float
    points: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A number over the samples that every run has points for.

    Attributes:
        parts: Empty where there is no number.
        samples: How many there are.
        why_not: Why there is no number.
    """

    parts: tuple[Part, ...]
    samples: int
    why_not: str = ""

    @property
    def means(self) -> Floats:
        """Of each run, on the scale of the points."""
        means = [part.weight * part.points.mean(axis=1) for part in self.parts]
        total: Floats = np.sum(means, axis=0)
        return total


class Aligned:
    """Runs of one task.

    Args:
        runs: At least one.
        labels: What messages call them.
        reading: Whose verdicts.
    """

    def __init__(self, runs: Sequence[TaskRun], labels: Sequence[str], reading: ScoreKind) -> None:
        known = [run.by_id for run in runs]
        self.ids: tuple[str, ...] = tuple(sorted({name for each in known for name in each}))
        self.benchmark = runs[0].benchmark
        self.numbers = metrics_of(runs)
        self._rows = [[each.get(name) for name in self.ids] for each in known]
        self._any = [next(filter(None, row)) for row in zip(*self._rows, strict=True)]
        self._labels, self._reading = labels, reading
        self._columns: dict[str, list[Column]] = {}
        self._kinds: dict[str, dict[tuple[str, ...], Places]] = {}

    @property
    def scale(self) -> Scale:
        """Of the points."""
        return self.benchmark.scale

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of group that a sample is in."""
        return tuple(dict.fromkeys(kind for sample in self._any for kind in sample.groups))

    def columns(self, number: Metric) -> list[Column]:
        """A column for each run."""
        if number.part not in self._columns:
            made = [_column(row, number, self._reading, self.scale) for row in self._rows]
            self._columns[number.part] = made
        return self._columns[number.part]

    def kind(self, name: str) -> dict[tuple[str, ...], Places]:
        """Where the samples are that are in the same groups of a kind; sorted by the groups."""
        if name not in self._kinds:
            found: dict[tuple[str, ...], list[int]] = defaultdict(list)
            for place, sample in enumerate(self._any):
                found[sample.names(name)].append(place)
            self._kinds[name] = {groups: np.array(found[groups]) for groups in sorted(found)}
        return self._kinds[name]

    def strata(self, number: Metric) -> dict[str, Places]:
        """Where the samples are that count for a number; only strata that have some."""
        found: dict[str, list[Places]] = defaultdict(list)
        for places in self.kind(number.by).values():
            if (stratum := number.stratum(self._any[places[0]])) is not None:
                found[stratum].append(places)
        return {name: np.sort(np.concatenate(each)) for name, each in found.items()}

    def shared(self, number: Metric) -> Shared | None:
        """A number over the samples that all runs have points for.

        There is none where a run has points for less than `verdict.COVERAGE_FLOOR` of the samples
        that any run has, of a stratum: what is left might be a choice.

        Returns:
            None where no sample counts for it.
        """
        strata = self.strata(number)
        if not strata:
            return None
        columns = self.columns(number)
        scored = np.all([np.isfinite(column.points) for column in columns], axis=0)
        both = {name: places[scored[places]] for name, places in strata.items()}
        samples = sum(map(len, both.values()))
        if why_not := self._why_not(number, strata, both):
            return Shared(parts=(), samples=samples, why_not=why_not)
        points = np.stack([column.points for column in columns])
        parts = tuple(
            Part(key=_key(number, name, both[name]), weight=weight, points=points[:, both[name]])
            for name, weight in number.weights.items()
        )
        return Shared(parts=parts, samples=samples)

    def alone(self, number: Metric, run: int) -> float | None:
        """A run's own number, on the scale of the points, over all samples it has points for."""
        column, total = self.columns(number)[run], 0.0
        strata = self.strata(number)
        for name, weight in number.weights.items():
            places = strata.get(name, np.array([], dtype=np.intp))
            mean = mean_of(_tally(column, places[column.present[places]])).value
            if mean is None:
                return None
            total += weight * mean
        return total

    def _why_not(self, number: Metric, strata: dict[str, Places], both: dict[str, Places]) -> str:
        if absent := [name for name in number.weights if name not in strata]:
            several = len(number.weights)
            return f"{len(absent)} of {several} parts not in these runs: {absent[0]}, ..."
        reasons = []
        for name, places in strata.items():
            where = f"{name}: " if len(number.weights) > 1 else ""
            for label, column in zip(self._labels, self.columns(number), strict=True):
                if why := mean_of(_tally(column, places)).why_not:
                    reasons.append(f"{where}{label}: {why}")
            if not reasons and not len(both[name]):
                reasons.append(f"{where}no sample has a score in all runs")
        more = f"; {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
        return "; ".join(reasons[:2]) + more


def _key(number: Metric, stratum: str, places: Places) -> str:
    """Numbers may choose differently among the groups of a sample, so the name is not enough."""
    return f"{number.part}/{number.by}/{stratum}/{zlib.crc32(places.tobytes())}"


def _column(
    row: Sequence[LoggedSample | None], number: Metric, reading: ScoreKind, scale: Scale
) -> Column:
    points, due = np.full(len(row), np.nan), np.ones(len(row), dtype=np.bool_)
    for place, sample in enumerate(row):
        match sample and number.verdict(sample, reading, scale):
            case Scored(points=value):
                points[place] = value
            case Unscored(reason="left_out"):
                due[place] = False
    present = np.array([sample is not None for sample in row], dtype=np.bool_)
    return Column(points=points, present=present, due=due)


def _tally(column: Column, places: Places) -> Tally:
    """Of the samples that are to have points; absent ones have none."""
    points = column.points[places[column.due[places]]]
    scored = points[np.isfinite(points)]
    mean = float(scored.mean()) if len(scored) else None
    return Tally(mean=mean, scored=len(scored), unscored=len(points) - len(scored))


# What in a signature moves a score, and what two sets of signatures disagree in.

HARMLESS = frozenset({"pkg", "replayed"})
"""Keys that move no score: a release that moves one raises the task's version, and a replayed reply
is the very reply that the judge once gave."""

_TASK = re.compile(r"(?P<scoring>.+@\d+)-\w+")  # name@N-X: X is the interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key of the signatures in which two runs are not one.

    Attributes:
        key: ``judge``, ``model``, ``prompt``, ...
        a: The values it has in the first run, sorted; ``none`` where a signature lacks it.
        b: The same of the second. The same values as in `a` where either run is a mixture.
    """

    key: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def parts(signature: str) -> dict[str, str]:
    """Key to value, of a signature; of the task's version only what moves a score.

    >>> parts("judge:openai|t:0|task:mmie@1-A|data:sha256:12")
    {'judge': 'openai', 't': '0', 'task': 'mmie@1', 'data': 'sha256:12'}
    """
    found: dict[str, list[str]] = {}
    for word in filter(None, signature.split("|")):
        key, _, value = word.partition(":")
        version = _TASK.fullmatch(value) if key == "task" else None
        found.setdefault(key, []).append(version["scoring"] if version else value)
    return {key: ", ".join(values) for key, values in found.items()}


def differences(a: Iterable[str], b: Iterable[str]) -> tuple[Difference, ...]:
    """What moves a score and is not the same throughout two sets of signatures.

    A run that is a mixture of two judges is not one run: that counts as a difference, also where
    the other run is the same mixture.

    Args:
        a: The signatures of one run.
        b: Those of the other.

    Returns:
        In the order in which the signatures name the keys; empty where they can be compared.

    >>> differences(["t:0|pkg:0.1.0"], ["t:1|pkg:0.2.0"])
    (Difference(key='t', a=('0',), b=('1',)),)
    """
    ours, theirs = [parts(each) for each in a], [parts(each) for each in b]
    keys = dict.fromkeys(key for each in (*ours, *theirs) for key in each)
    found = []
    for key in keys:
        of_a, of_b = _values(key, ours), _values(key, theirs)
        if key not in HARMLESS and (of_a != of_b or len(of_a) > 1):
            found.append(Difference(key=key, a=of_a, b=of_b))
    return tuple(found)


def mixed(signatures: Iterable[str]) -> tuple[str, ...]:
    """The keys that move a score and are not the same in all of these signatures.

    >>> mixed(["judge:a|t:0|pkg:1", "judge:b|t:0|pkg:2"])
    ('judge',)
    """
    known = list(signatures)
    return tuple(each.key for each in differences(known, known))


def _values(key: str, signatures: Iterable[dict[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({each.get(key, "none") for each in signatures}))


def of_scored(task: TaskRun) -> tuple[str, ...]:
    """The signatures of the samples with points: a judge that gave none moves no score."""
    scored = (s for s in task.samples if Scored in (type(s.official), type(s.robust)))
    return tuple(dict.fromkeys(sample.signature for sample in scored)) or task.signatures


def listed(found: Iterable[Difference]) -> str:
    """The differences as a table."""
    rows = [[each.key, " and ".join(each.a), " and ".join(each.b)] for each in found]
    return table(["what", "A", "B"], rows, text_columns=3)


def refuse_unless_alike(
    a: Sequence[str], b: Sequence[str], ignored: Collection[str], what: str
) -> tuple[Difference, ...]:
    """See that numbers can be compared.

    Args:
        a: The signatures of one run.
        b: Those of the other.
        ignored: Keys that may differ.
        what: The task, for the message.

    Returns:
        What differs and was ignored.

    Raises:
        SettingWrong: Something else differs, or no signature has a key that is to be ignored.
    """
    known = dict.fromkeys(key for signature in (*a, *b) for key in parts(signature))
    if unknown := sorted(set(ignored) - set(known)):
        hint = f"the keys there are: {', '.join(known) or 'none, these logs have no signatures'}"
        raise SettingWrong(f"`--ignore`: no signature has `{unknown[0]}`.", hint=hint)
    found = differences(a, b)
    if refused := [each for each in found if each.key not in ignored]:
        keys = ",".join(each.key for each in found)
        raise SettingWrong(
            f"`{what}`: A and B were not scored alike, so their numbers cannot be compared.\n\n"
            f"{listed(refused)}",
            hint="run one of them again as the other was run; where only the reader differs, "
            f"`mmie-tasks rescore` both; `--ignore {keys}` compares them all the same",
        )
    return found
