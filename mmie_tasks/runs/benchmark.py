"""The `Benchmark` object: everything that runner, preflight and results know of a benchmark.

A benchmark's folder has a module ``benchmark`` with an object ``BENCHMARK``. The registry
(`mmie_tasks.benchmarks.registry`) loads it; nothing else imports a benchmark by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored, Verdict, differ
from mmie_tasks.judges.base import JudgeReply

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset
    from mmie_tasks.judging.panel import MemberResult
    from mmie_tasks.judging.requests import GradedRequest
    from mmie_tasks.judging.session import BenchmarkJudge

Doc: TypeAlias = Mapping[str, Any]
"""One sample as the runner hands it to a task's functions."""

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

Record: TypeAlias = Mapping[str, object]
"""What a task of ours logged of one sample: the row under ``coverage`` in a line."""

Environment: TypeAlias = Mapping[str, str]

ScoreKind: TypeAlias = Literal["official", "robust", "expected"]
SCORE_KINDS: tuple[ScoreKind, ...] = ("official", "robust")
"""The scores that a reader gives. The expected score is a mean over probabilities, which not every
judge reports.
"""

ALL = "all"
"""The group that contains every sample; it is not listed in `LoggedSample.groups`."""


class BadRecord(ValueError):
    """A log line is not a scored sample of this benchmark; the message names the missing field."""


@dataclass(frozen=True, slots=True)
class LoggedSegment:
    """A text followed by an image, of a question or an answer; either may be absent.

    Attributes:
        text: Empty if there is none. Untrusted: it comes from a dataset or a model.
        image: Path of the image file as the run logged it; the file may be gone. None if there is
            no image.
        problem: Why the image could not be used. `image` then holds the original reference, which
            must not be opened.
        prompt: The words that the image was drawn to; empty if they are not known. Untrusted.
    """

    text: str = ""
    image: str | None = None
    problem: str = ""
    prompt: str = ""


Segments: TypeAlias = tuple[LoggedSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSample:
    """One scored sample, read from a log.

    Attributes:
        id: Unique within the benchmark.
        official: Official verdict, on the benchmark's own scale.
        robust: Robust verdict, on the benchmark's own scale.
        expected: The mean of the points under the judge's probabilities, at the position of the
            official score.
        entropy_bits: Entropy of these probabilities in bits, 0 if the judge is certain; None
            without them.
        groups: Kind of group to the groups the sample belongs to: ``{"category": ("SA",)}``.
        parts: For each score, component name to its fraction of full marks (0 to 1); empty for
            benchmarks without components.
        question: The question as the model was asked.
        gold: The reference answer; empty if there is none.
        answer: The tested model's answer.
        replies: The judge's replies, the latest last; empty if there is none. Of several judges
            those of all, in order.
        members: The judges of a panel, in order, with their verdicts; empty with a single judge.
        signature: Everything that can move the score.
        pictures_not_drawn: Pictures that the answer asks for and that could not be drawn.
        picture_signs: Signs that the answer's text has pictures that were not read.
        facts: Further facts to display, name to value.
    """

    id: str
    official: Verdict
    robust: Verdict
    groups: Mapping[str, tuple[str, ...]]
    expected: Verdict = NO_PROBABILITIES
    entropy_bits: float | None = None
    parts: Mapping[ScoreKind, Mapping[str, float]] = field(default_factory=dict)
    question: tuple[LoggedSegment, ...] = ()
    gold: tuple[LoggedSegment, ...] = ()
    answer: tuple[LoggedSegment, ...] = ()
    replies: tuple[JudgeReply, ...] = ()
    members: tuple[MemberResult, ...] = ()
    signature: str = ""
    pictures_not_drawn: int = 0
    picture_signs: tuple[str, ...] = ()
    facts: Mapping[str, str | float | bool] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether official and robust points differ, or only one of them exists."""
        return differ(self.official, self.robust)

    def verdict(self, kind: ScoreKind) -> Verdict:
        """The official, robust or expected verdict, on the benchmark's own scale."""
        return {"official": self.official, "robust": self.robust, "expected": self.expected}[kind]

    def names(self, kind: str) -> tuple[str, ...]:
        """The groups of this kind that contain the sample."""
        return (ALL,) if kind == ALL else self.groups.get(kind, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A benchmark's own scale of points: 0 to `full_marks`.

    Attributes:
        full_marks: The maximum: 6, 1 or 100.
        unit: For headings: ``points, 0 to 6``.
        whole: Whether points are whole numbers, so that a histogram can count them.
        percent: Converts a mean of points to a score in percent, rounded as in the benchmark's
            official table.
    """

    full_marks: float
    unit: str
    whole: bool = False
    percent: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A mean over samples, or a weighted mean of group means, that a benchmark reports.

    Attributes:
        name: Suffix behind ``official_`` and ``robust_`` in the runner's table and in the results
            file; empty for a headline without suffix.
        title: For display: ``Situational analysis``.
        kind: Metrics of one kind are shown together: ``headline``, ``category``, ``field``, ...
        by: The kind of group whose means are averaged.
        weights: Group to its weight; weights add up to 1. If a group has no samples, the metric
            has no value.
        in_table: Whether the runner's table has a line ``official_<name>`` for it: the paper's own
            columns.
        part: Name of a component; its fraction of full marks is averaged instead of the sample's
            points. Empty for whole samples.
    """

    name: str
    title: str
    kind: str
    by: str = ALL
    weights: Mapping[str, float] = field(default_factory=lambda: {ALL: 1.0})
    in_table: bool = False
    part: str = ""

    def stratum(self, sample: LoggedSample) -> str | None:
        """The group of `weights` that contains the sample; None if the sample does not count."""
        for name in sample.names(self.by):
            if name in self.weights:
                return name
        return None

    def verdict(self, sample: LoggedSample, kind: ScoreKind, scale: Scale) -> Verdict:
        """The sample's contribution in points: its verdict, or its component's share of a scale."""
        whole = sample.verdict(kind)
        if not self.part or isinstance(whole, Unscored):
            return whole
        share = sample.parts.get(kind, {}).get(self.part)
        if share is None:
            return Unscored("unparsed", "no mark for this component")
        return Scored(share * scale.full_marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Scores that someone else published.

    Attributes:
        model: The tested model, as the publication names it.
        scores: Name of a metric to the score in percent.
        source: Where the scores stand, and what makes them incomparable with others.
    """

    model: str
    scores: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark: how its logs are read, what it needs, and who judges it.

    Importing a module that defines one must stay cheap: no torch, datasets, numpy or lmms_eval.
    Functions import what they need when they are called.

    Attributes:
        name: Prefix of its task names: ``mmie`` for ``mmie``, ``mmie_sa``, ...
        title: For display: ``MMIE``.
        scale: Of its verdicts.
        metrics: What it reports, the headline first. A run that lacks a metric's groups is shown
            without that metric.
        read_line: Reads a line of a sample log, also one of an older version that logged less.
            Raises `BadRecord`.
        reread: Applies the current readers to a line's saved replies (or, if scored by rule, to
            the saved answer): score kind to verdict. Verdicts without a reply (the judge failed
            or was not asked) are returned unchanged. None if the line lacks what is needed.
            Raises `BadRecord`.
        rerecord: The record of a line with the current readers' results. Raises `BadRecord`.
        strata: The kind of group within which samples are drawn for people to score; empty to draw
            from all samples alike.
        counts: Given the records of a run's samples, the benchmark's own counts, for the results
            file: name to number.
        notes: Given the records of a run's samples, lines for the log about what is not as usual.
        published: Task to the number of samples that its published scores are of. Subsets of ours
            have that of the whole benchmark.
        two_of_each: Task to the smallest ``--limit`` with two samples of each group that the
            headline is a mean of, for a hint in a smaller run. For tasks whose samples take turns
            between the groups.
        published_rows: A selection of published scores of the whole benchmark.
        judge: Selects and calls the judge; None for a benchmark that is scored by rule.
        judge_request: Given a question, an answer, and the log line of a sample or None: the
            request in the benchmark's own judge prompt, with the readers of its reply. With a line,
            everything but question and answer is that sample's: its category, gold, components.
            None: the question is no sample of the benchmark. Raises `BadRecord` or a
            `MmieTasksError`.
        assets: What the named tasks (all if none is named) need on this machine.
        check_data: Checks the samples of a run before anything is generated. Raises a
            `MmieTasksError`.
        provenance: For one sample: task version, readers and data revision.
        signature: For one sample: everything that can move the score. Raises a `MmieTasksError`.
        add_answer_folder: Adds a folder to search for images that answers refer to.
        picture_limit: For one sample: how many pictures of an answer the judge can see; 0 if its
            answers are texts. None: the benchmark has no pictures in answers.
        datasets: Names of its datasets, if its sample ids are ``<dataset>/<id>``. Saved answers
            with bare ids in a folder of such a name belong to that dataset.
        export: Runs ``mmie-tasks export NAME ARGUMENTS``; returns what to print. Raises a
            `MmieTasksError`.
    """

    name: str
    title: str
    scale: Scale
    metrics: tuple[Metric, ...]
    read_line: Callable[[Line], LoggedSample]
    reread: Callable[[Line], Mapping[str, Verdict] | None]
    rerecord: Callable[[Line], Record] | None = None
    strata: str = ""
    counts: Callable[[Sequence[Record]], Mapping[str, float]] = lambda _: {}
    notes: Callable[[Sequence[Record]], Iterable[str]] = lambda _: ()
    published: Mapping[str, int] = field(default_factory=dict)
    two_of_each: Mapping[str, int] = field(default_factory=dict)
    published_rows: tuple[PublishedRow, ...] = ()
    judge: BenchmarkJudge | None = None
    judge_request: Callable[[Segments, Segments, Line | None], GradedRequest] | None = None
    assets: Callable[[Sequence[str], Environment], Sequence[Asset]] = lambda *_: ()
    check_data: Callable[[Any], None] | None = None
    provenance: Callable[[Doc], str]
    signature: Callable[[Doc], str] | None = None
    add_answer_folder: Callable[[Path], None] | None = None
    picture_limit: Callable[[Doc], int] | None = None
    datasets: tuple[str, ...] = ()
    export: Callable[[Sequence[str], Environment], str] | None = None
