"""The command ``mmie-tasks agreement``."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.agreement.analysis import Agreement, Compared, analyse, panel, reference_of
from mmie_tasks.results.agreement.measures import Asked
from mmie_tasks.results.agreement.page import page
from mmie_tasks.results.agreement.ratings import Rater, gather
from mmie_tasks.results.agreement.resampling import LEVEL, RESAMPLES, Measured
from mmie_tasks.runs.benchmark import SCORE_KINDS, ScoreKind

# What was found, for programs: null for what is not defined, with the reason beside it.


def as_json(found: Agreement, reading: ScoreKind) -> str:
    """One object; its keys are the names used here."""
    scale, panel = found.gathered.scale, found.panel
    names = [rater.name for rater in found.gathered.raters]
    document = {
        "task": found.gathered.task,
        "benchmark": found.gathered.benchmark.title,
        "reading": reading,
        "scale": {"full_marks": scale.full_marks, "unit": scale.unit, "whole": scale.whole},
        "reference": found.reference,
        "intervals": {"method": "percentile bootstrap over samples", "level": LEVEL, "seed": 0},
        "samples": {
            "compared": len(panel.ids),
            "in_one_only": panel.in_one_only,
            "other_answers": panel.other_answers,
            "unseen_answers": panel.unseen_answers,
        },
        "raters": [_rater(rater) for rater in found.gathered.raters],
        "means": {mean.name: list(mean.members) for mean in panel.means},
        "with_reference": [_pair(pair) for pair in found.with_reference],
        "other_pairs": [_pair(pair) for pair in found.other_pairs],
        "krippendorff_alpha": [
            {"who": each.who, "n": each.samples, "measures": _measures(each.measures)}
            for each in found.alphas
        ],
        "in_groups": [
            {"kind": each.kind, "group": each.group, **_pair(each.compared)}
            for each in found.in_groups
        ],
        "disputed": [
            {"id": d.id, "points": dict(zip(names, d.points, strict=True)), "spread": d.spread}
            for d in found.disputed
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _rater(rater: Rater) -> dict[str, object]:
    return {
        "name": rater.name,
        "kind": rater.kind,
        "source": str(rater.source),
        "with_points": len(rater.points),
        "mean": sum(rater.points.values()) / len(rater.points) if rater.points else None,
        "unscored": dict(sorted(Counter(rater.unscored.values()).items())),
        "signatures": list(rater.signatures),
        "notes": list(rater.notes),
    }


def _pair(pair: Compared) -> dict[str, object]:
    found: dict[str, object] = {
        "judge": pair.judge,
        "reference": pair.reference,
        "n": pair.samples,
        "measures": _measures(pair.measures),
    }
    if pair.confusion:
        found["confusion"] = [list(row) for row in pair.confusion]
    return found


def _measures(measures: Mapping[str, Measured]) -> dict[str, object]:
    return {
        name: {
            "value": each.value,
            "low": each.interval and each.interval.low,
            "high": each.interval and each.interval.high,
            "resamples": each.resamples,
            "why_not": each.why_not,
        }
        for name, each in measures.items()
    }


_FEWEST = 100  # resamples: the ends of an interval are the 2nd or 3rd from the last


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Compare judges, and people, on the same samples.

    Args:
        arguments: What stands behind ``agreement``.
        environment: Of this process; not read.

    Returns:
        Tables in Markdown, or JSON.

    Raises:
        AnswersUnusable: A run or CSV cannot be read, or they have nothing in common.
        SettingWrong: An option cannot be obeyed.
    """
    asked = _parser().parse_args(arguments)
    if asked.resamples < _FEWEST and asked.resamples != 0:
        message = f"{asked.resamples} resamples make no interval."
        raise SettingWrong(message, hint=f"`--resamples {_FEWEST}` or more, or 0 for no intervals")
    if asked.top < 0:
        raise SettingWrong(f"`--top {asked.top}` is below 0.", hint="0 shows none")
    gathered = gather(asked.raters, asked.task, asked.reading)
    points = panel(gathered)
    reference = reference_of(points, gathered, asked.reference)
    how = Asked(scale=gathered.scale, resamples=asked.resamples)
    found = analyse(gathered, points, reference, how, asked.top)
    if asked.output:
        _write(Path(asked.output).expanduser(), as_json(found, asked.reading))
    return as_json(found, asked.reading) if asked.json else page(found, asked.reading)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror}."
        raise SettingWrong(message, hint="name another file") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks agreement",
        description="How far judges, and people, agree on the same answers: the paper's cosine, "
        "MSE, MAE and Pearson first, then rank correlations, kappa, Krippendorff's alpha, and "
        "where they disagree. Reads what runs saved with `--log_samples`, and CSV files.",
    )
    parser.add_argument(
        "raters",
        nargs="+",
        metavar="RUN_OR_CSV",
        help="a run's folder, results file or sample log, or a CSV with the columns `id, score` "
        "(and `rater`, for several people); NAME=PATH gives it a name",
    )
    parser.add_argument("--task", metavar="TASK", help="which, where the runs have several")
    parser.add_argument("--reading", choices=SCORE_KINDS, default="official", help="of the replies")
    parser.add_argument(
        "--reference", metavar="NAME", help="default: the people, or else the first that is named"
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="samples disagreed on")
    parser.add_argument(
        "--resamples", type=int, default=RESAMPLES, metavar="N", help="for intervals; 0 for none"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the JSON to a file as well")
    return parser
