"""Files of stored exams, as `mmie-tasks judge-exam` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmie_tasks.quality.judge_exam.stored_exams import exam_path


def document(judge: str, percent: float, **fields: Any) -> dict[str, Any]:
    """A stored exam; `fields` are of the document, its set or its grade."""
    content = {
        "judge": judge,
        "method": fields.pop("method", "compare"),
        "set": {
            "title": fields.pop("title", "OpenING: pairs of answers"),
            "pairs": fields.pop("pairs", 100),
        },
        "grade": {
            "asked": fields.pop("asked", 200),
            "judged": fields.pop("judged", 200),
            "agreement": {
                "value": percent,
                "interval": [percent - 5, percent + 5],
                "n": 200,
                "why_not": "",
            },
            "leanings": fields.pop("leanings", []),
        },
        "seconds_per_1000": None,
    }
    return {**content, **fields}


def write_exam(
    environment: Mapping[str, str], judge: str, percent: float, name: str = "a", **fields: Any
) -> Path:
    """Write a document to the file of a judge's exam; its path."""
    path = exam_path(judge, name, environment)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(judge, percent, **fields)), encoding="utf-8")
    return path
