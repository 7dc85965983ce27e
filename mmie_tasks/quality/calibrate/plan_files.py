"""The files of a plan: a CSV of answers that people should score, and a page to score them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.judged_runs import NamedRun, notes_on
from mmie_tasks.quality.calibrate.judged_samples import (
    counts_without_points,
    judged_samples,
    without_points_text,
)
from mmie_tasks.quality.calibrate.labelling_page import labelling_page
from mmie_tasks.quality.calibrate.plan import PlannedAnswer, planned_answers
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.commands import read_text, require_range, write_text
from mmie_tasks.results.labels import Label, csv_text, id_in_csv


def write_plan(
    runs: Sequence[NamedRun],
    labels: Sequence[Label],
    kind: ScoreKind,
    path: Path,
    *,
    samples: int,
    seed: int | None,
    guide_path: Path | None,
) -> str:
    """Write the CSV and the page of the answers that have no score yet; returns what was
    written.

    Args:
        runs: Whose answers people should score.
        labels: People's scores so far, of a plan that this one extends.
        kind: Of the judge's score: a sample without it is not in the plan.
        path: Of the CSV; the page has the suffix ``.html``.
        samples: How many the plan has, with those that have labels.
        seed: Of the plan; None for that of the labels, or 0.
        guide_path: A text that the page shows raters; None for none.

    Raises:
        SettingWrong: A file exists, the seed is not that of the labels, or nothing is left to
            score.
    """
    plan_seed = _seed(seed, labels)
    guide = read_text(guide_path, "name a text file in UTF-8") if guide_path else ""
    page_path = _page_path(path)
    judged = [judged_samples(run_.task_run, kind) for run_ in runs]
    to_score = _unscored(planned_answers(judged, samples, plan_seed), labels)
    benchmark = runs[0].task_run.benchmark
    page = labelling_page(
        to_score, title=benchmark.title, scale=benchmark.scale, seed=plan_seed, guide=guide
    )
    write_text(path, csv_text(((answer.id, answer.answer) for answer in to_score), plan_seed))
    write_text(page_path, page.html)
    strata = Counter(sorted(answer.stratum for answer in to_score))
    listed_strata = ", ".join(f"{name} {count:,}" for name, count in strata.items())
    by_stratum = f" ({listed_strata})" if len(strata) > 1 else ""
    lines = [
        f"{path}: {counted(len(to_score), 'answer')} to score, seed {plan_seed}{by_stratum}",
        f"{page_path}: a page to score them in; it exports a CSV like {path.name}",
        "Decide how many of them are scored before you look at a corrected score.",
    ]
    if page.missing_images:
        lines.append(f"{counted(page.missing_images, 'image')} could not be shown")
    lines += without_points_text(counts_without_points(judged))
    return "\n".join([*lines, *notes_on(runs)])


def _seed(requested: int | None, labels: Sequence[Label]) -> int:
    """The seed of the plan: that of the labels, which it extends."""
    seeds = {label.seed for label in labels}
    if not seeds:
        require_range("--seed", requested or 0, 0, 10**18 - 1, hint="a number from 0 on")
        return requested or 0
    [seed, *others] = seeds
    if others or seed is None:
        problem = "have several seeds" if others else "have no seed, so they are of no plan"
        hint = "extend one plan; or draw another one without"
        raise SettingWrong(f"The scores in `--people` {problem}.", hint=hint)
    if requested not in (None, seed):
        message = f"`--seed` is {requested}, and the plan of `--people` has {seed}."
        raise SettingWrong(message, hint="omit `--seed`")
    return seed


def _page_path(path: Path) -> Path:
    """The page beside a CSV; both must be new."""
    page_path = path.with_suffix(".html")
    if path == page_path:
        hint = "name the CSV with `-o`: `-o people.csv`"
        raise SettingWrong(f"`{path}` is the name of the page.", hint=hint)
    for file in filter(Path.exists, (path, page_path)):
        hint = "name another file with `-o`, or move it away"
        raise SettingWrong(f"`{file}` exists, and may hold scores.", hint=hint)
    return page_path


def _unscored(planned: Sequence[PlannedAnswer], labels: Sequence[Label]) -> Sequence[PlannedAnswer]:
    """The answers of a plan that nobody has scored."""
    if not planned:
        hint = "`mmie-tasks report RUN` shows why"
        raise SettingWrong("No sample has points to correct.", hint=hint)
    seen = [label for label in labels if label.points is not None or label.unratable]
    scored = {(id_in_csv(label.id), label.answer) for label in seen}
    to_score = [answer for answer in planned if (id_in_csv(answer.id), answer.answer) not in scored]
    if not to_score:
        message = f"People have scored all {counted(len(planned), 'answer')} of this plan."
        raise SettingWrong(message, hint="a larger `--plan` extends it")
    return to_score
