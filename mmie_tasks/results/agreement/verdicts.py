"""Verdicts of judges and people, as pandas tables for ``mmie-tasks agreement``."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path, PurePath
from typing import Literal

import pandas as pd

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored
from mmie_tasks.core.wording import numbered_names
from mmie_tasks.record.log_files import NamedPath, split_name
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.comparability import scored_signatures, signature_differences
from mmie_tasks.results.labels import read_labels
from mmie_tasks.runs.panels import judge_runs
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.values import metrics_of

_DIGITS = 9  # points are rounded, so that equal fractions compare as equal
_COLUMNS = ["id", "points", "reason", "answer", "stratum", "groups"]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer as a judge got it.

    Attributes:
        words: Without line breaks and repeated blanks.
        images: The name of each image file without its folder, and its SHA-256, which is empty if
            the log lacks it.
    """

    words: str
    images: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, answer: Segments) -> JudgedAnswer:
        """The words and images of an answer."""
        words = " ".join(segment.text or "" for segment in answer).split()
        files = ((s.image.replace("\\", "/"), s.sha256) for s in answer if s.image)
        return cls(" ".join(words), tuple((PurePath(file).name, sha256) for file, sha256 in files))

    def is_same(self, other: JudgedAnswer) -> bool:
        """Whether words and images are equal, images by name where a SHA-256 is unknown."""
        if self.words != other.words or len(self.images) != len(other.images):
            return False
        return all(
            a == b if a and b else name == other_name
            for (name, a), (other_name, b) in zip(self.images, other.images, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rater:
    """A judge, or a person.

    Attributes:
        name: Unique among the compared raters.
        source: The log or CSV.
        mean: The mean of the points; None without any.
        unscored: The number of samples without points, by reason, sorted.
        signatures: Every signature in a judge's log.
        notes: Notes on lines of the log that were left out.
        party: The name of a person's CSV, or the judge's own name.
        verdicts: By sample id: ``points`` on the benchmark's scale, NaN without; the ``reason`` why
            there are none; the judged ``answer`` (`JudgedAnswer`), None if it is not logged; the
            ``stratum`` of the headline, and all ``groups``.
    """

    name: str
    kind: Literal["judge", "person"]
    source: Path
    with_points: int
    mean: float | None
    unscored: Mapping[str, int]
    signatures: Sequence[Signature]
    notes: Sequence[str]
    party: str = field(repr=False)
    verdicts: pd.DataFrame = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RaterPanel:
    """The points of all raters of the same samples.

    Attributes:
        headline: The metric that is the task's score.
        raters: At least two, in the order of the command line.
        other_runs: The name of a judge to its runs of other answers, which no other rater rated.
        members: The name of the mean of each CSV with several people to these people.
        points: A row for each comparable sample, in alphabetical order; a column for each rater,
            then for each mean; NaN where there are none.
        groups: The groups of these samples by kind, where a log has them.
        samples: How many are ``compared``; are ``in_one_only`` of the sources; were left out for
            ``other_answers``; are compared although a log lacks the answer (``unseen_answers``).
    """

    task: str
    benchmark: Benchmark
    headline: Metric
    raters: tuple[Rater, ...]
    other_runs: Mapping[str, Sequence[Rater]]
    members: Mapping[str, Sequence[str]]
    points: pd.DataFrame
    groups: Mapping[str, Mapping[str, Sequence[str]]]
    samples: Mapping[str, int]


def rater_of(
    name: str,
    kind: Literal["judge", "person"],
    source: Path,
    rows: Iterable[Sequence[object]],
    *,
    party: str = "",
    signatures: Sequence[Signature] = (),
    notes: Sequence[str] = (),
) -> Rater:
    """A rater with its verdicts; a row has a sample's id and the columns of `Rater.verdicts`."""
    verdicts = pd.DataFrame(rows, columns=_COLUMNS).set_index("id")
    verdicts = verdicts.astype({"points": float, "answer": object, "stratum": object})
    points = verdicts["points"].dropna()
    return Rater(
        name=name,
        kind=kind,
        source=source,
        with_points=len(points),
        mean=float(points.mean()) if len(points) else None,
        unscored=dict(sorted(Counter(verdicts["reason"].dropna()).items())),
        signatures=signatures,
        notes=notes,
        party=party or name,
        verdicts=verdicts,
    )


def read_raters(sources: Sequence[str], task: str | None, score_kind: ScoreKind) -> RaterPanel:
    """Read and align every rater of the command line: ``PATH`` or ``NAME=PATH`` of runs and CSVs.

    If the run of a panel is the only source, the raters are its judges. `task` may be None if the
    runs have one in common. `score_kind` is the score of the replies that a judge's points are.

    Raises:
        AnswersUnusable: A run or CSV cannot be read, or none can be aligned: see `aligned_panel`.
        SettingWrong: There are fewer than two raters, or the task is not clear.
    """
    named = list(map(split_name, sources))
    is_csv = [source.path.suffix.lower() in (".csv", ".tsv") for source in named]
    words = [word for word, is_file in zip(sources, is_csv, strict=True) if not is_file]
    runs = [open_run(word, [task] if task else []) for word in words]
    task_runs = _task_runs(runs, task)
    benchmark = task_runs[0].benchmark if task_runs else _benchmark_of(task)
    headline = (metrics_of(task_runs) if task_runs else benchmark.metrics)[0]
    judges = [
        _judge(name, run, of_judge, headline, score_kind)
        for run, task_run in zip(runs, task_runs, strict=True)
        for name, of_judge in _judge_runs(run, task_run, is_alone=len(named) == 1).items()
    ]
    judge_of = _other_runs(judges, task_runs, others=sum(is_csv)) if len(named) > 1 else {}
    unread = iter(judges)
    raters: list[Rater] = []
    for source, is_file in zip(named, is_csv, strict=True):
        raters += _people(source, benchmark.scale) if is_file else [next(unread)]
    raters += unread  # the judges of a panel
    if len(raters) < 2:
        message = f"Agreement needs two raters or more, and `{raters[0].name}` is the only one."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    raters = [replace(rater, name=name) for rater, name in zip(raters, _names(raters), strict=True)]
    judges = [rater for rater in raters if rater.kind == "judge"]
    other_runs: defaultdict[str, list[Rater]] = defaultdict(list)
    for run, judge in judge_of.items():
        other_runs[judges[judge].name].append(judges[run])
        raters.remove(judges[run])
    name = task_runs[0].task if task_runs else task or ""
    return aligned_panel(name, benchmark, headline, raters, other_runs)


def aligned_panel(
    task: str,
    benchmark: Benchmark,
    headline: Metric,
    raters: Sequence[Rater],
    other_runs: Mapping[str, Sequence[Rater]],
) -> RaterPanel:
    """Align the points of all raters by sample; the arguments are fields of the panel.

    Raises `AnswersUnusable` if no sample is in two sources, or all such samples were judged on
    different answers.
    """
    verdicts = pd.concat({rater.name: rater.verdicts for rater in raters}, names=["rater"])
    times = verdicts.groupby("id").size()
    shared = times.index[times > 1]
    if shared.empty:
        first_ids = [(rater.name, min(rater.verdicts.index, default="nothing")) for rater in raters]
        examples = ", ".join(f"`{name}` has ids like {id_}" for name, id_ in first_ids)
        raise AnswersUnusable(
            f"No sample is in two of the sources: {examples}.",
            hint="compare runs of one task, and people's scores with the ids of its samples",
        )
    judges = [rater.name for rater in raters if rater.kind == "judge"]
    judged = verdicts[verdicts.index.isin(judges, level="rater")]
    judged = judged[judged.index.isin(shared, level="id")]
    answers = judged["answer"].groupby("id")
    other_answers = _with_other_answers([rater for rater in raters if rater.kind == "judge"])
    unseen = answers.size().index[(answers.size() > answers.count()) & (answers.size() > 1)]
    ids = sorted({*shared} - other_answers)
    if not ids:
        raise AnswersUnusable(
            f"All {len(shared)} samples that two of the sources have were judged on different "
            "answers.",
            hint="agreement compares judges of the same answers; "
            f"`{as_called('mmie-tasks compare')}` compares tested models. A run of other answers "
            "needs two runs that have the same ones, one of them judged as it was",
        )
    points = verdicts["points"].unstack("rater").reindex(ids, columns=[r.name for r in raters])
    people: defaultdict[str, list[str]] = defaultdict(list)
    for rater in raters:
        people[f"mean of {rater.party}"] += [rater.name] if rater.kind == "person" else []
    members = {mean: names for mean, names in people.items() if len(names) > 1}
    means = {mean: points[names].mean(axis=1).round(_DIGITS) for mean, names in members.items()}
    groups = judged["groups"].droplevel("rater")
    return RaterPanel(
        task=task,
        benchmark=benchmark,
        headline=headline,
        raters=tuple(raters),
        other_runs=other_runs,
        members=members,
        points=points.assign(**means),
        groups=groups[~groups.index.duplicated()].to_dict(),
        samples={
            "compared": len(ids),
            "in_one_only": len(times) - len(shared),
            "other_answers": len(other_answers),
            "unseen_answers": len({*unseen} - other_answers),
        },
    )


def reference_of(panel: RaterPanel, name: str | None) -> str:
    """The rater to compare the others with: people if there are any, else the first rater.

    `name` is a rater, or a CSV for the mean of its people; None for the default. Raises
    `SettingWrong` if there is no such name, or no rater is left to be compared.
    """
    people = [rater.name for rater in panel.raters if rater.kind == "person"]
    means = {name: mean for mean, names in panel.members.items() for name in names}
    parties = Counter(rater.party for rater in panel.raters)
    known = {
        rater.party: means.get(rater.name, rater.name)
        for rater in panel.raters
        if rater.name in means or parties[rater.party] == 1
    } | {column: column for column in panel.points}
    if name is None:
        reference: str = (people or [panel.raters[0].name])[0]
        if len(people) < len(panel.raters):
            reference = means.get(reference, reference)
    elif name in known:
        reference = known[name]
    else:
        listed = ", ".join(f"`{column}`" for column in panel.points)
        raise SettingWrong(f"`{name}` is none of the raters.", hint=f"name one of {listed}")
    members = panel.members.get(reference, [reference])
    if len(members) == len(panel.raters):
        message = f"No rater is left to compare with the {reference}: all are part of it."
        raise SettingWrong(message, hint=f"`--reference {members[0]}`, or name a run too")
    return reference


def _task_runs(runs: Sequence[Run], task: str | None) -> list[TaskRun]:
    """The task to compare in each run: parts of one benchmark if each run has one task."""
    common = set.intersection(*(set(run.tasks) for run in runs)) if runs else set()
    if task in common or len(common) == 1:
        name = task if task in common else common.pop()
        return [run.tasks[name or ""] for run in runs]
    single = [next(iter(run.tasks.values())) for run in runs if len(run.tasks) == 1]
    if len(single) == len(runs) and len({task_run.benchmark.name for task_run in single}) <= 1:
        return single
    tasks = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    problem = f"{len(common) or 'no'} tasks in common"
    hint = f"choose one with `--task {min(common)}`" if common else "name runs of one task"
    raise SettingWrong(f"The runs have {problem}: {tasks}.", hint=hint)


def _benchmark_of(task: str | None) -> Benchmark:
    benchmark = benchmark_of_task(task) if task else None
    if benchmark is None:
        problem = (
            f"`{task}` is not a task of a registered benchmark" if task else "no task is named"
        )
        raise SettingWrong(
            f"The scale of the scores is not known: {problem}.",
            hint=f"add `--task`; task names begin with {entry_names(entries())}",
        )
    return benchmark


def _judge_runs(run: Run, task_run: TaskRun, *, is_alone: bool) -> Mapping[str, TaskRun]:
    """The samples of the run by judge: one, or the panel's judges if it is the only source."""
    return (judge_runs(task_run) if is_alone else {}) or {run.name: task_run}


def _judge(
    name: str, run: Run, task_run: TaskRun, headline: Metric, score_kind: ScoreKind
) -> Rater:
    rows: list[Sequence[object]] = []
    for sample in task_run.samples:
        verdict = sample.verdict(score_kind)
        if isinstance(verdict, Scored):
            score: tuple[float, str | None] = round(verdict.points, _DIGITS), None
        else:
            score = math.nan, verdict.reason
        answer = JudgedAnswer.of(sample.answer) if sample.answer else None
        rows.append((sample.id, *score, answer, headline.stratum(sample), sample.groups))
    notes = (*run.notes, *task_run.notes)
    signatures = task_run.signatures
    return rater_of(name, "judge", task_run.log, rows, signatures=signatures, notes=notes)


def _people(source: NamedPath, scale: Scale) -> Iterator[Rater]:
    """The people of a CSV."""
    rows: defaultdict[str, list[Sequence[object]]] = defaultdict(list)
    for label in read_labels(source.path, scale, source.name):
        if label.points is None:
            score: tuple[float, str | None] = math.nan, "left empty"
        else:
            score = round(label.points, _DIGITS), None
        rows[label.rater].append((label.id, *score, None, None, {}))
    for person in filter(None, rows):
        party = source.name or source.path.stem
        yield rater_of(person, "person", source.path, rows[person], party=party)


def _other_runs(
    judges: Sequence[Rater], task_runs: Sequence[TaskRun], others: int
) -> dict[int, int]:
    """The index of each run with answers of its own, to the first run that was judged alike.

    Empty if fewer than two sources would be left, with `others` more. If all runs have answers of
    their own, the first one is compared, since people may have rated it.
    """
    pairs = combinations(range(len(judges)), 2)
    compared = {i for pair in pairs if _have_same_answers(*(judges[i] for i in pair)) for i in pair}
    compared = compared or {0}
    signatures = [scored_signatures(task_run) for task_run in task_runs]
    judge_of: dict[int, int] = {}
    for run in set(range(len(judges))) - compared:
        for judge in sorted(compared):
            if not signature_differences(signatures[run], signatures[judge]):
                judge_of.setdefault(run, judge)
    return judge_of if len(judges) + others - len(judge_of) > 1 else {}


def _have_same_answers(a: Rater, b: Rater) -> bool:
    """Whether most samples of both have the same answer, as far as the logs hold it."""
    both = a.verdicts.index.intersection(b.verdicts.index)
    return len(both) > 0 and len(_with_other_answers([a, b])) <= len(both) / 2


def _with_other_answers(judges: Sequence[Rater]) -> set[str]:
    """The ids of samples for which two logs have different answers."""
    answers: defaultdict[str, set[JudgedAnswer]] = defaultdict(set)
    for judge in judges:
        for id_, answer in judge.verdicts["answer"].dropna().items():
            answers[id_].add(answer)
    return {
        id_
        for id_, of_id in answers.items()
        if not all(a.is_same(b) for a, b in combinations(of_id, 2))
    }


def _names(raters: Sequence[Rater]) -> list[str]:
    """Raters with the same name are distinguished by the judge's model, else by a number."""
    models = [rater.signatures[0].name if rater.signatures else "" for rater in raters]
    names = []
    for rater, model in zip(raters, models, strict=True):
        alike = [m for m, other in zip(models, raters, strict=True) if other.name == rater.name]
        is_told = len(alike) > 1 and all(alike) and len(set(alike)) == len(alike)
        names.append(f"{rater.name} by {model}" if is_told else rater.name)
    return numbered_names(names)
