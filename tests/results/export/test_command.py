from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logged_runs import DATE

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.results.export.command import run

WHO = ("--model", "lab/model", "--organization", "A lab", "--relationship", "other")
EXPORTS = pytest.mark.parametrize(
    "words", [pytest.param(("hub",), id="hub"), pytest.param(("every-eval-ever", *WHO), id="eee")]
)


@EXPORTS
def test_a_run_without_logged_samples_is_an_error_that_names_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    saved = {"results": {"mmie": {"official,none": 50.0}}, "model_name": "model"}
    (tmp_path / f"{DATE}_results.json").write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(AnswersUnusable) as caught:
        run([*words, str(tmp_path), "-o", str(tmp_path)], {})
    assert str(tmp_path) in str(caught.value)
    assert "--log_samples" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [f"{DATE}_results.json"]
