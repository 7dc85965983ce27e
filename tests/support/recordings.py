"""Replies as they are kept: one by number, and any at all."""

from __future__ import annotations

import hashlib

from hypothesis import strategies as st

from mmie_tasks.judges.base import JudgeReply, Usage
from mmie_tasks.judges.cache_store import Recorded, to_line
from support.telling_judge import SIGNATURE

any_text = st.text(st.characters(exclude_categories=()))  # half characters and NUL, too
_counts = st.integers(0, 10**9)
_usages = st.builds(
    Usage,
    input_tokens=_counts,
    output_tokens=_counts,
    reasoning_tokens=_counts,
    cost_usd=st.none() | st.floats(0, 1e6, allow_nan=False),
)
any_reply = st.builds(
    JudgeReply,
    text=any_text,
    model=any_text,
    usage=_usages,
    finish=st.sampled_from(["stop", "length"]),
)
recordings = st.builds(
    Recorded,
    signature=any_text,
    request=st.binary(max_size=8).map(lambda data: hashlib.sha256(data).hexdigest()),
    reply=any_reply,
    time=_counts,
)


def some_reply(
    number, text=None, *, signature=SIGNATURE, model="drawn-1", time=1_700_000_000, cost_usd=0.25
) -> Recorded:
    usage = Usage(input_tokens=7, output_tokens=3, cost_usd=cost_usd)
    return Recorded(
        signature=signature,
        request=hashlib.sha256(str(number).encode()).hexdigest(),
        reply=JudgeReply(text=text or f"text {number}", model=model, usage=usage),
        time=time,
    )


def jsonl(path, *records: Recorded):
    path.write_text("".join(to_line(each) for each in records))
    return path
