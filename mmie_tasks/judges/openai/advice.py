"""What is said of a judge that cannot be used as it is set up, and what helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.openai.complaints import Complaint
from mmie_tasks.judges.openai.settings import Settings, shown

if TYPE_CHECKING:
    from mmie_tasks.judges.openai.trouble import Trouble

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was found, and a hint."""

    found: str
    hint: str


def missing_key(settings: Settings) -> JudgeMisconfigured | None:
    """The error where a key is needed and there is none."""
    if settings.api_key is not None or not settings.needs_key:
        return None
    names = ", ".join(f"`{name}`" for name in settings.key_names)
    place = shown(settings.base_urls[0])
    return JudgeMisconfigured(
        f"The judge `{settings.model}` at {place} needs a key, and none is set in {names}.",
        hint=f"`export {settings.key_names[-1]}=...`, or point `base_url=` at a server of your own",
    )


def advice_on(trouble: Trouble, settings: Settings, place: str, listed: Sequence[str]) -> Advice:
    """What to say of a server that was asked and did not do.

    Args:
        trouble: What came instead.
        settings: How it was asked.
        place: Its address, as it may be shown.
        listed: The models it says it has.
    """
    asked = f"The judge `{settings.model}` at {place}"
    if (said := trouble.said) is None:
        found = f"{asked} is not reachable: {trouble.why}."
        return Advice(found=found, hint="start it, or correct `base_url=`; most end in `/v1`")
    found = f"{asked} cannot be used: it answered {trouble.why.rstrip('.')}."
    if said.of_model:
        return _on_model(found, settings.model, listed)
    return Advice(found=found, hint=_hint(said, settings))


def _on_model(found: str, model: str, listed: Sequence[str]) -> Advice:
    close = get_close_matches(model, listed, n=_MOST_NAMED, cutoff=0.4) or listed[:_MOST_NAMED]
    if not close:
        return Advice(found=found, hint="name a model this server has: `model=...`")
    names = ", ".join(f"`{name}`" for name in close)
    return Advice(found=f"{found} It has {names}.", hint=f"`model={close[0]}`")


def _hint(said: Complaint, settings: Settings) -> str:
    if said.of_quota or said.status == 402:
        return "nothing is left of the account's money: top it up, or use the key of another one"
    if said.status in (401, 403):
        names = ", ".join(f"`{name}`" for name in settings.key_names)
        return f"correct the key; the first of these that is set is used: {names}"
    if said.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if said.status >= 500:
        return "look at the server, or try again later"
    return "change the option it complains of: `model=`, `temperature=`, `api_version=`"
