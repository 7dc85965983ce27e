"""Judging without a run of lmms-eval: `mmie_tasks.judge`, and requests that are sent together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.choice import option_text, parse_choice
from mmie_tasks.judges.base import Judge, JudgeRequest, close_judge
from mmie_tasks.judging.progress import Progress
from mmie_tasks.judging.requests import CheckedRequest, judge_all
from mmie_tasks.judging.session import session_without_run
from mmie_tasks.record.reply import JudgeResult

RequestContent: TypeAlias = str | tuple[str | Path, ...]
"""A text, or texts and paths of image files in the order in which the judge reads them."""


def judge(
    name: str,
    requests: RequestContent | list[RequestContent],
    *,
    max_tokens: int = 2000,
    **options: object,
) -> list[JudgeResult]:
    """Ask a judge one request, or many at once, without a run of lmms-eval.

    Replies are cached as in a run: a repeated request costs nothing. The judge is checked before
    the first request, at most every 15 minutes; a judge that runs in this process is closed
    afterwards, so pass it all requests together.

    Args:
        name: ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``, as for ``--judge``.
        requests: One request is a text (`str`), or a tuple of texts and image files:
            ``("What does it show?", Path("a.png"))``. A list holds any number of requests. A `str`
            is always text, a `Path` always an image file, which is sent byte for byte.
        max_tokens: The longest reply, in tokens of the judge.
        **options: Options of the judge, as of ``--judge_args``: ``base_url="http://HOST:8000/v1"``.

    Returns:
        A list with one result per request, in order. ``result.reply`` has ``text``, ``model``,
        ``usage``, ``finish`` and ``cached``. Without a reply it is None, and ``result.failure`` has
        ``reason`` and ``detail``: a request that fails raises nothing.

    Raises:
        MmieTasksError: The judge cannot be used as it is set up; the message has a hint.
        TypeError: A request has another form.
    """
    checked = [
        CheckedRequest(request=JudgeRequest(parts=_parts(request), max_tokens=max_tokens))
        for request in (requests if isinstance(requests, list) else [requests])
    ]
    choice = parse_choice(name, "`judge`")
    choice = replace(
        choice,
        options={**choice.options, **{key: option_text(value) for key, value in options.items()}},
    )
    session = session_without_run()
    opened = session.open(choice)
    session.check(opened)
    return judge_together(opened, checked, f"with {choice.name}")


def judge_together(
    judge: Judge, requests: Sequence[CheckedRequest], title: str
) -> list[JudgeResult]:
    """Send a judge requests, with a progress bar; close it if it runs in this process.

    Args:
        judge: A single one, checked.
        requests: Any number; the judge gets them together.
        title: For the progress bar.

    Returns:
        One result per request, in order.
    """
    try:
        with Progress(title, len(requests), judge) as progress:
            asked = judge_all(judge, requests, lambda _, outcome: progress.update(outcome))
            results = dict(asked)
    finally:
        close_judge(judge)
    return [results[index] for index in range(len(requests))]


def _parts(request: RequestContent) -> tuple[str | Path, ...]:
    """The parts of a request; raises TypeError if it is neither a text nor a tuple of texts and
    paths.
    """
    parts = (request,) if isinstance(request, str) else request
    if not isinstance(parts, tuple) or not all(isinstance(part, (str, Path)) for part in parts):
        raise TypeError(
            "A request is a text, or a tuple of texts and paths of image files; got "
            f"{str(request)[:80]!r}. "
            'One request with an image: `("What does it show?", Path("a.png"))`; several: a list '
            "of such tuples."
        )
    return parts
