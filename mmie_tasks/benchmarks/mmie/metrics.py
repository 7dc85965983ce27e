"""Metrics of MMIE: what it reports, the record of a sample, and counts and notes about a run.

Verdicts are points from 0 to 6; every score is in percent of full marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, percent_of
from mmie_tasks.benchmarks.mmie.record import RequestFacts, groups
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.tables import listed
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.record.answer_facts import facts_of
from mmie_tasks.record.fields import verdict
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.panel import judge_records
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.sample import LoggedSample, Record

FIELDS = (
    *("literature", "education", "finance", "health", "eecs", "art", "sports", "philosophy"),
    *("mathematics", "statistics", "physics", "coding"),
)
"""The dataset's fields in the form of metric names: see `slug`."""

JUDGE_WINDOW = 4096
"""Tokens up to which the judge was trained; beyond it its author warns of its scores (issue 5)."""

SCALE = Scale(full_marks=FULL_MARKS, unit="points, 0 to 6", whole=True, percent=percent_of)

_TITLES = {
    "SA": "Situational analysis",
    "PBL": "Project-based learning",
    "MSR": "Multi-step reasoning",
}
_HEADLINE = Metric(name="", title="AVG", kind="headline")
_CATEGORIES = tuple(
    Metric(
        name=name,
        title=_TITLES[name],
        kind="category",
        by="category",
        weights={name: 1},
        in_table=True,
    )
    for name in CATEGORIES
)
_FIELDS = tuple(
    Metric(name=name, title=title, kind="field", by="field", weights={name: 1}, in_table=True)
    for name, title in ({name: name.capitalize() for name in FIELDS} | {"eecs": "EECS"}).items()
)
METRICS = (_HEADLINE, *_CATEGORIES, *_FIELDS)

TABLE = RunnerTable(metrics=METRICS, scale=SCALE)
CATEGORY_TABLE = RunnerTable(metrics=(_HEADLINE, *_FIELDS), scale=SCALE)
"""The runner's table of a task with a single category."""

PARSE_RATE_FLOOR = 95.0
"""Percent. The published scores imply that nearly every reply could be read."""

SIGN_COUNTS = {
    "text_like_json": "looks like JSON",
    "text_names_image": "names an existing image",
    "text_image_tag": "has an image tag",
}
"""A count of answers to the sign that it counts, see `mmie_tasks.answers.picture_signs`."""

_UNREAD = {"unparsed", "off_scale", "cut_off"}  # there is a reply without readable points


def graded_sample(sample: Sample, verdicts: Verdicts) -> LoggedSample:
    """The sample with its verdicts and groups, as the runner's table needs it."""
    return LoggedSample(
        id=sample.id,
        official=verdicts.official,
        robust=verdicts.robust,
        groups=groups(sample.category, sample.field),
    )


def counts(records: Sequence[Record]) -> dict[str, float]:
    """MMIE's own counts, for the results file.

    Returns:
        ``dropped`` (samples that the official script leaves out), ``missing_images`` and
        ``bad_images`` (images), ``truncated``, ``typed_controls``, ``over_4096``,
        ``text_like_json``, ``text_names_image`` and ``text_image_tag`` (samples),
        ``pictures_drawn``, ``pictures_failed`` and ``pictures_unused`` (of ``--model interleaved``;
        the last is what the protocol could not use), and ``parse_rate`` (percent of the replies
        that points could be read from; absent without replies).
    """
    facts = [facts_of(record, RequestFacts) for record in records]
    totals = {
        "dropped": sum(sample.dropped for sample in facts),
        "missing_images": sum(sample.missing_images for sample in facts),
        "bad_images": sum(sample.bad_images for sample in facts),
        "truncated": sum(sample.truncated for sample in facts),
        "typed_controls": sum(any(sample.typed.values()) for sample in facts),
        "over_4096": sum((sample.judge_tokens or 0) > JUDGE_WINDOW for sample in facts),
        **{
            name: sum(sign in sample.picture_signs for sample in facts)
            for name, sign in SIGN_COUNTS.items()
        },
        "pictures_drawn": sum(sample.drawn or 0 for sample in facts),
        "pictures_failed": sum(sum(sample.not_drawn.values()) for sample in facts),
        "pictures_unused": sum(sum(sample.unused.values()) for sample in facts),
    }
    parsed = _parsed(records)
    rate = {"parse_rate": 100 * sum(parsed) / len(parsed)} if parsed else {}
    return {name: float(total) for name, total in totals.items()} | rate


def notes(records: Sequence[Record]) -> Iterator[str]:
    """Lines about the answers and requests of a run; what did not occur has no line."""
    facts = [facts_of(record, RequestFacts) for record in records]
    shapes = listed(Counter(sample.shape or "none" for sample in facts))
    yield (
        f"answers: {shapes}; {sum(sample.answer_images for sample in facts):,} images in them; "
        f"{sum(sample.shown_images for sample in facts):,} images in the requests to the judge, "
        "with the questions'"
    )
    yield from _drawing_notes(facts)
    totals = counts(records)
    typed, unread = (
        _total(sample.typed for sample in facts),
        _total(sample.unread for sample in facts),
    )
    signs = _total(sample.picture_signs for sample in facts)
    problems = _total(sample.image_problems for sample in facts)
    lines = {
        f"texts and images of answers that were not read: {listed(unread)}": unread.total(),
        f"answers that may have unread pictures in their text: {listed(signs)}": signs.total(),
        f"images of answers that could not be used: {listed(problems)}": problems.total(),
        f"answers with thinking: {(n := sum(sample.thinking for sample in facts)):,}": n,
        "placeholders without an image: "
        f"{(n := sum(sample.unfilled_placeholders for sample in facts)):,}": n,
        f"answers cut by the limit on images: {totals['truncated']:,.0f}": totals["truncated"],
        f"control strings of the judge in texts: {listed(typed)}": totals["typed_controls"],
        _long(facts): totals["over_4096"],
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


def _drawing_notes(facts: Sequence[RequestFacts]) -> Iterator[str]:
    """Lines about the pictures of ``--model interleaved``; none for another model."""
    of_model = [sample for sample in facts if sample.drawn is not None]
    not_drawn, unused = _total(s.not_drawn for s in of_model), _total(s.unused for s in of_model)
    if of_model:
        lacking = sum(bool(sample.not_drawn) for sample in of_model)
        failed = (
            f"; not drawn: {listed(not_drawn)}; answers without a picture they ask for: {lacking:,}"
        )
        yield (
            "pictures drawn: "
            f"{sum(sample.drawn or 0 for sample in of_model):,}{failed if not_drawn else ''}"
        )
    if unused:
        yield f"of the writer not used: {listed(unused)}"


def _total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Counts of samples, added by name, without zeros."""
    return sum(map(Counter, counts), Counter[str]())


def _long(facts: Sequence[RequestFacts]) -> str:
    """The number of requests that are longer than those the judge was trained on."""
    lengths = [sample.judge_tokens for sample in facts if sample.judge_tokens is not None]
    long = sum(length > JUDGE_WINDOW for length in lengths)
    return f"requests over {JUDGE_WINDOW:,} tokens of the judge: {long:,} of {len(lengths):,}"


def _parsed(records: Sequence[Record]) -> list[bool]:
    """Whether points could be read, for each sample and judge with a reply."""
    verdicts = [verdict(entry, "official") for record in records for entry in judge_records(record)]
    return [
        isinstance(official, Scored)
        for official in verdicts
        if isinstance(official, Scored) or official.reason in _UNREAD
    ]
