"""``mmie-tasks export opening``: a run as the file that the official summary reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from mmie_tasks.benchmarks.export_run import exported_run
from mmie_tasks.benchmarks.opening import official
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.record.record import BadRecord, Line, Record

FILE = "gpt-score_results.json"


def run_export(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export opening ARGUMENTS``; returns what to print."""
    run = exported_run(
        "opening",
        arguments,
        description=f"Write the judge's replies of a run as `{FILE}`, which the official "
        "`summarize_GPT_scores.py` reads below `Interleaved_Arena/`. It overwrites that file.",
        output="the file, or its folder",
        read=_record_of_one_judge,
    )
    model = {"id": "0", "name": run.model}
    values = {sample_id: official_value(record) for sample_id, record in run.records.items()}
    entries = [
        {"data_id": sample_id, "model": model, "score": value}
        for sample_id, value in values.items()
        if value is not None
    ]
    target = run.output / FILE if run.output.is_dir() else run.output
    with atomic_write(target) as part:
        part.write_text(json.dumps(entries, ensure_ascii=False, indent=4), encoding="utf-8")
    samples = counted(len(values), "sample")
    return f"Replies to {len(entries)} of {samples} of {run.model} written to `{target}`."


def _record_of_one_judge(line: Line) -> Record:
    record = Record.of_line(line)
    if len(record.judgements) > 1:
        raise BadRecord("several judges scored it: export a run with one, as the official table")
    return record


def official_value(sample: Record) -> object | None:
    """The JSON of a sample's last reply; None if the official summary cannot read it."""
    if not sample.replies:
        return None
    first, last = sample.replies[0].text, sample.replies[-1].text
    text = last if official.asks_again(first) else first
    scores = official.read_scores(text)
    is_readable = not isinstance(scores, Unscored) or scores.reason == "left_out"
    value: object = json.loads(text) if is_readable else None
    return value
