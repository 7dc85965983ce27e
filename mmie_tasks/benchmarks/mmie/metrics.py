"""Metrics of MMIE, and counts and notes about a run.

Verdicts are points from 0 to 6; every score is in percent of full marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, percent_of
from mmie_tasks.benchmarks.mmie.record import MmieRecord
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.core.wording import listed
from mmie_tasks.record.answer_facts import answer_notes, total_of
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.rows import RunnerTable

FIELDS = (
    *("literature", "education", "finance", "health", "eecs", "art", "sports", "philosophy"),
    *("mathematics", "statistics", "physics", "coding"),
)
"""The dataset's fields as metric names; see `slug`."""

JUDGE_WINDOW = 4096
"""Tokens up to which the judge was trained; its author warns about scores of more (issue 5)."""

SCALE = Scale(full_marks=FULL_MARKS, unit="points, 0 to 6", whole=True, percent=percent_of)

_HEADLINE = Metric(name="", title="AVG", kind="headline")


def _columns(kind: str, titles: Mapping[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric.of_group(kind, name, title) for name, title in titles.items())


_CATEGORIES = _columns(
    "category",
    {"SA": "Situational analysis", "PBL": "Project-based learning", "MSR": "Multi-step reasoning"},
)
_FIELDS = _columns("field", {name: name.capitalize() for name in FIELDS} | {"eecs": "EECS"})
METRICS = (_HEADLINE, *_CATEGORIES, *_FIELDS)

TABLE = RunnerTable(metrics=(_HEADLINE, *_CATEGORIES), scale=SCALE)
CATEGORY_TABLE = RunnerTable(metrics=(_HEADLINE,), scale=SCALE)
"""lmms-eval's table of a task with a single category."""

PARSE_RATE_FLOOR = 95.0
"""Percent. The published scores imply that nearly every reply could be read."""

_UNREAD = {"unparsed", "off_scale", "cut_off"}  # there is a reply without readable points


def counts(records: Sequence[MmieRecord]) -> dict[str, float]:
    """MMIE's own counts, for the results file.

    * Samples: ``dropped`` (by the official script), ``truncated``, ``typed_controls``,
      ``over_4096``, ``looks_unread`` (a text looks like JSON or an image reference), and
      ``pictures_unplaced`` (the text has no place for the answer's pictures).
    * Images: ``missing_images`` and ``bad_images``; with ``--model interleaved``,
      ``pictures_drawn``, ``pictures_failed`` and ``pictures_unused`` (the protocol could not use
      them).
    * ``parse_rate``: percent of the replies with readable points; absent without replies.
    """
    facts = [record.facts for record in records]
    totals: dict[str, float] = {
        name: sum(getattr(sample, name) for sample in facts)
        for name in ("dropped", "missing_images", "bad_images", "truncated")
    }
    totals["typed_controls"] = sum(any(sample.typed.values()) for sample in facts)
    totals["over_4096"] = sum((record.judge_tokens or 0) > JUDGE_WINDOW for record in records)
    totals["looks_unread"] = sum(sample.looks_unread for sample in facts)
    totals["pictures_unplaced"] = sum(bool(sample.unplaced) for sample in facts)
    totals["pictures_drawn"] = sum(sample.drawn or 0 for sample in facts)
    totals["pictures_failed"] = total_of(sample.not_drawn for sample in facts).total()
    totals["pictures_unused"] = total_of(sample.unused for sample in facts).total()
    verdicts = [judge.verdicts.official for record in records for judge in record.judgements]
    scored = sum(isinstance(official, Scored) for official in verdicts)
    unread = sum(isinstance(v, Unscored) and v.reason in _UNREAD for v in verdicts)
    if scored or unread:
        totals["parse_rate"] = 100 * scored / (scored + unread)
    return totals


def notes(records: Sequence[MmieRecord]) -> Iterator[str]:
    """Lines for the log about a run's answers and requests; what did not occur has no line."""
    facts = [record.facts for record in records]
    shapes = listed(Counter(sample.shape or "none" for sample in facts))
    yield (
        f"answers: {shapes}; {sum(sample.answer_images for sample in facts):,} images in them; "
        f"{sum(sample.shown_images for sample in facts):,} images in the requests to the judge, "
        "with the questions'"
    )
    yield from answer_notes(facts)
    totals = counts(records)
    problems = total_of(sample.image_problems for sample in facts)
    typed = listed(total_of(sample.typed for sample in facts))
    lines = {
        f"images of answers that could not be used: {listed(problems)}": problems.total(),
        f"answers cut by the limit on images: {totals['truncated']:,.0f}": totals["truncated"],
        f"control strings of the judge in texts: {typed}": totals["typed_controls"],
        _long(records): totals["over_4096"],
    }
    for problem, name in (("missing", "missing_images"), ("unusable", "bad_images")):
        n_samples = sum(bool(getattr(sample, name)) for sample in facts)
        lines[f"{problem} images: {totals[name]:,.0f}, in {n_samples:,} samples"] = totals[name]
    yield from (line for line, count in lines.items() if count)
    if totals.get("parse_rate", 100) < PARSE_RATE_FLOOR:
        yield (
            f"WARNING: only {totals['parse_rate']:.2f} % of the replies could be read: the mean "
            "covers the samples with a readable score, which may differ from the others"
        )


def _long(records: Sequence[MmieRecord]) -> str:
    """The line about requests that are longer than those the judge was trained on."""
    lengths = [record.judge_tokens for record in records if record.judge_tokens is not None]
    long = sum(length > JUDGE_WINDOW for length in lengths)
    return f"requests over {JUDGE_WINDOW:,} tokens of the judge: {long:,} of {len(lengths):,}"
