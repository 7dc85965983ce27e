"""The plan of the answers that people should score, and its files: a CSV and a page.

A plan is a random sample of a run whose order can be verified: the samples of a stratum are in the
order of the SHA-256 of seed and id. People score the first ones of each stratum. So a plan that was
stopped early or extended is still a random sample, and so is a plan of two runs; the run and the
seed are enough to check it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.judged_runs import NamedRun, notes_on
from mmie_tasks.quality.calibrate.judged_samples import (
    JudgedSamples,
    PlannedAnswer,
    counts_without_points,
    judged_samples,
    without_points_text,
)
from mmie_tasks.quality.calibrate.labelling_page import labelling_page
from mmie_tasks.record.intervals import allocation
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.arguments import require_range
from mmie_tasks.results.commands import read_text, write_text
from mmie_tasks.results.labels import Label, answer_digest, csv_text, id_in_csv

_MIN_PER_STRATUM = 2  # a plan takes at least so many samples of every stratum: one has no spread


def strata_in_order(strata: Mapping[str, str], seed: int) -> dict[str, list[str]]:
    """The ids of each stratum, by name, in the order in which people should score them; `strata`
    has the stratum of each id.

    >>> strata_in_order(dict.fromkeys("abcd", "SA"), 7)
    {'SA': ['c', 'd', 'b', 'a']}
    """
    ids_by_stratum: dict[str, list[str]] = {name: [] for name in sorted(set(strata.values()))}

    def position(id_: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{id_}".encode(errors="surrogatepass")).digest()

    for id_ in sorted(strata, key=position):
        ids_by_stratum[strata[id_]].append(id_)
    return ids_by_stratum


def planned_answers(
    runs: Sequence[JudgedSamples], samples: int, seed: int
) -> tuple[PlannedAnswer, ...]:
    """The answers to score, ordered so that every beginning has the proportions of the strata.

    The plan covers the samples that any of the runs has points for. Identical answers of two runs
    are one. The order depends on the seed only, neither on that of the log nor on that of the runs.
    """
    strata = {id_: judged.stratum for run in runs for id_, judged in run.by_id.items()}
    ordered = strata_in_order(strata, seed)
    counts = _counts([len(ids) for ids in ordered.values()], samples)
    ranked = sorted(
        ((rank + 0.5) / count, position, id_)
        for position, (count, ids) in enumerate(zip(counts, ordered.values(), strict=True))
        for rank, id_ in enumerate(ids[:count])
    )
    plan: list[PlannedAnswer] = []
    for _, _, id_ in ranked:
        answers = [run.by_id[id_].sample for run in runs if id_ in run.by_id]
        for digest, sample in sorted({answer_digest(sample): sample for sample in answers}.items()):
            plan.append(PlannedAnswer(id=id_, answer=digest, stratum=strata[id_], sample=sample))
    return tuple(plan)


def _counts(sizes: Sequence[int], samples: int) -> list[int]:
    """Samples of each stratum: in proportion, but at least `_MIN_PER_STRATUM`."""
    proportional = allocation(sizes, min(samples, sum(sizes)))
    counts = [
        max(count, min(_MIN_PER_STRATUM, size))
        for count, size in zip(proportional, sizes, strict=True)
    ]
    for _ in range(sum(counts) - sum(proportional)):
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] -= counts[largest] > _MIN_PER_STRATUM
    return counts


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
    """Write the CSV, and next to it the page, of the answers without a score; returns what to
    print.

    `samples` is the size of the plan, including samples that have labels; samples without a score
    of this kind are not in it. The seed is by default that of the labels, whose plan is extended,
    or else 0.

    Raises:
        SettingWrong: A file exists, the seed differs from that of the labels, or nothing is left
            to score.
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
    """The page next to a CSV; neither may exist."""
    page_path = path.with_suffix(".html")
    if path == page_path:
        hint = "name the CSV with `-o`: `-o people.csv`"
        raise SettingWrong(f"`{path}` is the name of the page.", hint=hint)
    for file in filter(Path.exists, (path, page_path)):
        hint = "name another file with `-o`, or move it away"
        raise SettingWrong(f"`{file}` exists, and may hold scores.", hint=hint)
    return page_path


def _unscored(planned: Sequence[PlannedAnswer], labels: Sequence[Label]) -> Sequence[PlannedAnswer]:
    if not planned:
        hint = f"`{as_called('mmie-tasks report RUN')}` shows why"
        raise SettingWrong("No sample has points to correct.", hint=hint)
    seen = [label for label in labels if label.points is not None or label.unratable]
    scored = {(id_in_csv(label.id), label.answer) for label in seen}
    to_score = [answer for answer in planned if (id_in_csv(answer.id), answer.answer) not in scored]
    if not to_score:
        message = f"People have scored all {counted(len(planned), 'answer')} of this plan."
        raise SettingWrong(message, hint="a larger `--plan` extends it")
    return to_score
