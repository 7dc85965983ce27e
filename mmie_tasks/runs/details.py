"""Every number of a task of a run, for the results file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.record import Record
from mmie_tasks.record.sample import SCORE_KINDS, ScoreKind
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of, reasons_of, value_of


def details_of(task_run: TaskRun, records: Sequence[Record]) -> dict[str, float]:
    """Every number of a task, for the results file.

    * Scores in percent, absent without a mean: ``official_<metric>``, ``robust_<metric>``, and for
      the paper's columns the 95 % interval of the official score, from ``ci95_low_<metric>`` to
      ``ci95_high_<metric>``.
    * Counts of samples, absent if zero: ``scored_<metric>``, ``samples_<metric>``,
      ``left_out``, ``unscored_<reason>``, ``differ``, the benchmark's own, and ``points_<n>`` if
      points are whole numbers (a panel's may not be). Samples that the official script leaves out
      are in ``left_out`` only.
    """
    benchmark, samples = task_run.benchmark, task_run.samples
    details: dict[str, float | int | None] = {}
    for metric in metrics_of([task_run]):
        details |= _metric_details(task_run, metric)
    details["differ"] = sum(sample.differs for sample in samples)
    prefixes: dict[ScoreKind, str] = {"official": "", "robust": "robust_"}
    for kind, prefix in prefixes.items():
        reasons = reasons_of(task_run, kind)
        details[f"{prefix}left_out"] = reasons.pop("left_out", 0)
        details |= {f"{prefix}unscored_{reason}": count for reason, count in reasons.items()}
    is_panel = any(signature.is_panel for signature in task_run.signatures)
    if benchmark.scale.whole and not is_panel:
        points = Counter(v.points for s in samples if isinstance(v := s.official, Scored))
        details |= {f"points_{n:g}": points[n] for n in sorted(points)}
    details |= benchmark.counts(records)
    return {  # without counts of zero; counts are whole numbers
        name: value
        for name, value in details.items()
        if value is not None and (value or isinstance(value, float))
    }


def _metric_details(task_run: TaskRun, metric: Metric) -> dict[str, float | int | None]:
    name = f"_{metric.name}" if metric.name else ""
    has_interval = metric.in_table or metric.kind == "headline"
    official, robust = (value_of(task_run, metric, kind) for kind in SCORE_KINDS)
    details = {
        f"official{name}": official.percent if official else None,
        f"scored{name}": official.scored if official else 0,
        f"samples{name}": official.total if official else 0,
    }
    if has_interval:
        low, high = (official and official.interval) or (None, None)
        details |= {f"ci95_low{name}": low, f"ci95_high{name}": high}
    return details | {f"robust{name}": robust.percent if robust else None}
