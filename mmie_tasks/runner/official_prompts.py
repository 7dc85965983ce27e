"""Judge prompts that the runner's own tasks hold. Nothing else calls these functions."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.benchmarks.mia_bench.prompts import OfficialTextChanged


def mia_bench(
    instruction: str, components: Sequence[str], weights: Sequence[int], response: str
) -> str:
    """The text with which the runner's ``mia_bench`` asks its judge, as it is.

    From a dict of its own, because ``generate_prompt`` writes into the one it is given. The first
    call imports the runner's task, which takes seconds.

    Raises:
        OfficialTextChanged: This lmms-eval has no such function, or it fails.
    """
    try:
        from lmms_eval.tasks.mia_bench.utils import generate_prompt
    except ImportError as error:
        raise OfficialTextChanged(f"This lmms-eval has no MIA-Bench prompt: {error}.") from error
    doc = {
        "instruction": instruction,
        "components": list(components),
        "component_weight": list(weights),
    }
    try:
        return str(generate_prompt(doc, response))
    except (TypeError, KeyError, IndexError) as error:
        raise OfficialTextChanged(
            f"The runner's MIA-Bench prompt cannot be made: {error!r}."
        ) from error
