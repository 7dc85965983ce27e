"""The warning that a judge's replies name another model than its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mmie_tasks.core.log import warn
from mmie_tasks.record.answering_model import other_models, shown_model
from mmie_tasks.record.signature import Signature


def warn_of_others(judge: Mapping[str, object], models: Iterable[str], address: str = "") -> None:
    """Warn of each model that a judge's replies name and its signature does not."""
    signature = Signature.of_judges([judge])
    name = f"`{signature.name}` at {address}" if address else f"`{signature.name}`"
    for model in other_models(signature, models):
        warn(
            f"The replies of the judge {name} are by `{shown_model(model)}`: the scores are "
            "marked so.",
            hint="choose the model that shall judge with `model=`; the provider may have retired "
            "the name, or its server has other weights",
        )
