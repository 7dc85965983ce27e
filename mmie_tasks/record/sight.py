"""Whether a judge saw the pictures that it was sent, by the prompt tokens that its server counts.

A server that drops pictures, or cuts a prompt that is too long, answers all the same (ollama
#17889; gateways in front of models that read text only). Its count of prompt tokens is the only
trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import StatisticsError, linear_regression, variance
from typing import TypeAlias

from mmie_tasks.record.reply import JudgeReply

LEAST_PER_PICTURE = 40
"""Fewer prompt tokens for a picture mean that it was not read. Models count 64 to 2,833 for a
photograph: OpenAI's 85 with low detail, Gemini's 258 (64 at low resolution), InternVL's 256 a tile,
Qwen-VL's one for 28 x 28 pixels."""

LEAST_REQUESTS = 5
_EQUAL_SHARE = 0.1  # of the requests; by chance, counts of different requests are seldom equal

_Request: TypeAlias = "tuple[int, int, int]"  # characters, pictures, prompt tokens


def unseen_pictures(replies: Iterable[JudgeReply]) -> str:
    """Why a judge may not have seen the pictures; empty if nothing speaks for it.

    Either its server counts the same prompt tokens for requests of different sizes, or, as a fit
    to all requests says, fewer than `LEAST_PER_PICTURE` for a picture.

    Args:
        replies: Of one judge. Those without a token count, a size or a picture do not count.

    >>> from mmie_tasks.record.reply import Usage
    >>> replies = [
    ...     JudgeReply(text="", model="", usage=Usage(input_tokens=2050), request_size=size)
    ...     for size in [(900, 1), (2000, 2), (3000, 2), (4000, 3), (5000, 4)]
    ... ]
    >>> unseen_pictures(replies)
    '2,050 prompt tokens for each of 5 requests'
    """
    requests = [
        (*size, reply.usage.input_tokens)
        for reply in replies
        if (size := reply.request_size) and size[1] and reply.usage.input_tokens
    ]
    if len({request[:2] for request in requests}) < LEAST_REQUESTS:
        return ""
    return _equal_counts(requests) or _no_tokens_for_pictures(requests)


def _equal_counts(requests: Sequence[_Request]) -> str:
    sizes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for characters, pictures, tokens in requests:
        sizes[tokens].append((characters, pictures))
    tokens, equal = max(sizes.items(), key=lambda item: len(item[1]))
    if len(set(equal)) < LEAST_REQUESTS or len(equal) < _EQUAL_SHARE * len(requests):
        return ""
    return f"{tokens:,} prompt tokens for each of {len(equal):,} requests"


def _no_tokens_for_pictures(requests: Sequence[_Request]) -> str:
    """By a line through tokens and pictures, both per character: its slope and three standard
    errors.

    A text has about the same tokens per character in all requests of a benchmark.
    """
    pictures = [pictures / characters for characters, pictures, _ in requests if characters]
    tokens = [tokens / characters for characters, _, tokens in requests if characters]
    try:
        slope, intercept = linear_regression(pictures, tokens)
    except StatisticsError:  # too few, or all in the same proportion
        return ""
    residuals = (t - intercept - slope * p for p, t in zip(pictures, tokens, strict=True))
    squares = sum(residual**2 for residual in residuals)
    spread = variance(pictures) * (len(pictures) - 1)
    error = math.sqrt(squares / (len(pictures) - 2) / spread)
    if slope + 3 * error >= LEAST_PER_PICTURE:
        return ""
    count = f"{max(slope, 0):.0f} prompt tokens for a picture"
    return f"about {count}, in {len(requests):,} requests"
