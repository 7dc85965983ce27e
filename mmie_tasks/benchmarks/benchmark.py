"""The `Benchmark` object: everything that runner, preflight and results know of a benchmark.

A benchmark's folder has a module ``benchmark`` with an object ``BENCHMARK``. The registry
(`mmie_tasks.benchmarks.registry`) loads it; nothing else imports a benchmark by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mmie_tasks.core.verdict import Verdict
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.sample import Line, LoggedSample, Record
from mmie_tasks.record.segment import Segments

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset
    from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
    from mmie_tasks.judging.requests import GradedRequest

Doc: TypeAlias = Mapping[str, Any]
"""One sample as the runner hands it to a task's functions."""


Environment: TypeAlias = Mapping[str, str]


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
        read_line: Reads a line of a sample log. Raises `BadRecord`.
        reread: Applies the current readers to a line's saved replies (or, if scored by rule, to
            the saved answer): score kind to verdict. Verdicts without a reply (the judge failed
            or was not asked) are returned unchanged. None if the line lacks what is needed.
            Raises `BadRecord`.
        rerecord: The record of a line with the current readers' results. Raises `BadRecord`.
        strata: The kind of group within which samples are drawn for people to score; empty to draw
            from all samples alike.
        stratum_sizes: Stratum to its number of samples in the whole benchmark; empty without
            strata. Intervals for the benchmark weigh the strata by them.
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
            None: the question is no sample of the benchmark. Raises `NoJudgeRequest` where a run
            would not ask the judge either, another `BadRecord` or a `MmieTasksError`.
        assets: What the named tasks (all if none is named) need on this machine.
        check_data: Checks the samples of a run before anything is generated. Raises a
            `MmieTasksError`.
        provenance: For one sample: task version, readers and data revision.
        signature: For one sample: everything that can move the score. Raises a `MmieTasksError`.
        add_answer_folder: Adds a folder to search for images that answers of a run refer to.
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
    stratum_sizes: Mapping[str, int] = field(default_factory=dict)
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
