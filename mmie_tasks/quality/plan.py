"""The plan of the answers that people should score.

A plan is a random sample of a run whose order can be verified: the samples of a stratum are in the
order of the SHA-256 of seed and id. People score the first ones of each stratum, so scores that
were stopped early, a plan that was extended and a plan of two runs are all random samples, and the
run and the seed alone show whether the scored samples are one.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.intervals import allocation
from mmie_tasks.record.metrics import Metric, metric_value
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind
from mmie_tasks.results.labels import answer_digest
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of

_MIN_PER_STRATUM = 2  # samples that a plan takes of every stratum at least: one has no spread


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSample:
    """A sample with points on the benchmark's own scale, and the stratum that it is drawn in."""

    sample: LoggedSample
    stratum: str
    points: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSamples:
    """The samples of a run that count for its headline and have points.

    Attributes:
        by_id: Sample id to sample.
        without: Why samples are not in it, to their ids: ``left_out``, ``unparsed``, ...
        why_not: Why the headline has no value; empty if it has one.
    """

    by_id: Mapping[str, JudgedSample]
    without: Mapping[str, tuple[str, ...]]
    why_not: str = ""


def judged_samples(task_run: TaskRun, kind: ScoreKind) -> JudgedSamples:
    """The samples that can be scored, by people and by the judge.

    The strata are the groups of a headline that is a mean of group means; else the groups of the
    kind `Benchmark.strata`; else there is one.
    """
    metric, benchmark = metrics_of([task_run])[0], task_run.benchmark
    by_id: dict[str, JudgedSample] = {}
    without: defaultdict[str, list[str]] = defaultdict(list)
    for sample in task_run.samples:
        stratum = metric.stratum(sample)
        if stratum is None:  # it does not count for the headline
            continue
        if len(metric.weights) <= 1:
            strata = benchmark.strata
            stratum = next(iter(sample.names(strata)), "other") if strata else ALL
        verdict = metric.verdict(sample, kind, benchmark.scale)
        if isinstance(verdict, Scored):
            by_id[sample.id] = JudgedSample(sample=sample, stratum=stratum, points=verdict.points)
        else:
            without[verdict.reason].append(sample.id)
    value = metric_value(task_run.samples, metric, kind, benchmark.scale)
    return JudgedSamples(
        by_id=by_id,
        without={reason: tuple(ids) for reason, ids in without.items()},
        why_not=value.why_not if value else "no sample counts for it",
    )


def stratum_weights(
    metric: Metric, strata: Iterable[str], sizes: Mapping[str, int] | None = None
) -> Mapping[str, float]:
    """Stratum to its weight in a metric; weights add up to 1.

    Args:
        metric: The headline; a mean of group means has its own weights.
        strata: The stratum of each sample with points.
        sizes: Numbers of samples to weigh the strata by, as of `Benchmark.stratum_sizes`; where
            one is missing, and by default, the numbers of these samples.
    """
    if len(metric.weights) > 1:
        return metric.weights
    counts: Mapping[str, int] = Counter(sorted(strata))
    if sizes and sizes.keys() >= counts.keys():
        counts = {name: sizes[name] for name in counts}
    return {name: count / sum(counts.values()) for name, count in counts.items()}


def strata_in_order(strata: Mapping[str, str], seed: int) -> dict[str, list[str]]:
    """Stratum, by name, to its ids in the order in which people should score them: by SHA-256 of
    seed and id.

    Args:
        strata: Sample id to its stratum.
        seed: Of the plan.

    >>> strata_in_order(dict.fromkeys("abcd", "SA"), 7)
    {'SA': ['c', 'd', 'b', 'a']}
    """
    ids_by_stratum: dict[str, list[str]] = {name: [] for name in sorted(set(strata.values()))}

    def position(id_: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{id_}".encode(errors="surrogatepass")).digest()

    for id_ in sorted(strata, key=position):
        ids_by_stratum[strata[id_]].append(id_)
    return ids_by_stratum


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """An answer that people should score: the sample and its id, the `answer_digest`, and the
    stratum that it was drawn in.
    """

    id: str
    answer: str
    stratum: str
    sample: LoggedSample


def planned_answers(
    runs: Sequence[JudgedSamples], samples: int, seed: int
) -> tuple[PlannedAnswer, ...]:
    """The answers to score, in an order that stays in proportion to the strata wherever one stops.

    Identical answers of two runs are one. Those of one sample are in an order that says nothing
    about the runs.

    Args:
        runs: One or more; the plan is over the samples that any of them has points for.
        samples: How many samples; all if there are fewer.
        seed: The same seed gives the same plan, whatever the order of the log.
    """
    strata = {id_: judged.stratum for run in runs for id_, judged in run.by_id.items()}
    ordered = strata_in_order(strata, seed)
    counts = _counts([len(ids) for ids in ordered.values()], samples)
    ranked = sorted(
        ((rank + 0.5) / count, position, id_)
        for position, (count, ids) in enumerate(zip(counts, ordered.values(), strict=True))
        for rank, id_ in enumerate(ids[:count])
    )
    plan: list[PlannedAnswer] = []
    for _, _, id_ in ranked:
        answers = [run.by_id[id_].sample for run in runs if id_ in run.by_id]
        for digest, sample in sorted({answer_digest(sample): sample for sample in answers}.items()):
            plan.append(PlannedAnswer(id=id_, answer=digest, stratum=strata[id_], sample=sample))
    return tuple(plan)


def _counts(sizes: Sequence[int], samples: int) -> list[int]:
    """Samples of each stratum: in proportion, and `_MIN_PER_STRATUM` at least."""
    proportional = allocation(sizes, min(samples, sum(sizes)))
    counts = [
        max(count, min(_MIN_PER_STRATUM, size))
        for count, size in zip(proportional, sizes, strict=True)
    ]
    for _ in range(sum(counts) - sum(proportional)):
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] -= counts[largest] > _MIN_PER_STRATUM
    return counts
