"""Tells by the prompt token counts whether a judge's server cuts its requests.

A server that cuts a long prompt, and the images in it, answers all the same, as Ollama does. The
count of prompt tokens is the only trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from mmie_tasks.record.reply import JudgeReply

_LEAST_REQUESTS = 5
_EQUAL_SHARE = 0.1  # fraction of requests; by chance, different requests seldom have equal counts
_CLEARLY_LONGER = 1.5  # ratio to the shortest text; below it, equal counts may be chance


def equal_counts(replies: Iterable[JudgeReply]) -> str:
    """The prompt tokens that clearly different requests have in common; empty without any.

    Args:
        replies: Replies of one judge; those without a token count or a request's length are
            ignored.

    >>> from mmie_tasks.record.reply import Usage
    >>> usage = Usage(input_tokens=2050)
    >>> lengths = range(900, 2000, 100)
    >>> equal_counts(
    ...     JudgeReply(text="", model="", usage=usage, request_characters=n) for n in lengths
    ... )
    '2,050 prompt tokens for each of 11 requests'
    """
    lengths: dict[int, list[int]] = defaultdict(list)  # of the requests, by their prompt tokens
    for reply in replies:
        if reply.request_characters and reply.usage.input_tokens:
            lengths[reply.usage.input_tokens].append(reply.request_characters)
    total = sum(map(len, lengths.values()))
    tokens, equal = max(lengths.items(), key=lambda item: len(item[1]), default=(0, []))
    is_chance = len(set(equal)) < _LEAST_REQUESTS or len(equal) < _EQUAL_SHARE * total
    if is_chance or max(equal) < _CLEARLY_LONGER * min(equal):
        return ""
    return f"{tokens:,} prompt tokens for each of {len(equal):,} requests"
