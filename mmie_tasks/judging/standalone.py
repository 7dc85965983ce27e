"""Asks a judge without a run: `mmie_tasks.judge`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, overload

from mmie_tasks.judges.base import InProcess, JudgeRequest
from mmie_tasks.judges.choice import parse_choice
from mmie_tasks.judging.session import CheckedRequest, JudgeResult, Progress, judge_all, shared_judge

Request: TypeAlias = str | tuple[str | Path, ...]
"""A text, or texts and paths of image files in the order in which the judge reads them."""


@overload
def judge(name: str, requests: Request, *, max_tokens: int = ..., **options: object) -> JudgeResult: ...
@overload
def judge(name: str, requests: list[Request], *, max_tokens: int = ..., **options: object) -> list[JudgeResult]: ...
def judge(
    name: str, requests: Request | list[Request], *, max_tokens: int = 2000, **options: object
) -> JudgeResult | list[JudgeResult]:
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
        One result per request, in order. ``result.reply`` has ``text``, ``model``, ``usage``,
        ``finish`` and ``cached``. Without a reply it is None, and ``result.failure`` has ``reason``
        and ``detail``: a request that fails raises nothing.

    Raises:
        MmieTasksError: The judge cannot be used as it is set up; the message has a hint.
        TypeError: A request has another form.
    """
    single = not isinstance(requests, list)
    checked = [
        CheckedRequest(request=JudgeRequest(parts=_parts(request), max_tokens=max_tokens))
        for request in (requests if isinstance(requests, list) else [requests])
    ]
    choice = parse_choice(name, "`judge`")
    choice = replace(choice, options={**choice.options, **{key: str(value) for key, value in options.items()}})
    shared = shared_judge(choice, os.environ)
    shared.check()
    try:
        with Progress("" if single else f"with {choice.name}", len(checked), judge=shared.judge) as progress:
            results = dict(judge_all(shared.judge, checked, progress.update))
    finally:
        if isinstance(shared.judge, InProcess):
            shared.judge.close()
    return results[0] if single else [results[index] for index in range(len(checked))]


def _parts(request: Request) -> tuple[str | Path, ...]:
    """The parts of a request.

    Raises:
        TypeError: It is neither a text nor a tuple of texts and paths.
    """
    parts = (request,) if isinstance(request, str) else request
    if not isinstance(parts, tuple) or not all(isinstance(part, (str, Path)) for part in parts):
        raise TypeError(
            f"A request is a text, or a tuple of texts and paths of image files; got {str(request)[:80]!r}. "
            'One request with an image: `("What does it show?", Path("a.png"))`; several: a list of such tuples.'
        )
    return parts
