"""The judge request of MIA-Bench, and its prompt."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import prompts
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.judges.base import JudgeRequest


@functools.cache
def prompt_maker() -> prompts.PromptMaker:
    """The prompt maker in the installed runner's file, which is not imported.

    Raises:
        OfficialTextChanged: There is no such file or function.
    """
    spec = find_spec("lmms_eval")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "tasks" / "mia_bench" / "utils.py"
        if path.is_file():
            return prompts.runner_prompt(path.read_text(encoding="utf-8"))
    raise prompts.OfficialTextChanged("This lmms-eval has no MIA-Bench prompt.")


def check_prompt() -> None:
    """Checks that the official prompt can be made from the installed runner.

    Raises:
        DataBroken: The runner's text is missing or has changed.
    """
    try:
        prompts.check(prompt_maker())
    except prompts.OfficialTextChanged as error:
        raise DataBroken(str(error), hint=prompts.HINT) from error


def request_for(sample: Sample, answer: str, images: Sequence[Path]) -> JudgeRequest:
    """The official text with the answer, then the images, as in the notebook (cell 11)."""
    text = prompt_maker()(sample.instruction, sample.components, sample.weights, answer)
    parts: tuple[str | Path, ...] = (prompts.official(text), *images)
    return JudgeRequest(parts=parts, max_tokens=prompts.MAX_TOKENS)
