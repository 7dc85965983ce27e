"""A benchmark of samples ``a1``, ``b7``, ...: the letter is the group."""

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.results.run import TaskRun
from support.records import record_of
from support.signatures import signature_from
from support.unloaded_benchmark import UnloadedBenchmark, metric_of


class Letters(UnloadedBenchmark):
    name = "letters"
    title = "Letters"
    scale = Scale(full_marks=10, unit="points, 0 to 10", percent=lambda mean: round(mean * 10, 2))
    metrics = (
        Metric(name="", title="AVG", kind="headline"),
        Metric(name="even", title="Even", kind="mean", by="letter", weights={"a": 0.5, "b": 0.5}),
        *(metric_of(letter, "letter") for letter in "abc"),
        Metric(name="style", title="Style", kind="component", component="style"),
    )


LETTERS = Letters()


def verdict(points):
    if isinstance(points, Unscored):
        return points
    return Unscored("unparsed") if points is None else Scored(float(points))


def make_run(points, signature="judge:made_up|task:letters@1-A", robust=None, styles=None):
    """A run of the samples in `points`: id to points, None for unscored, or an `Unscored`."""
    samples = tuple(
        record_of(
            name,
            verdict(value),
            verdict((robust or {}).get(name, value)),
            groups={"letter": (name[0],)},
            shares={"official": {"style": styles[name]}} if styles else {},
            signature=signature_from(signature),
        )
        for name, value in points.items()
    )
    return TaskRun(task="letters", benchmark=LETTERS, records=samples)
