"""The warning that another model replies than the one that a judge was asked for."""

from __future__ import annotations

from collections.abc import Iterable

from mmie_tasks.core.log import warn
from mmie_tasks.record.answering_model import other_models, shown_model
from mmie_tasks.record.signature import Signature


def warn_of_others(judge: str, models: Iterable[str], address: str = "") -> None:
    """Warn of each other model than that of a judge.

    Args:
        judge: Its signature.
        models: As its replies name them.
        address: Its server's; empty if it is not known.
    """
    signature = Signature.of_judges([judge])
    name = f"`{signature.name}` at {address}" if address else f"`{signature.name}`"
    for model in other_models(signature, models):
        warn(
            f"The judge {name} is answered by another model, `{shown_model(model)}`: its scores "
            "are marked so.",
            hint="choose the model that shall judge with `model=`; the provider may have retired "
            "the name, or its server has other weights",
        )
