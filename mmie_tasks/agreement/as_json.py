"""What was found, for programs: null for what is not defined, with the reason beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from mmie_tasks.agreement.analysis import Agreement, Compared
from mmie_tasks.agreement.raters import Rater
from mmie_tasks.agreement.resampling import LEVEL, Measured
from mmie_tasks.review import ReadingName


def as_json(found: Agreement, reading: ReadingName) -> str:
    """One object; its keys are the names used here."""
    scale, panel = found.gathered.scale, found.panel
    names = [rater.name for rater in found.gathered.raters]
    document = {
        "task": found.gathered.task,
        "benchmark": found.gathered.review.title,
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
