"""MMRB2: people's verdicts on pairs of interleaved answers.

It is not part of this package: it is for non-commercial use only. It is downloaded when it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import TypeAdapter

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.quality.judge_exam.mmrb2_files import MMRB2_FILES, MMRB2_HINT, Mmrb2File, Mmrb2Row
from mmie_tasks.quality.judge_exam.mmrb2_hub import mmrb2_from_hub
from mmie_tasks.quality.judge_exam.published_files import (
    REPAIR,
    Contents,
    parsed_file,
    parts_in_order,
    unique_pairs,
    with_answers,
)
from mmie_tasks.quality.judge_exam.verdict_set import Pair, VerdictSet

MMRB2_VERDICTS_SHA256 = "c422695e515b4b59eba8dcfe6bf45029e3e1c782480efb6a7e2cbbb06af6f5db"
"""Of ids and people's verdicts in the last of `MMRB2_FILES`, in facebookresearch/MMRB2 at
7ff0552cf298441af5ebbabea634b682ef04afee; see `verdicts_sha256`."""


def load_mmrb2(folder: Path | None, environment: Mapping[str, str]) -> VerdictSet:
    """MMRB2's verdicts on interleaved answers.

    Args:
        folder: What ``benchmark/build_from_hf.py`` of its repository has written, or that
            repository, which has no questions and images, or its file with the verdicts; None to
            download.
        environment: Read: ``MMRB2_REVISION`` (branch, tag or commit; by default ``main``),
            ``HF_HUB_OFFLINE``, and what `mmie_tasks.core.files.cache_dir` reads.

    Raises:
        DataMissing: A file is missing, or could not be downloaded.
        DataBroken: A file is not in the published layout.
        SettingWrong: ``MMRB2_REVISION`` cannot be a revision.
    """
    if folder is None:
        hub = mmrb2_from_hub(environment)
        paths, location = sorted(hub.folder.glob("interleaved/*/interleaved.json")), hub.revision
    else:
        candidates = [folder, *(folder / name for name in MMRB2_FILES)]
        paths = [next((file for file in candidates if file.is_file()), candidates[-1])]
        location = f"`{paths[0]}`"
    hint, file_type = MMRB2_HINT if folder else REPAIR, TypeAdapter(Mmrb2File)
    rows = {}
    pairs = []
    for path in paths:
        for row in parsed_file(path, read_data_file(path, hint), file_type).pairs:
            rows[row.id] = (row, path.parent)
            pairs.append(_pair(row))
    is_published = verdicts_sha256(pairs) == MMRB2_VERDICTS_SHA256
    verdict_set = VerdictSet(
        name="mmrb2",
        title="MMRB2: pairs of interleaved answers, each rated by three experts",
        licence="CC BY-NC 4.0 (non-commercial use only)",
        source=f"{location} ({'' if is_published else 'not '}the published verdicts)",
        pairs=unique_pairs(location, pairs),
        has_answers=False,
        both_orders=True,
    )
    if all(row.prompt_content is None for row, _ in rows.values()):
        return verdict_set
    return with_answers(verdict_set, lambda pair: _contents(*rows[pair.id]))


def verdicts_sha256(pairs: Iterable[Pair]) -> str:
    """The SHA-256, in hex, of the pairs' ids and people's verdicts, in any order."""
    verdicts = sorted((pair.id, pair.winner) for pair in pairs)
    return hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()


def _pair(row: Mmrb2Row) -> Pair:
    a, b = row.response_a.response_content, row.response_b.response_content
    question = [str(value) for _, value in sorted(row.prompt_metadata.items())] or [row.id]
    return Pair(
        id=row.id,
        sample="/".join((row.prompt_source, *question)),
        subset=row.prompt_source,
        winner=row.chosen,
        is_tie=False,
        votes=tuple("A" if rating > 3 else "B" for rating in row.human_annotations),
        models=(row.response_a.model_name, row.response_b.model_name),
        question=(),
        answers=(parts_in_order(a, None), parts_in_order(b, None)),
        images=(sum(kind == "image" for kind, _ in a), sum(kind == "image" for kind, _ in b)),
    )


def _contents(row: Mmrb2Row, folder: Path) -> Contents:
    contents = (row.prompt_content or (), row.response_a.response_content)
    question, a = (parts_in_order(content, folder) for content in contents)
    return question, (a, parts_in_order(row.response_b.response_content, folder))
