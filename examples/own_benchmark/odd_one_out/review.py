"""What the log of a run means, for ``mmie-tasks report``, ``compare``, ``rescore`` and the like."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.verdict import Unscored, Verdict
from mmie_tasks.runs import samples as logged
from mmie_tasks.runs.benchmark import BadRecord, Line, Metric, LoggedSample, Benchmark, Scale, LoggedSegment
from odd_one_out import task


def _number(category: str) -> Metric:
    return Metric(
        name=category,
        title=f"Odd {category}",
        kind="category",
        by="category",
        weights={category: 1.0},
    )


class _Review:
    """See `mmie_tasks.runs.benchmark.Benchmark`."""

    title = "Odd one out"
    scale = Scale(
        full_marks=1,
        unit="points, 0 or 1",
        whole=True,
        percent=lambda mean: 100 * mean,
        tabled=1,
    )
    numbers = (
        Metric(name="", title="All samples", kind="headline"),
        *map(_number, task.CATEGORIES),
    )

    def read(self, line: Line) -> LoggedSample:
        """The sample of a line: the row under ``coverage`` has all of it but the answer."""
        record = logged.record_of(line)
        sample_id, category = logged.text(record, "id"), logged.text(record, "category")
        if category not in task.CATEGORIES:
            raise BadRecord(f"`category` is `{category}`: no sample of odd_one_out")
        shapes = task.picture(sample_id.rpartition("/")[2])  # a log may name anything
        return LoggedSample(
            id=sample_id,
            official=logged.verdict(record, "official", 1),
            robust=logged.verdict(record, "robust", 1),
            groups={"category": (category,)},
            question=(LoggedSegment(image=str(shapes)), LoggedSegment(text=task.QUESTION)),
            gold=(LoggedSegment(text=logged.text(record, "gold")),),
            answer=(LoggedSegment(text=logged.answer(line)),),
            signature=logged.text(record, "signature"),
        )

    def reread(self, line: Line) -> Mapping[str, Verdict] | None:
        """The saved answer, read as of now; where there was none to read, what was logged."""
        sample = self.read(line)
        if isinstance(sample.official, Unscored):
            return {"official": sample.official, "robust": sample.robust}
        if "filtered_resps" not in line:
            return None
        return task.read(line["filtered_resps"], sample.gold[0].text)


REVIEW: Benchmark = _Review()
