"""The run in one table of words, and as a row of the leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.benchmarks.mmie.scoring.metrics import slug
from mmie_tasks.benchmarks.mmie.scoring.notes import notes
from mmie_tasks.benchmarks.mmie.scoring.percent import FULL_MARKS
from mmie_tasks.benchmarks.mmie.scoring.totals import (
    Interval,
    average,
    ends,
    in_percent,
    official_of,
    robust_of,
)
from mmie_tasks.verdict import Scored, Verdict, tally

Record: TypeAlias = Mapping[str, object]

_NO_NUMBER = "n/a"


def summary(records: Sequence[Record], interval: Interval) -> str:
    """Lines of text.

    Args:
        records: What `metrics.rows` made of each sample under ``coverage``; at least one.
        interval: Gives the 95 % interval of a mean of points.
    """
    head = f"{'percent':<12}{'official':>9}{'95 % of it':>15}{'robust':>9}{'points':>8}  scored"
    parts: dict[str, Sequence[Record]] = {
        "AVG": records,
        **{each: [r for r in records if r["category"] == each] for each in CATEGORIES},
        **_by_field(records),
    }
    lines = [head, *(_line(name, members, interval) for name, members in parts.items())]
    lines += [_histogram(records), *notes(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def leaderboard_row(
    records: Sequence[Record], model: str, model_type: str
) -> dict[str, str | float | None]:
    """A row with the columns of the project's leaderboard, percent to 2 decimals.

    Args:
        records: As for `summary`.
        model: The tested model.
        model_type: ``Interleaved LVLM`` or ``Integrated LVLM``.

    Returns:
        None stands where there is no number: no samples, or too few with a score.
    """
    row: dict[str, str | float | None] = {"Model": model, "Model Type": model_type}
    for category in CATEGORIES:
        of = [official_of(record) for record in records if record["category"] == category]
        row[category] = in_percent(of).value
    return {**row, "AVG": in_percent(map(official_of, records)).value}


def _line(name: str, records: Sequence[Record], interval: Interval) -> str:
    if not records:
        return ""
    official, robust = [official_of(r) for r in records], [robust_of(r) for r in records]
    numbers = [in_percent(official), in_percent(robust)]
    texts = (
        f"{_number(numbers[0].value, 2):>9}{_ends(official, interval):>15}"
        f"{_number(numbers[1].value, 2):>9}{_number(average(official).value, 3):>8}"
    )
    scored = " and ".join(str(tally(verdicts).scored) for verdicts in (official, robust))
    why = next((f"  ({number.why_not})" for number in numbers if number.why_not), "")
    return f"{name:<12}{texts}  {scored} of {len(records)}{why}"


def _number(value: float | None, decimals: int) -> str:
    return _NO_NUMBER if value is None else f"{value:.{decimals}f}"


def _ends(verdicts: Sequence[Verdict], interval: Interval) -> str:
    found = ends(verdicts, interval)
    return _NO_NUMBER if found is None else f"{found[0]:.2f}-{found[1]:.2f}"


def _by_field(records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The dataset's own name of each field, whatever it is, to its samples; sorted.

    Fields without a metric of their own are here as well. A sample without a field is nowhere.
    """
    named: dict[str, list[Record]] = {}
    for record in records:
        named.setdefault(slug(str(record["field"])), []).append(record)
    named.pop("", None)
    return {str(members[0]["field"]).strip(): members for _, members in sorted(named.items())}


def _histogram(records: Sequence[Record]) -> str:
    given = Counter(v.points for v in map(official_of, records) if isinstance(v, Scored))
    return "points given: " + ", ".join(f"{n}: {given[n]}" for n in range(FULL_MARKS + 1))
