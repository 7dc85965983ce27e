"""Who rated: judges, each by the log of a run, and people, by a CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mmie_tasks.agreement.people import read_people
from mmie_tasks.errors import SettingWrong
from mmie_tasks.review import ReadingName, Reviewed, Reviewer, Scale
from mmie_tasks.rooms import names_of, room_of, rooms
from mmie_tasks.runs.opening import open_run
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.verdict import Scored

_ENDINGS = (".csv", ".tsv")
_DIGITS = 9  # points are rounded to so many: two ways to one fraction are the same
_EMPTY = "left empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rater:
    """A judge, or a person.

    Attributes:
        name: Unique among those compared.
        kind: Which of the two.
        party: The CSV that a person is in; of a judge, its name.
        source: The log or CSV.
        points: Sample id to points on the benchmark's scale.
        unscored: Sample id to why it has none.
        samples: What was judged, by id; empty for people.
        signatures: Of a judge, every one in its log.
        notes: What was found in the log and left alone.
    """

    name: str
    kind: Literal["judge", "person"]
    party: str
    source: Path
    points: Mapping[str, float]
    unscored: Mapping[str, str]
    samples: Mapping[str, Reviewed] = field(default_factory=dict)
    signatures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everyone who rated.

    Attributes:
        task: What they rated.
        review: What its benchmark knows of logs.
        raters: In the order they were named in; two at least.
    """

    task: str
    review: Reviewer
    raters: tuple[Rater, ...]

    @property
    def scale(self) -> Scale:
        """That all points are on."""
        return self.review.scale

    @property
    def groups(self) -> dict[str, tuple[Rater, ...]]:
        """The people of each CSV that has several, by the name of the CSV."""
        found: dict[str, tuple[Rater, ...]] = {}
        for rater in self.raters:
            if rater.kind == "person":
                found[rater.party] = (*found.get(rater.party, ()), rater)
        return {name: people for name, people in found.items() if len(people) > 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Csv:
    name: str
    path: Path


def gather(words: Sequence[str], task: str | None, reading: ReadingName) -> Gathered:
    """Read everyone whom the words of the command line name.

    Args:
        words: ``PATH`` or ``NAME=PATH`` each, of a run or a CSV.
        task: The one to compare; may be None where the runs have one in common.
        reading: Whose verdicts are a judge's points.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: Fewer than two rated, or it is not clear what.
    """
    opened = [_csv(word) or open_run(word, [task] if task else []) for word in words]
    chosen = _chosen([each for each in opened if isinstance(each, Run)], task)
    name = next(iter(chosen.values())).task if chosen else task or ""
    review = next(iter(chosen.values())).review if chosen else _review_of(task)
    raters: list[Rater] = []
    for each in opened:
        if isinstance(each, Run):
            raters.append(_judge(each, chosen[id(each)], reading))
        else:
            raters += _people(each, review.scale)
    if len(raters) < 2:
        message = f"Agreement takes two raters or more, and `{raters[0].name}` is alone."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    return Gathered(task=name, review=review, raters=_with_names_that_differ(raters))


def _csv(word: str) -> _Csv | None:
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        name, path = "", word
    found = Path(path).expanduser()
    if found.suffix.lower() not in _ENDINGS:
        return None
    return _Csv(name=name.strip() or found.stem, path=found)


def _chosen(runs: Sequence[Run], task: str | None) -> dict[int, TaskRun]:
    """The task to compare in each run, by the run's identity.

    Runs with one task each may have different ones of one benchmark: ``mmie`` holds ``mmie_sa``.
    """
    common = set.intersection(*(set(run.tasks) for run in runs)) if runs else set()
    if task in common or len(common) == 1:
        name = task if task in common else common.pop()
        return {id(run): run.tasks[name or ""] for run in runs}
    only = [next(iter(run.tasks.values())) for run in runs if len(run.tasks) == 1]
    if len(only) == len(runs) and len({each.room for each in only}) <= 1:
        return {id(run): each for run, each in zip(runs, only, strict=True)}
    if common:
        listed = ", ".join(sorted(common))
        message = f"The runs have {len(common)} tasks in common: {listed}."
        raise SettingWrong(message, hint=f"choose one with `--task {min(common)}`")
    listed = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    raise SettingWrong(f"The runs have no task in common: {listed}.", hint="name runs of one task")


def _review_of(task: str | None) -> Reviewer:
    room = room_of(task) if task else None
    review: Reviewer | None = getattr(room and room.part("review"), "REVIEW", None)
    if review is None:
        asked = f"`{task}` is no task of mmie-tasks" if task else "there is no run to tell the task"
        raise SettingWrong(
            f"The scale of the scores is not known: {asked}.",
            hint=f"add `--task` with one of ours; they begin with {names_of(rooms())}",
        )
    return review


def _judge(run: Run, task: TaskRun, reading: ReadingName) -> Rater:
    points: dict[str, float] = {}
    unscored: dict[str, str] = {}
    for sample in task.samples:
        verdict = sample.verdict(reading)
        if isinstance(verdict, Scored):
            points[sample.id] = round(float(verdict.points), _DIGITS)
        else:
            unscored[sample.id] = verdict.reason
    return Rater(
        name=run.name,
        kind="judge",
        party=run.name,
        source=task.log,
        points=points,
        unscored=unscored,
        samples=task.by_id,
        signatures=task.signatures,
        notes=(*run.notes, *task.notes),
    )


def _people(csv: _Csv, scale: Scale) -> list[Rater]:
    return [
        Rater(
            name=name or csv.name,
            kind="person",
            party=csv.name,
            source=csv.path,
            points={id_: round(p, _DIGITS) for id_, p in given.items() if p is not None},
            unscored={id_: _EMPTY for id_, points in given.items() if points is None},
        )
        for name, given in read_people(csv.path, scale).items()
    ]


def _with_names_that_differ(raters: Sequence[Rater]) -> tuple[Rater, ...]:
    """Raters of one name are told apart by the model that judged, else by a number."""
    told = [replace(r, name=_told_apart(r, raters)) for r in raters]
    times, seen = Counter(rater.name for rater in told), Counter[str]()
    named = []
    for rater in told:
        seen[rater.name] += 1
        again = times[rater.name] > 1
        named.append(replace(rater, name=f"{rater.name} ({seen[rater.name]})") if again else rater)
    return tuple(named)


def _told_apart(rater: Rater, raters: Sequence[Rater]) -> str:
    alike = [each for each in raters if each.name == rater.name]
    models = {_model(each) for each in alike}
    if len(alike) == 1 or len(models) < len(alike) or not _model(rater):
        return rater.name
    return f"{rater.name} by {_model(rater)}"


def _model(rater: Rater) -> str:
    """What judged, as the first signature of a log has it; empty where it does not say."""
    parts = dict(part.partition(":")[::2] for part in "".join(rater.signatures[:1]).split("|"))
    return parts.get("model", "")
