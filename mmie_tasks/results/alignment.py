"""Several runs of one task: points by sample as arrays, and differences of their signatures."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.core.verdict import COVERAGE_FLOOR, Scored, Tally, Unscored, mean_of
from mmie_tasks.record.intervals import Floats, Indices
from mmie_tasks.record.metric_values import floor_of
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.commands import require_kind
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.summary import metrics_of

Flags = npt.NDArray[np.bool_]

PLAIN_MEAN = Metric(name="", title="", kind="")  # the mean of the points of all samples


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoints:
    """The points of one run for each sample that any run has, in the order of the ids.

    Attributes:
        points: On the benchmark's own scale; NaN where there are none.
        present: Whether the run has the sample.
        counted: Whether the sample counts for the mean: not where the official script leaves it
            out.
    """

    points: Floats
    present: Flags
    counted: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """The samples of one stratum of a metric that every run has points for.

    Attributes:
        key: A name that strata with other samples do not have; random draws depend on it.
        weight: Of its mean in the metric; the weights of a metric add up to 1.
        points: On the benchmark's own scale, shape ``(runs, samples)``; or differences of two
            runs, shape ``(samples,)``.
    """

    key: str
    weight: float
    points: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMetric:
    """A metric over the samples that every run has points for.

    Attributes:
        strata: Empty where the metric has no value.
        samples: How many samples it is over.
        why_not: Why it has no value.
    """

    strata: tuple[Stratum, ...]
    samples: int
    why_not: str = ""

    @property
    def means(self) -> Floats:
        """The metric of each run, on the scale of the points; shape ``(runs,)``."""
        means = [stratum.weight * stratum.points.mean(axis=1) for stratum in self.strata]
        total: Floats = np.sum(means, axis=0)
        return total


class AlignedRuns:
    """Runs of one task, aligned by sample.

    Args:
        runs: At least one.
        labels: Their names in messages.
        score_kind: Official, robust or expected.

    Attributes:
        floor: Of coverage, below which a metric has no value, 0 to 1.

    Raises:
        SettingWrong: A run has no scores of this kind.
    """

    def __init__(
        self, runs: Sequence[TaskRun], labels: Sequence[str], score_kind: ScoreKind
    ) -> None:
        for run, label in zip(runs, labels, strict=True):
            require_kind(run, label, score_kind)
        by_id = [run.by_id for run in runs]
        self.ids: tuple[str, ...] = tuple(sorted({id_ for samples in by_id for id_ in samples}))
        self.benchmark: Benchmark = runs[0].benchmark
        self.metrics = metrics_of(runs)
        self.task_runs, self.labels, self.score_kind = tuple(runs), tuple(labels), score_kind
        self._samples = [[samples.get(id_) for id_ in self.ids] for samples in by_id]
        columns = zip(*self._samples, strict=True)
        self._first = [next(filter(None, column)) for column in columns]
        self.floor = max(map(floor_of, self._first), default=COVERAGE_FLOOR)
        self._run_points: dict[str, list[RunPoints]] = {}
        self._groups: dict[str, dict[tuple[str, ...], Indices]] = {}

    @property
    def notes(self) -> list[str]:
        """On the logs."""
        runs = zip(self.labels, self.task_runs, strict=True)
        return [f"{label}: {note}" for label, run in runs for note in run.notes]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of group that a sample is in."""
        return tuple(dict.fromkeys(kind for sample in self._first for kind in sample.groups))

    def run_points(self, metric: Metric) -> list[RunPoints]:
        """The points that count for a metric, one entry per run."""
        if metric.part not in self._run_points:
            scale = self.benchmark.scale
            self._run_points[metric.part] = []
            for run in self._samples:
                verdicts = [metric.verdict(s, self.score_kind, scale) if s else None for s in run]
                points = [v.points if isinstance(v, Scored) else np.nan for v in verdicts]
                left_out = [isinstance(v, Unscored) and v.reason == "left_out" for v in verdicts]
                run_points = RunPoints(
                    points=np.array(points, dtype=np.float64),
                    present=np.array([v is not None for v in verdicts], dtype=np.bool_),
                    counted=~np.array(left_out, dtype=np.bool_),
                )
                self._run_points[metric.part].append(run_points)
        return self._run_points[metric.part]

    def groups(self, kind: str) -> dict[tuple[str, ...], Indices]:
        """Groups of a kind to the indices of the samples in exactly these; sorted by group."""
        if kind not in self._groups:
            indices: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
            for index, sample in enumerate(self._first):
                indices[sample.names(kind)].append(index)
            self._groups[kind] = {names: np.array(indices[names]) for names in sorted(indices)}
        return self._groups[kind]

    def strata(self, metric: Metric) -> dict[str, Indices]:
        """Each stratum of a metric that has samples, to their indices."""
        indices: defaultdict[str, list[Indices]] = defaultdict(list)
        for group in self.groups(metric.by).values():
            if (stratum := metric.stratum(self._first[group[0]])) is not None:
                indices[stratum].append(group)
        return {name: np.sort(np.concatenate(groups)) for name, groups in indices.items()}

    def shared(self, metric: Metric) -> SharedMetric | None:
        """A metric over the samples that all runs have points for.

        It has no value where a run has points for a smaller share than `floor` of the samples that
        any run has, of a stratum: the scored samples might then be a biased choice.

        Returns:
            None where no sample counts for it.
        """
        strata = self.strata(metric)
        if not strata:
            return None
        points = np.stack([run.points for run in self.run_points(metric)])
        scored: Flags = np.all(np.isfinite(points), axis=0)
        shared = {name: indices[scored[indices]] for name, indices in strata.items()}
        samples = sum(map(len, shared.values()))
        if why_not := self._why_not(metric, strata, shared):
            return SharedMetric(strata=(), samples=samples, why_not=why_not)
        shared_strata = tuple(
            Stratum(
                # With the indices: metrics may choose differently among the groups of a sample.
                key=f"{metric.part}/{metric.by}/{name}/{zlib.crc32(shared[name].tobytes())}",
                weight=weight,
                points=points[:, shared[name]],
            )
            for name, weight in metric.weights.items()
        )
        return SharedMetric(strata=shared_strata, samples=samples)

    def _why_not(
        self, metric: Metric, strata: dict[str, Indices], shared: dict[str, Indices]
    ) -> str:
        if absent := [name for name in metric.weights if name not in strata]:
            return (
                f"{len(absent)} of {len(metric.weights)} parts not in these runs: {absent[0]}, ..."
            )
        reasons = []
        for name, indices in strata.items():
            prefix = f"{name}: " if len(metric.weights) > 1 else ""
            for label, run_points in zip(self.labels, self.run_points(metric), strict=True):
                points = run_points.points[
                    indices[run_points.counted[indices]]
                ]  # absent samples are unscored
                scored = points[np.isfinite(points)]
                mean = float(scored.mean()) if len(scored) else None
                tallied = Tally(mean=mean, scored=len(scored), unscored=len(points) - len(scored))
                if why_not := mean_of(tallied, self.floor).why_not:
                    reasons.append(f"{prefix}{label}: {why_not}")
            if not reasons and not len(shared[name]):
                reasons.append(f"{prefix}no sample has a score in all runs")
        more = f"; {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
        return "; ".join(reasons[:2]) + more


HARMLESS_KEYS = frozenset({"pkg", "replayed"})
"""Keys that move no score: a release that moves one raises the task's version, and a replayed reply
is the reply of the recorded judge."""

TESTED_KEYS = frozenset({"answers"})
"""Keys that describe the tested model, in which runs may differ as in the model itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureDifference:
    """A key in which the signatures of two runs differ.

    Attributes:
        key: ``judge``, ``model``, ``prompt``, ...
        a: The values it has in the first run, sorted; ``none`` where a signature lacks it.
        b: The same of the second. The same values as in `a` where either run is a mixture.
    """

    key: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def signature_differences(a: Iterable[str], b: Iterable[str]) -> tuple[SignatureDifference, ...]:
    """The keys that move a score and are not the same throughout two sets of signatures.

    A run that is a mixture of two judges cannot be compared: that counts as a difference, also
    where the other run is the same mixture.

    Args:
        a: The signatures of one run.
        b: Those of the other.

    Returns:
        In the order in which the signatures name the keys; empty where the runs can be compared.

    >>> signature_differences(["t:0|pkg:0.1.0"], ["t:1|pkg:0.2.0"])
    (SignatureDifference(key='t', a=('0',), b=('1',)),)
    """
    a_values, b_values = (
        [Signature(s).scoring_fields for s in a],
        [Signature(s).scoring_fields for s in b],
    )
    keys = dict.fromkeys(key for values in (*a_values, *b_values) for key in values)
    differences = []
    for key in keys:
        of_a, of_b = (
            tuple(sorted({s.get(key, "none") for s in signatures}))
            for signatures in (a_values, b_values)
        )
        is_mixed = len(of_a) > 1 or len(of_b) > 1
        if key not in HARMLESS_KEYS and (is_mixed or (of_a != of_b and key not in TESTED_KEYS)):
            differences.append(SignatureDifference(key=key, a=of_a, b=of_b))
    return tuple(differences)


def mixed_keys(signatures: Iterable[str]) -> tuple[str, ...]:
    """The keys that move a score and are not the same in all of these signatures.

    >>> mixed_keys(["judge:a|t:0|pkg:1", "judge:b|t:0|pkg:2"])
    ('judge',)
    """
    values = list(signatures)
    return tuple(difference.key for difference in signature_differences(values, values))


def scored_signatures(task_run: TaskRun) -> tuple[str, ...]:
    """The signatures of the samples with points: a judge without scores moves no score."""
    scored = (s for s in task_run.samples if Scored in (type(s.official), type(s.robust)))
    return tuple(dict.fromkeys(sample.signature for sample in scored)) or task_run.signatures


def difference_table(differences: Iterable[SignatureDifference]) -> str:
    """The differences of two runs, A and B, as a table."""
    rows = [[d.key, " and ".join(d.a), " and ".join(d.b)] for d in differences]
    return table(["key", "A", "B"], rows, text_columns=3)


def require_comparable(
    a: Sequence[str], b: Sequence[str], ignored: Collection[str], task: str
) -> tuple[SignatureDifference, ...]:
    """Check that the scores of two runs can be compared.

    Args:
        a: The signatures of one run.
        b: Those of the other.
        ignored: Keys that may differ.
        task: The task's name, for the message.

    Returns:
        The ignored differences.

    Raises:
        SettingWrong: Another key differs, or no signature has a key that is to be ignored.
    """
    keys = dict.fromkeys(
        key for signature in (*a, *b) for key in Signature(signature).scoring_fields
    )
    if unknown := sorted(set(ignored) - set(keys)):
        hint = f"the keys are: {', '.join(keys) or 'none, these logs have no signatures'}"
        raise SettingWrong(f"`--ignore`: no signature has `{unknown[0]}`.", hint=hint)
    differences = signature_differences(a, b)
    if refused := [difference for difference in differences if difference.key not in ignored]:
        all_keys = ",".join(difference.key for difference in differences)
        raise SettingWrong(
            f"`{task}`: A and B were not scored alike, so their scores cannot be compared.\n\n"
            f"{difference_table(refused)}",
            hint="run one of them again with the settings of the other; where only the reader "
            f"differs, `mmie-tasks rescore` both; `--ignore {all_keys}` compares them anyway",
        )
    return differences
