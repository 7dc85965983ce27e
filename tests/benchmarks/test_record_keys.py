"""The keys of the records of every benchmark, in their order, and how verdicts are written: logs
keep them.
"""

import json

import pytest

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts

VERDICTS = Verdicts(official=Scored(4, "4"), robust=Unscored("unparsed", "no score"))
KEYS = "id official robust shares judgements signature facts"
OWN = {
    "mia_bench": (
        "type categories weights contradictory components instruction image",
        {"type": "basic", "categories": ["math"], "weights": [10]},
    ),
    "milebench": (
        "dataset task rule level gold choices images",
        {"dataset": "DocVQA", "task": "S-4", "rule": "rouge", "level": "few"},
    ),
    "mmie": ("question gold answer index category field", {"category": "SA"}),
    "opening": (
        "question gold answer topic subtask",
        {"topic": "storybook_creation", "subtask": "a"},
    ),
}


@pytest.mark.parametrize("entry", [e for e in entries() if e.is_ours], ids=lambda e: e.name)
def test_a_record_has_these_keys_in_this_order(entry):
    own, fields = OWN[entry.name]
    record = entry.load().record.of(VERDICTS, id="1", **fields)
    written = json.loads(json.dumps(record.model_dump()))
    assert list(written) == [*KEYS.split(), *own.split()]
    assert written["official"] == {"points": 4, "reading": "4"}
    assert written["robust"] == {"reason": "unparsed", "detail": "no score"}
