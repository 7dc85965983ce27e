"""MMIE-Score in this process: the judge of the MMIE paper, on this process's GPU, or a CPU.

`open_judge` takes the options of the judge; the rest of this folder is what it is made of:

* ``checkpoint``: finds, checks and loads the official files, without running any code of theirs
* ``tokenizer``, ``prompt``, ``pixels``: make the model's inputs, exactly as the official code
* ``engine``: many requests at once over a paged key/value cache
* ``memory``, ``devices``: what fits where
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mmie_tasks.judges.base import Judge


def open_judge(
    *,
    model: str | None = None,
    revision: str | None = None,
    device: str = "auto",
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto",
    attention: Literal["auto", "flash", "sdpa"] = "auto",
    max_memory: str | None = None,
    max_rows: int = 64,
    early_stop: bool = False,
    marks: Literal["official", "refuse"] = "official",
    graphs: bool = True,
    environment: Mapping[str, str],
) -> Judge:
    """The judge. Loads nothing yet.

    Args:
        model: A repository on the Hub (by default ``MMIE/MMIE-Score``), or a folder with its
            files; else what ``MMIE_SCORE_MODEL`` names.
        revision: Branch, tag or commit of the repository. By default the commit that ``main`` was
            when it was first used on this machine.
        device: ``auto``, ``cpu``, ``cuda`` (of several processes each takes its own) or
            ``cuda:N``.
        dtype: ``auto`` (bfloat16 on a GPU, float32 on a CPU), ``bfloat16``, ``float16``,
            ``float32``.
        attention: ``auto``, ``flash`` or ``sdpa``.
        max_memory: What the judge may take of its device: ``20GiB``. By default all that is free.
        max_rows: Requests that are computed at once, at most.
        early_stop: End a reply as soon as nothing behind it can change the official score. The
            rest of the text is then missing, also for other readers.
        marks: ``official`` reads the judge's control strings in a judged text (``<image>``,
            ``<|end|>``) as the official code does, and the log counts them; ``refuse`` leaves such
            samples unscored.
        graphs: Capture steps of decoding as CUDA graphs.
        environment: ``MMIE_SCORE_MODEL``, ``LOCAL_RANK``, and what our cache folder depends on.

    Raises:
        JudgeMisconfigured: An option makes no sense.
    """
    from mmie_tasks.judges.mmie_score.checkpoint import DEFAULT_MODEL
    from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
    from mmie_tasks.judges.mmie_score.settings import read_settings

    settings = read_settings(
        model=model,
        max_memory=max_memory,
        max_rows=max_rows,
        environment=environment,
        default_model=DEFAULT_MODEL,
        revision=revision,
        device=device,
        dtype=dtype,
        attention=attention,
        early_stop=early_stop,
        marks=marks,
        graphs=graphs,
    )
    return MmieScoreJudge(settings, environment)
