"""``mmie-tasks export opening``: runs as the file that the official summary reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.benchmarks.export_run import export_parser, named_runs, records_of
from mmie_tasks.benchmarks.opening import official
from mmie_tasks.benchmarks.opening.record import OpeningRecord
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.record.record import BadRecord, Line, read_record

FILE = "gpt-score_results.json"


def run_export(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export opening ARGUMENTS``; returns what to print. Invalid arguments end the
    process with status 2, as argparse does.
    """
    parser = export_parser(
        "opening",
        f"Write the judge's replies of runs as `{FILE}`, which the official "
        "`summarize_GPT_scores.py` reads below `Interleaved_Arena/`. It overwrites that file.",
        "the file, or its folder",
    )
    parsed = parser.parse_args(arguments)
    entries: list[dict[str, object]] = []
    lines = []
    for number, run in enumerate(named_runs(parsed)):
        records = records_of(
            run.path,
            "opening",
            _record_of_one_judge,
            same=lambda record: record.replies,
            noun="replies",
        )
        values = {sample_id: official_value(record) for sample_id, record in records.items()}
        model = {"id": str(number), "name": run.model}
        scored = [
            {"data_id": sample_id, "model": model, "score": value}
            for sample_id, value in values.items()
            if value is not None
        ]
        entries += scored
        lines.append(f"{run.model}: {len(scored)} of {counted(len(records), 'sample')}")
    target = Path(parsed.output).expanduser()
    target = target / FILE if target.is_dir() else target
    with atomic_write(target) as part:
        part.write_text(json.dumps(entries, ensure_ascii=False, indent=4), encoding="utf-8")
    return f"Replies written to `{target}`: {'; '.join(lines)}."


def _record_of_one_judge(line: Line) -> OpeningRecord:
    record = read_record(OpeningRecord, line)
    if len(record.judgements) > 1:
        raise BadRecord("several judges scored it: export a run with one, as the official table")
    return record


def official_value(sample: OpeningRecord) -> object | None:
    """The JSON of a sample's last reply; None if the official summary cannot read it."""
    if not sample.replies:
        return None
    first, last = sample.replies[0].text, sample.replies[-1].text
    text = last if official.asks_again(first) else first
    scores = official.read_scores(text)
    is_readable = not isinstance(scores, Unscored) or scores.reason == "left_out"
    value: object = json.loads(text) if is_readable else None
    return value
