"""The run in one table of words: official and robust side by side, coverage, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, TASKS
from mmie_tasks.benchmarks.milebench.scoring.totals import by_dataset, total
from mmie_tasks.verdict import Mean, Tally, mean_of, verdict_of

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
