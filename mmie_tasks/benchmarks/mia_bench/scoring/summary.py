"""The run in one table of words: both readings side by side, why not, who judged, what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES
from mmie_tasks.replies import replies_in_words, replies_of
from mmie_tasks.verdict import Scored, Unscored, Verdict, mean_of, tally, verdict_of

Record = Mapping[str, object]
_READINGS = ("official", "robust")


def summary(records: Sequence[Record]) -> str:
    """Lines of text.

    Args:
        records: What `metrics.rows` made of each sample under ``coverage``; at least one.
    """
    clean = [record for record in records if not record["contradictory"]]
    lines = [f"{'percent of full marks':<22}{'official':>9}{'robust':>9}  scored"]
    lines += [_line("total", *_totals(records)), _line("clean", *_totals(clean))]
    for kind in TYPES:
        lines.append(_line(kind, *_totals([r for r in records if r["type"] == kind])))
    for category in CATEGORIES:
        lines.append(_line(category, *(_parts(records, each, category) for each in _READINGS)))
    for reading, verdicts in zip(_READINGS, _totals(records), strict=True):
        lines.append(_unscored(reading, verdicts))
    lines += [_agreement(records), replies_in_words(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def _totals(records: Sequence[Record]) -> list[list[Verdict]]:
    return [[_verdict(record, reading) for record in records] for reading in _READINGS]


def _verdict(record: Record, reading: str) -> Verdict:
    return verdict_of(_mapping(record[reading]))


def _parts(records: Sequence[Record], reading: str, category: str) -> list[Verdict]:
    """The marks for a category, of the samples that have it."""
    found: list[Verdict] = []
    for record in records:
        categories = record["categories"]
        if isinstance(categories, list) and category in categories:
            share = _mapping(_mapping(record["parts"])[reading]).get(category)
            if isinstance(share, (int, float)):
                found.append(Scored(100 * share))
            else:
                found.append(Unscored("unparsed"))
    return found


def _line(name: str, official: Sequence[Verdict], robust: Sequence[Verdict]) -> str:
    if not official:
        return ""
    tallies = [tally(official), tally(robust)]
    means = [mean_of(found) for found in tallies]
    texts = ["n/a" if mean.value is None else f"{mean.value:.2f}" for mean in means]
    values = "".join(f"{text:>9}" for text in texts)
    scored = " and ".join(str(found.scored) for found in tallies)
    why = f"  ({means[0].why_not})" if means[0].why_not else ""
    return f"{name:<22}{values}  {scored} of {len(official)}{why}"


def _unscored(reading: str, verdicts: Sequence[Verdict]) -> str:
    reasons = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
    listed = ", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items()))
    return f"unscored in the {reading} reading: {listed}" if listed else ""


def _agreement(records: Sequence[Record]) -> str:
    differ = sum(bool(record["differ"]) for record in records)
    unsound = sum(not record["agrees"] for record in records)
    again = sum(len(replies_of(record)) > 1 for record in records)
    return (
        f"the readings differ on {differ}; the stated total is not that of its parts on {unsound}; "
        f"asked once more: {again}"
    )


def _mapping(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}
