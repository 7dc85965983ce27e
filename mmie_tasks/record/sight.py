"""Whether a judge saw the pictures that it was sent, by the prompt tokens that its server counts.

A server that drops pictures, or cuts a prompt that is too long, answers all the same (ollama
#17889; gateways in front of models that read text only). Its count of prompt tokens is the only
trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import StatisticsError, fmean, linear_regression, variance
from typing import TypeAlias

from mmie_tasks.record.reply import JudgeReply, RequestSize

LEAST_PER_PICTURE = 40
"""Fewer prompt tokens for a picture mean that it was not read. Models count 64 to 2,833 for a
photograph: OpenAI's 85 with low detail, Gemini's 258 (64 at low resolution), InternVL's 256 a tile,
Qwen-VL's one for 28 x 28 pixels. Llama 3.2 Vision is an exception: on Ollama (ollama #7592) and
Amazon Bedrock (boto3 #4509) a picture that it sees counts as one.
"""

_PX_PER_TOKEN = 2048
"""Of a smaller picture, the pixels for a token: twice those of models that count by size (32 x 32:
Qwen3-VL, GPT-4.1 mini; 750: Claude; 28 x 28: Qwen2-VL), so that 96 x 96 pixels are 4 tokens."""

LEAST_REQUESTS = 5
_EQUAL_SHARE = 0.1  # of the requests; by chance, counts of different requests are seldom equal
_CLEARLY_LARGER = 1.2  # times the smallest; below, the same count may be chance

_Request: TypeAlias = "tuple[RequestSize, int]"  # with its prompt tokens


def unseen_pictures(replies: Iterable[JudgeReply]) -> str:
    """Why a judge may not have seen the pictures; empty if nothing speaks for it.

    Either its server counts the same prompt tokens for requests of different sizes, or, as a fit
    to all requests says, fewer than `LEAST_PER_PICTURE` for a picture; of small pictures, fewer.

    Args:
        replies: Of one judge. Those without a token count, a size or a picture do not count, and
            there is no reason without `LEAST_REQUESTS` requests of clearly different sizes.

    >>> from mmie_tasks.record.reply import Usage
    >>> sizes = [RequestSize(characters, 2, 2 * 512**2) for characters in range(900, 2000, 100)]
    >>> usage = Usage(input_tokens=2050)
    >>> replies = [
    ...     JudgeReply(text="", model="", usage=usage, request_size=size) for size in sizes
    ... ]
    >>> unseen_pictures(replies)
    '2,050 prompt tokens for each of 11 requests'
    """
    requests = [
        (size, reply.usage.input_tokens)
        for reply in replies
        if (size := reply.request_size) and size.pictures and reply.usage.input_tokens
    ]
    if not _differ_clearly(requests):
        return ""
    return _equal_counts(requests) or _no_tokens_for_pictures(requests)


def _differ_clearly(requests: Sequence[_Request]) -> bool:
    """Whether there are enough sizes, the largest clearly larger than the smallest, by the fewest
    tokens that text (8 characters each) and pictures can be.
    """
    least = {size.characters / 8 + LEAST_PER_PICTURE * size.pictures for size, _ in requests}
    return len(least) >= LEAST_REQUESTS and max(least) > _CLEARLY_LARGER * min(least)


def _equal_counts(requests: Sequence[_Request]) -> str:
    by_tokens: dict[int, list[_Request]] = defaultdict(list)
    for request in requests:
        by_tokens[request[1]].append(request)
    tokens, equal = max(by_tokens.items(), key=lambda item: len(item[1]))
    if not _differ_clearly(equal) or len(equal) < _EQUAL_SHARE * len(requests):
        return ""
    return f"{tokens:,} prompt tokens for each of {len(equal):,} requests"


def _no_tokens_for_pictures(requests: Sequence[_Request]) -> str:
    """By a line through tokens and pictures, both per character: its slope and four standard
    errors, more of few requests, whose errors are uncertain.

    A text has about the same tokens per character in all requests of a benchmark.
    """
    pictures = [size.pictures / size.characters for size, _ in requests if size.characters]
    tokens = [tokens / size.characters for size, tokens in requests if size.characters]
    try:
        slope, intercept = linear_regression(pictures, tokens)
    except StatisticsError:  # too few, or all in the same proportion
        return ""
    residuals = (t - intercept - slope * p for p, t in zip(pictures, tokens, strict=True))
    squares = sum(residual**2 for residual in residuals)
    spread = variance(pictures) * (len(pictures) - 1)
    freedom = len(pictures) - 2
    error = math.sqrt(squares / freedom / spread)
    by_size = (size.pixels / size.pictures / _PX_PER_TOKEN for size, _ in requests)
    least = fmean(min(LEAST_PER_PICTURE, tokens) for tokens in by_size)
    if slope + 4 * (1 + 3 / freedom) * error >= least:
        return ""
    count = f"{max(slope, 0):.0f} prompt tokens for a picture"
    return f"about {count}, in {len(requests):,} requests"
