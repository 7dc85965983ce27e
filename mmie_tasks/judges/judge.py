"""Judging without a run of lmms-eval: `mmie_tasks.judge`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.choice import option_text, parse_choice
from mmie_tasks.judges.base import JudgeRequest, close_judge
from mmie_tasks.judges.batch import judge_all
from mmie_tasks.judges.progress import Progress
from mmie_tasks.judges.session import session_without_run
from mmie_tasks.record.reply import JudgeResult

RequestContent: TypeAlias = str | tuple[str | Path, ...]
"""A text, or texts and image paths in order."""


def judge(
    name: str,
    requests: RequestContent | list[RequestContent],
    *,
    max_tokens: int = 2000,
    **options: object,
) -> list[JudgeResult]:
    """Sends a judge one or more requests, without a run of lmms-eval.

    Replies are cached as in a run, so a repeated request is free. The judge is checked before the
    first request, at most every 15 minutes. A judge that runs in this process is closed afterwards,
    so pass all requests together.

    Args:
        name: ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``, as for ``--judge``.
        requests: One request, or a list of them. A request is a text (`str`), or a tuple of texts
            and image files: ``("What does it show?", Path("a.png"))``. A `str` is always text, a
            `Path` always an image file, which is sent byte for byte.
        max_tokens: The longest reply, in the judge's tokens.
        **options: Judge options, as for ``--judge_args``: ``base_url="http://HOST:8000/v1"``.

    Returns:
        One result per request, in order. ``result.reply`` has ``text``, ``model``, ``usage``,
        ``finish`` and ``cached``. If a request fails, ``result.reply`` is None, and
        ``result.failure`` has ``reason`` and ``detail``.

    Raises:
        MmieTasksError: The judge is unusable as set up; the message has a hint.
        TypeError: A request has another form.
    """
    asked = [
        JudgeRequest(parts=_parts(request), max_tokens=max_tokens)
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
    try:
        with Progress(f"with {choice.name}", len(asked), opened) as progress:
            outcomes = judge_all(opened, asked, lambda _, outcome: progress.update(outcome))
            results = dict(outcomes)
    finally:
        close_judge(opened)
    return [results[index] for index in range(len(asked))]


def _parts(request: RequestContent) -> tuple[str | Path, ...]:
    parts = (request,) if isinstance(request, str) else request
    if not isinstance(parts, tuple) or not all(isinstance(part, (str, Path)) for part in parts):
        raise TypeError(
            "A request is a text, or a tuple of texts and paths of image files; got "
            f"{str(request)[:80]!r}. "
            'One request with an image: `("What does it show?", Path("a.png"))`; several: a list '
            "of such tuples."
        )
    return parts
