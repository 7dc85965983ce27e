"""A sample's line in the log: columns of plain values, what lmms-eval wrote, and the record.

pandas, Weights & Biases, the viewer of the Hub and lmms-eval's own show the columns first, and
need not know the record. Its ``--baseline`` compares the column ``score``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.record import IMAGE_PLACEHOLDER, RECORD_KEY, BadRecord, Line, Record
from mmie_tasks.record.segment import Segments


def sample_line(line: Line, record: Record, scale: Scale) -> dict[str, object]:
    """The line with its record and these columns, which are None where there is no value.

    * ``id``: The sample's id.
    * ``score`` and ``robust``: Official and robust score as shares of full marks, 0 to 1.
    * ``unscored``: Why there is no official score.
    * ``question`` and ``answer``: Their texts, with ``<image>`` for each image.
    * ``reply``: The judges' replies.
    """
    official = record.official
    columns = {
        "id": record.id,
        "score": _share(official, scale),
        "robust": _share(record.robust, scale),
        "unscored": official.reason if isinstance(official, Unscored) else None,
        "question": _text(record.shown_question, line),
        "answer": _text(record.shown_answer, line),
        "reply": _joined(reply.text for reply in record.replies),
    }
    others = {name: value for name, value in line.items() if name != RECORD_KEY}
    return {**columns, **others, RECORD_KEY: record.model_dump()}


def _share(verdict: Verdict, scale: Scale) -> float | None:
    return verdict.points / scale.full_marks if isinstance(verdict, Scored) else None


def _text(shown: Callable[[Line], Segments], line: Line) -> str | None:
    with suppress(BadRecord):  # it is not a text
        return "".join(
            f"{segment.text or ''}{IMAGE_PLACEHOLDER if segment.image or segment.problem else ''}"
            for segment in shown(line)
        )
    return None


def _joined(texts: Iterable[str]) -> str | None:
    return "\n\n".join(texts) or None
