"""Cached replies: one by number, and hypothesis strategies for any."""

import hashlib
from pathlib import Path

from hypothesis import strategies as st

from mmie_tasks.judges.cache_file import CachedReply, CacheFile, export_line
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.signature import Signature
from support.judges import SIGNATURE

_SIGNATURE = str(Signature.of_judges([SIGNATURE]))
any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates and NUL, too
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
    text=any_text | st.text("4 .é"),
    model=any_text,
    usage=_usages,
    finish=st.sampled_from(["stop", "length"]),
)
cached_replies = st.builds(
    CachedReply,
    signature=st.text(),
    request_key=st.binary(max_size=8).map(lambda content: hashlib.sha256(content).hexdigest()),
    reply=any_reply,
    time_s=_counts,
)


def cached_reply(
    number, text=None, *, signature=_SIGNATURE, model="drawn-1", time_s=1_700_000_000, cost_usd=0.25
):
    usage = Usage(input_tokens=7, output_tokens=3, cost_usd=cost_usd)
    return CachedReply(
        signature=signature,
        request_key=hashlib.sha256(str(number).encode()).hexdigest(),
        reply=JudgeReply(text=text or f"text {number}", model=model, usage=usage),
        time_s=time_s,
    )


def jsonl(path, *records):
    path.write_text("".join(export_line(record) for record in records))
    return path


def cached_judge(judge, file):
    judge.cache = CacheFile(file) if isinstance(file, Path) else file
    return judge
