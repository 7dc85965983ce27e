"""Verdicts of MileBench's answers, the rows that the runner aggregates, and means over datasets.

Pure: no files, network, clock, environment or logging.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.benchmarks.milebench.official import score_choice, score_needle, score_rouge, score_substring
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_needle, read_phrase, read_rouge
from mmie_tasks.benchmarks.milebench.sample import DATASETS, DATASETS_OF, DIAGNOSTIC, REALISTIC, TASK_OF, TASKS, Sample
from mmie_tasks.core.verdict import (
    COVERAGE_FLOOR,
    Mean,
    Scored,
    Tally,
    Verdict,
    Verdicts,
    as_row,
    mean_of,
    tally,
    verdict_of,
)

MetricRow: TypeAlias = dict[str, object]

MEANS_OF_TASKS: Mapping[str, tuple[str, ...]] = {
    "real": REALISTIC,  # the paper's Realistic
    "diag": DIAGNOSTIC,  # the paper's Diagnostic; its GPT-4V and GPT-4o rows leave out I-1
    "temporal": tuple(task for task in REALISTIC if task[0] == "T"),  # T of LongLLaVA and V2PE
    "semantic": tuple(task for task in REALISTIC if task[0] == "S"),  # S of LongLLaVA and V2PE
    "needles": ("N-1", "N-2"),  # NH of LOOK-M and MEDA, NI of V2PE
    "retrieval": ("I-1",),  # IR of LongLLaVA and LOOK-M
    "tasks12": TASKS,  # LongLLaVA's Total
    **{task: (task,) for task in TASKS},
}
"""Means of task means, where a task is the mean of its datasets. The paper's averages were
reconstructed from its table and agree with all 22 rows of it."""

MEANS_OF_DATASETS: Mapping[str, tuple[str, ...]] = {
    "datasets26": tuple(d for d in DATASETS if TASK_OF[d] in REALISTIC)  # LongLLaVA's Real
}
"""Means of dataset means: how LongLLaVA's evaluator, and the paper's Random row, average."""

_MAX_REASON_CHARACTERS = 90
_OFFICIAL = {"rouge": score_rouge, "needle": score_needle, "substring": score_substring}
_ROBUST = {"rouge": read_rouge, "needle": read_needle, "substring": read_phrase}


def official(sample: Sample, answer: object) -> Verdict:
    """The verdict of the official scorer: 0 or 1, or ROUGE-L F between 0 and 1.

    Source: the branches of ``main`` in ``evaluate.py`` of MileBench at 9583e1f.
    """
    if sample.rule == "choice":
        return score_choice(sample.gold, answer, sample.choices)
    return _OFFICIAL[sample.rule](sample.gold, answer)


def robust(sample: Sample, answer: object) -> Verdict:
    """The verdict of the robust reader, on the same scale: the intention of the official rule."""
    if sample.rule == "choice":
        return read_choice(sample.gold, answer, sample.choices)
    return _ROBUST[sample.rule](sample.gold, answer)


def score(sample: Sample, answer: object) -> Verdicts:
    """Both verdicts on an answer of the tested model."""
    return Verdicts(official=official(sample, answer), robust=robust(sample, answer))


def verdict_fields(verdicts: Verdicts) -> MetricRow:
    """The verdicts as fields of a record."""
    return {"official": as_row(verdicts.official), "robust": as_row(verdicts.robust), "differ": verdicts.differ}


def sample_record(sample: Sample, verdicts: Verdicts, signature: str, images: Sequence[str] | None = None) -> MetricRow:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        verdicts: On its answer.
        signature: Everything that can move the score.
        images: The files at the placeholders of the prompt; by default all of the sample's.
    """
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "task": TASK_OF[sample.dataset],
        "rule": sample.rule,
        "level": sample.level,
        "gold": sample.gold,
        "choices": list(sample.choices),
        "images": list(sample.images if images is None else images),
        **verdict_fields(verdicts),
        "signature": signature,
    }


def dataset_rows(sample: Sample, verdicts: Verdicts, record: MetricRow, image_set: str) -> MetricRow:
    """The rows of a ``milebench_<dataset>`` task: metric to what the sample adds to it.

    Args:
        sample: The question.
        verdicts: On its answer.
        record: See `sample_record`.
        image_set: Id of the sample's images: samples with the same images are not independent.
    """
    ids = {"id": sample.id, "image_set": image_set}
    row = as_row(verdicts.official, **ids)
    return {
        "coverage": record,
        "differ": {"differ": verdicts.differ},
        "official": row,
        "robust": as_row(verdicts.robust, **ids),
        sample.level: row,
    }


def benchmark_rows(sample: Sample, verdicts: Verdicts, record: MetricRow) -> MetricRow:
    """The rows of the ``milebench`` task: only the metrics that this sample counts for.

    A mean of means gets its values under ``points``, not ``score``: otherwise the runner would
    print the standard error of the pooled samples beside it.

    Args:
        sample: The question.
        verdicts: On its answer.
        record: See `sample_record`.
    """
    rows: MetricRow = {"coverage": record, "differ": {"differ": verdicts.differ}}
    means = [name for name, tasks in MEANS_OF_TASKS.items() if TASK_OF[sample.dataset] in tasks]
    means += [name for name, names in MEANS_OF_DATASETS.items() if sample.dataset in names]
    for kind, verdict in (("official", verdicts.official), ("robust", verdicts.robust)):
        rows[f"{kind}_{sample.dataset}"] = rows[f"{kind}_{sample.level}"] = as_row(verdict, id=sample.id)
        part: MetricRow = {"dataset": sample.dataset}
        if isinstance(verdict, Scored):
            part["points"] = verdict.points
        else:
            part["unscored"] = verdict.reason
        rows.update({f"{kind}_{mean}": part for mean in means})
    return rows


def by_dataset(verdicts: Iterable[tuple[str, Verdict]]) -> dict[str, Tally]:
    """Tally per dataset, in the paper's order.

    >>> from mmie_tasks.core.verdict import Scored, Unscored
    >>> by_dataset([("TQA", Scored(1.0)), ("TQA", Unscored("no_answer"))])
    {'TQA': Tally(mean=1.0, scored=1, unscored=1)}
    """
    grouped: dict[str, list[Verdict]] = {}
    for dataset, verdict in verdicts:
        grouped.setdefault(dataset, []).append(verdict)
    return {dataset: tally(grouped[dataset]) for dataset in DATASETS if dataset in grouped}


def total(name: str, tallies: Mapping[str, Tally], floor: float = COVERAGE_FLOOR) -> Mean:
    """A mean of `MEANS_OF_TASKS` or `MEANS_OF_DATASETS`; none unless all its parts have a mean.

    >>> total("S-1", {"TQA": Tally(1.0, 9, 0)}).why_not
    'WebQA, MultiModalQA, WikiVQA not in this run'
    """
    if name in MEANS_OF_DATASETS:
        return _mean_of_datasets(MEANS_OF_DATASETS[name], tallies, floor)
    return _average([_mean_of_datasets(DATASETS_OF[task], tallies, floor) for task in MEANS_OF_TASKS[name]])


def _mean_of_datasets(names: Sequence[str], tallies: Mapping[str, Tally], floor: float) -> Mean:
    if missing := [name for name in names if name not in tallies]:
        return Mean(None, f"{', '.join(missing)} not in this run")
    means = [(name, mean_of(tallies[name], floor)) for name in names]
    return _average([Mean(m.value, m.why_not and f"{name}: {m.why_not}") for name, m in means])


def _average(means: Sequence[Mean]) -> Mean:
    values = [mean.value for mean in means if mean.value is not None]
    if len(values) < len(means):
        return Mean(None, "; ".join(mean.why_not for mean in means if mean.why_not))
    return Mean(sum(values) / len(values))


def summary(records: Sequence[MetricRow], floor: float = COVERAGE_FLOOR) -> str:
    """A text table: per dataset, per task, the totals, unscored samples, and the signature.

    Args:
        records: The `sample_record` of each sample; at least one.
        floor: Of coverage, below which there is no mean, 0 to 1.
    """
    official_tallies, robust_tallies = _tallies(records, "official"), _tallies(records, "robust")
    differing = Counter(str(row["dataset"]) for row in records if row["differ"])
    lines = [f"{'':<28}{'official':>9}{'robust':>9}{'differ':>8}  scored"]
    for dataset, counts in official_tallies.items():
        name = f"{TASK_OF[dataset]} {dataset}"
        scored = f"{counts.scored}/{counts.scored + counts.unscored}"
        mean = mean_of(counts, floor)
        pair = _pair(mean, mean_of(robust_tallies[dataset], floor))
        lines.append(f"{name:<28}{pair}{differing[dataset]:>8}  {scored}{_reason(mean)}")
    if len(official_tallies) > 1:
        present = {TASK_OF[dataset] for dataset in official_tallies}
        tasks = [task for task in TASKS if task in present]
        means = [name for name in (*MEANS_OF_TASKS, *MEANS_OF_DATASETS) if name not in TASKS]
        for name in tasks + means:
            mean = total(name, official_tallies, floor)
            pair = _pair(mean, total(name, robust_tallies, floor))
            lines.append(f"{name:<28}{pair}{_reason(mean)}")
    rows = [row for r in records if isinstance(row := r["official"], Mapping)]
    unscored = Counter(str(row["unscored"]) for row in rows if "unscored" in row)
    lines += [f"unscored, {reason}: {count}" for reason, count in sorted(unscored.items())]
    return "\n".join([*lines, *sorted({str(row["signature"]) for row in records})])


def _tallies(records: Sequence[MetricRow], kind: str) -> dict[str, Tally]:
    rows = ((str(row["dataset"]), row[kind]) for row in records)
    return by_dataset((name, verdict_of(row)) for name, row in rows if isinstance(row, Mapping))


def _pair(official_mean: Mean, robust_mean: Mean) -> str:
    values = (official_mean.value, robust_mean.value)
    return "".join(f"{'n/a' if value is None else f'{value:.4f}':>9}" for value in values)


def _reason(mean: Mean) -> str:
    reason = mean.why_not and f"  ({mean.why_not})"
    return reason if len(reason) <= _MAX_REASON_CHARACTERS else f"{reason[: _MAX_REASON_CHARACTERS - 4]}...)"
