"""What one sample adds to which number: the values behind each row of the runner's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.milebench.official import (
    score_choice,
    score_needle,
    score_rouge,
    score_substring,
)
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_needle, read_phrase, read_rouge
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    DIAGNOSTIC,
    REALISTIC,
    TASK_OF,
    TASKS,
    Sample,
)
from mmie_tasks.core.verdict import (
    Mean,
    Scored,
    Tally,
    Unscored,
    UnscoredReason,
    Verdict,
    as_row,
    differ,
    mean_of,
    tally,
    verdict_of,
)

# Text to verdicts. Pure: no files, network, clock, environment or logging.

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
    """The verdict the official scorer evidently meant, on the same scale."""
    if sample.rule == "choice":
        return read_choice(sample.gold, answer, sample.choices)
    return _ROBUST[sample.rule](sample.gold, answer)


# From samples to the numbers of the paper, and of the papers after it.
#
# The paper's averages, reconstructed from its table and tested on all 22 rows of it: a task is the
# mean of its datasets, Real the mean of the nine T and S tasks, Diag the mean of N-1, N-2 and I-1.

TEMPORAL = tuple(task for task in REALISTIC if task.startswith("T"))
SEMANTIC = tuple(task for task in REALISTIC if task.startswith("S"))

MEANS_OF_TASKS: Mapping[str, tuple[str, ...]] = {
    "real": REALISTIC,  # the paper's Realistic
    "diag": DIAGNOSTIC,  # the paper's Diagnostic; its GPT-4V and GPT-4o rows leave out I-1
    "temporal": TEMPORAL,  # T of LongLLaVA and V2PE
    "semantic": SEMANTIC,  # S of LongLLaVA and V2PE
    "needles": ("N-1", "N-2"),  # NH of LOOK-M and MEDA, NI of V2PE
    "retrieval": ("I-1",),  # IR of LongLLaVA and LOOK-M
    "tasks12": TASKS,  # Total of LongLLaVA's evaluator
    **{task: (task,) for task in TASKS},
}
"""Means of task means, by name: the paper's two, and those of the papers that came after."""

MEANS_OF_DATASETS: Mapping[str, tuple[str, ...]] = {
    "datasets26": tuple(d for d in DATASETS if TASK_OF[d] in REALISTIC),  # LongLLaVA's Real
}
"""Means of dataset means: how LongLLaVA's evaluator, and the paper's Random row, average."""


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


def task_mean(task: str, datasets: Mapping[str, Tally]) -> Mean:
    """The mean of a task's datasets; none unless every one of them has a mean."""
    return _mean_of_means([d for d in DATASETS if TASK_OF[d] == task], datasets)


def total(name: str, datasets: Mapping[str, Tally]) -> Mean:
    """A mean of `MEANS_OF_TASKS` or `MEANS_OF_DATASETS`; none unless all its parts are there.

    >>> total("S-1", {"TQA": Tally(1.0, 9, 0)}).why_not
    'WebQA, MultiModalQA, WikiVQA not in this run'
    """
    if name in MEANS_OF_DATASETS:
        return _mean_of_means(MEANS_OF_DATASETS[name], datasets)
    means = [task_mean(task, datasets) for task in MEANS_OF_TASKS[name]]
    return _average(means)


def _mean_of_means(names: Sequence[str], datasets: Mapping[str, Tally]) -> Mean:
    if absent := [name for name in names if name not in datasets]:
        return Mean(None, f"{', '.join(absent)} not in this run")
    parts = {name: mean_of(datasets[name]) for name in names}
    return _average(
        [Mean(m.value, m.why_not and f"{name}: {m.why_not}") for name, m in parts.items()]
    )


def _average(means: Sequence[Mean]) -> Mean:
    values = [mean.value for mean in means if mean.value is not None]
    if len(values) < len(means):
        return Mean(None, "; ".join(mean.why_not for mean in means if mean.why_not))
    return Mean(sum(values) / len(values))


Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer, read twice."""

    official: Verdict
    robust: Verdict

    @property
    def differs(self) -> bool:
        """Whether the two readings give different points, or only one gives any."""
        return differ(self.official, self.robust)


def read(sample: Sample, answer: object, failure: str | None = None) -> Reading:
    """Read an answer both ways.

    Args:
        sample: The question.
        answer: What the tested model said.
        failure: Why there is no answer to read, if there is none; nothing is scored then.
    """
    if failure is not None:
        return unscored("no_answer", failure)
    return Reading(official(sample, answer), robust(sample, answer))


def unscored(reason: UnscoredReason, detail: str) -> Reading:
    """Neither reading gives points, for a reason outside the answer's text."""
    verdict = Unscored(reason, detail)
    return Reading(verdict, verdict)


def record(
    sample: Sample, reading: Reading, signature: str, images: Sequence[str] | None = None
) -> Row:
    """Everything to score the sample again later; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        reading: What came of the answer.
        signature: Everything that moves the number.
        images: The files at the places of the prompt; where not given, all of the sample's.
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
        **read_in(reading),
        "signature": signature,
    }


def read_in(reading: Reading) -> Row:
    """What the readings put into a record."""
    return {
        "official": as_row(reading.official),
        "robust": as_row(reading.robust),
        "differ": reading.differs,
    }


def dataset_rows(
    sample: Sample,
    reading: Reading,
    signature: str,
    image_set: str,
    images: Sequence[str] | None = None,
) -> Row:
    """Rows of a ``milebench_<dataset>`` task; see `record` for the arguments."""
    who = {"id": sample.id, "image_set": image_set}
    whole = as_row(reading.official, **who)
    return {
        "coverage": record(sample, reading, signature, images),
        "differ": {"differ": reading.differs},
        "official": whole,
        "robust": as_row(reading.robust, **who),
        sample.level: whole,
    }


def benchmark_rows(
    sample: Sample, reading: Reading, signature: str, images: Sequence[str] | None = None
) -> Row:
    """Rows of the ``milebench`` task: only those whose number this sample counts for.

    A mean of means gets its values under ``points``, not ``score``, because the runner would
    print the standard error of the pooled samples beside it.
    """
    rows: Row = {
        "coverage": record(sample, reading, signature, images),
        "differ": {"differ": reading.differs},
    }
    for name, verdict in (("official", reading.official), ("robust", reading.robust)):
        row = as_row(verdict, id=sample.id)
        rows[f"{name}_{sample.dataset}"] = rows[f"{name}_{sample.level}"] = row
        part = {"dataset": sample.dataset, **_points(verdict)}
        rows.update({f"{name}_{mean}": part for mean in _means_with(sample.dataset)})
    return rows


def _means_with(dataset: str) -> list[str]:
    tasks = [name for name, parts in MEANS_OF_TASKS.items() if TASK_OF[dataset] in parts]
    return tasks + [name for name, parts in MEANS_OF_DATASETS.items() if dataset in parts]


def _points(verdict: Verdict) -> Row:
    match verdict:
        case Scored():
            return {"points": verdict.points}
        case Unscored():
            return {"unscored": verdict.reason}


# The run in one table of words: official and robust side by side, coverage, and why not.

Record = Mapping[str, object]
_TOTALS = ("real", "diag", "temporal", "semantic", "needles", "retrieval", "tasks12", "datasets26")


def summary(records: Sequence[Record]) -> str:
    """Lines of text: per dataset, per task, the totals, what is unscored, and the signature.

    Args:
        records: What `metrics.record` made of each sample; at least one.
    """
    official, robust = _tallies(records, "official"), _tallies(records, "robust")
    differing = Counter(str(r["dataset"]) for r in records if r["differ"])
    lines = [f"{'':<28}{'official':>9}{'robust':>9}{'differ':>8}  scored"]
    for dataset, found in official.items():
        name = f"{TASK_OF[dataset]} {dataset}"
        counts = f"{found.scored}/{found.scored + found.unscored}"
        mean = mean_of(found)
        pair, why_not = _pair(mean, mean_of(robust[dataset])), _reason(mean)
        lines.append(f"{name:<28}{pair}{differing[dataset]:>8}  {counts}{why_not}")
    if len(official) > 1:
        lines += _totals(official, robust)
    lines += [f"unscored, {reason}: {n}" for reason, n in sorted(_unscored(records).items())]
    signatures = sorted({str(r["signature"]) for r in records})
    return "\n".join(lines + signatures)


def _tallies(records: Sequence[Record], reading: str) -> dict[str, Tally]:
    rows = ((str(r["dataset"]), r[reading]) for r in records)
    return by_dataset((name, verdict_of(row)) for name, row in rows if isinstance(row, Mapping))


def _pair(official: Mean, robust: Mean) -> str:
    values = (official.value, robust.value)
    return "".join(f"{'n/a' if value is None else f'{value:.4f}':>9}" for value in values)


def _totals(official: Mapping[str, Tally], robust: Mapping[str, Tally]) -> list[str]:
    present = {TASK_OF[dataset] for dataset in official}
    lines = []
    for name in (*(task for task in TASKS if task in present), *_TOTALS):
        found = total(name, official)
        lines.append(f"{name:<28}{_pair(found, total(name, robust))}{_reason(found)}")
    return lines


def _reason(mean: Mean, width: int = 90) -> str:
    if not mean.why_not:
        return ""
    reason = f"  ({mean.why_not})"
    return reason if len(reason) <= width else f"{reason[: width - 4]}...)"


def _unscored(records: Sequence[Record]) -> Counter[str]:
    rows = [row for r in records if isinstance(row := r["official"], Mapping)]
    return Counter(str(row["unscored"]) for row in rows if "unscored" in row)
