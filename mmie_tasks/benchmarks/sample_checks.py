"""Checks the samples of a run before anything is generated: their ids, groups and questions.

The functions that make groups and questions may be another package's, so an error that they raise
is an error of the samples that names the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.core.errors import DataBroken, first_line
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.record import ALL

Sample: TypeAlias = Mapping[str, Any]

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tiff")


def check_groups(
    title: str,
    docs: Iterable[Sample],
    groups: Callable[[Sample], Mapping[str, str | tuple[str, ...]]],
    metrics: Sequence[Metric],
) -> None:
    """Check that every sample has an ``id`` of its own and its groups, and that there are groups of
    each kind that the metrics average. Raises `DataBroken`.
    """
    kinds, ids = {ALL}, set[str]()

    def problem_of(doc: Sample) -> str:
        of_doc = groups(doc)
        kinds.update(of_doc)
        names = chain(*([v] if isinstance(v, str) else v for v in of_doc.values()))
        return "" if all(isinstance(name, str) for name in names) else "is no text"

    for doc in docs:
        id_ = doc.get("id")
        if id_ in (None, "") or str(id_) in ids:
            problem = "has no `id`" if id_ in (None, "") else f"has the `id` `{id_}` of another"
            hint = "give every sample an `id` of its own"
            raise DataBroken(f"A sample of {title} {problem}.", hint=hint)
        ids.add(str(id_))
        hint = "it returns each kind of group with the group of the sample, a text"
        _check(f"{title}: `groups`", doc, problem_of, hint)
    if unknown := [one for one in metrics if ids and one.by not in kinds]:
        raise DataBroken(
            f"{title}: the metric `{unknown[0].title}` averages groups of the kind "
            f"`{unknown[0].by}`, of which `groups` gives no sample any.",
            hint=f"the kinds that it gives: {', '.join(sorted(kinds - {ALL})) or 'none'}",
        )


def check_questions(
    title: str, docs: Iterable[Sample], question: Callable[[Sample], object]
) -> None:
    """Check that every question is a list of texts and of image files that exist. Raises
    `DataBroken`.
    """

    def problem_of(doc: Sample) -> str:
        with suppress(KeyError):  # a column of images, which the runner leaves out here
            return _problem_of_question(question(doc))
        return ""

    for doc in docs:
        hint = "it returns a list of texts (`str`) and existing image files (`Path`)"
        _check(f"{title}: `question`", doc, problem_of, hint)


def _check(what: str, doc: Sample, problem_of: Callable[[Sample], str], hint: str) -> None:
    """Raise `DataBroken` if something of a sample has a problem, or if an error is raised."""
    try:
        problem = problem_of(doc)
    except Exception as error:  # noqa: BLE001 - another package's benchmark
        problem = f"raises {type(error).__name__}: {first_line(error)}"
    if problem:
        raise DataBroken(f"{what} of the sample `{doc['id']}` {problem}.", hint=hint)


def _problem_of_question(parts: object) -> str:
    """What is wrong with the parts of a question; empty if nothing is."""
    if not isinstance(parts, list | tuple):
        return f"is a {type(parts).__name__}, not a list"
    for part in parts:
        if isinstance(part, Path) and not part.is_file():
            return f"names the file `{part}`, which does not exist"
        if not isinstance(part, str | Path):
            return f"has a part of the type {type(part).__name__}"
        is_name = isinstance(part, str) and part.lower().endswith(_IMAGE_SUFFIXES)
        if is_name and Path(part).is_file():
            return f"has the name of a file as a text: `Path({part!r})` shows the image"
    return ""
