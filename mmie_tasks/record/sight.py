"""Checks by the prompt token counts whether a judge saw the images of its requests.

A server that drops images or cuts a long prompt answers all the same (ollama #17889; gateways to
text-only models). The count of prompt tokens is the only trace.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import StatisticsError, fmean, linear_regression, variance
from typing import TypeAlias

from mmie_tasks.record.reply import JudgeReply, RequestSize

LEAST_PER_IMAGE = 40
"""Fewer prompt tokens per image mean that it was not read.

Models count 64 to 2,833 for a photograph: OpenAI 85 at low detail, Gemini 258 (64 at low
resolution), InternVL 256 per tile, Qwen-VL one per 28 x 28 pixels. The exception is Llama 3.2
Vision, whose images count as one token on Ollama (ollama #7592) and Amazon Bedrock (boto3 #4509).
"""

_PX_PER_TOKEN = 2048
"""Pixels per token for smaller images: twice those of models that count by size (32 x 32:
Qwen3-VL, GPT-4.1 mini; 750: Claude; 28 x 28: Qwen2-VL), so that 96 x 96 pixels are 4 tokens."""

LEAST_REQUESTS = 5
_EQUAL_SHARE = 0.1  # fraction of requests; by chance, different requests seldom have equal counts
_CLEARLY_LARGER = 1.2  # ratio to the smallest size; below it, equal counts may be chance

_Request: TypeAlias = "tuple[RequestSize, int]"  # with its prompt tokens


def unseen_images(replies: Iterable[JudgeReply]) -> str:
    """Why a judge may not have seen the images; empty without evidence.

    The reason is equal prompt token counts for requests of different sizes, or a linear fit with
    fewer than `LEAST_PER_IMAGE` tokens per image (fewer for small images). Either needs
    `LEAST_REQUESTS` requests of clearly different sizes.

    Args:
        replies: Replies of one judge; those without a token count, a size or an image are ignored.

    >>> from mmie_tasks.record.reply import Usage
    >>> sizes = [RequestSize(characters, 2, 2 * 512**2) for characters in range(900, 2000, 100)]
    >>> usage = Usage(input_tokens=2050)
    >>> replies = [
    ...     JudgeReply(text="", model="", usage=usage, request_size=size) for size in sizes
    ... ]
    >>> unseen_images(replies)
    '2,050 prompt tokens for each of 11 requests'
    """
    requests = [
        (size, reply.usage.input_tokens)
        for reply in replies
        if (size := reply.request_size) and size.images and reply.usage.input_tokens
    ]
    if not _differ_clearly(requests):
        return ""
    return _equal_counts(requests) or _no_tokens_for_images(requests)


def _differ_clearly(requests: Sequence[_Request]) -> bool:
    """Compares the fewest possible tokens: one per 8 characters, and those of the images."""
    least = {size.characters / 8 + LEAST_PER_IMAGE * size.images for size, _ in requests}
    return len(least) >= LEAST_REQUESTS and max(least) > _CLEARLY_LARGER * min(least)


def _equal_counts(requests: Sequence[_Request]) -> str:
    by_tokens: dict[int, list[_Request]] = defaultdict(list)
    for request in requests:
        by_tokens[request[1]].append(request)
    tokens, equal = max(by_tokens.items(), key=lambda item: len(item[1]))
    if not _differ_clearly(equal) or len(equal) < _EQUAL_SHARE * len(requests):
        return ""
    return f"{tokens:,} prompt tokens for each of {len(equal):,} requests"


def _no_tokens_for_images(requests: Sequence[_Request]) -> str:
    # A line through tokens and images, both per character, because a benchmark's texts have about
    # the same tokens per character. The margin is four standard errors, more for few requests.
    images = [size.images / size.characters for size, _ in requests if size.characters]
    tokens = [tokens / size.characters for size, tokens in requests if size.characters]
    try:
        slope, intercept = linear_regression(images, tokens)
    except StatisticsError:  # too few, or all in the same proportion
        return ""
    residuals = (t - intercept - slope * p for p, t in zip(images, tokens, strict=True))
    squares = sum(residual**2 for residual in residuals)
    spread = variance(images) * (len(images) - 1)
    freedom = len(images) - 2
    error = math.sqrt(squares / freedom / spread)
    by_size = (size.pixels / size.images / _PX_PER_TOKEN for size, _ in requests)
    least = fmean(min(LEAST_PER_IMAGE, tokens) for tokens in by_size)
    if slope + 4 * (1 + 3 / freedom) * error >= least:
        return ""
    count = f"{max(slope, 0):.0f} prompt tokens for an image"
    return f"about {count}, in {len(requests):,} requests"
