"""Detects that the tested model and the judge use the same server, or are the same model.

lmms-eval's clients read the same environment variables as the judge `openai`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.access import Access, first_of, read_base_url, server_name
from mmie_tasks.judges.base import Judge

_SDK_VARIABLES = ("OPENAI_BASE_URL",)  # read by the OpenAI SDK if its caller passes no address
_CLIENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("openai", "async_openai", "litellm", "chat_images"), ("OPENAI_API_BASE", *_SDK_VARIABLES)
    ),
    **dict.fromkeys(("gpt4v", "gpt4o_audio", "batch_gpt4"), _SDK_VARIABLES),
}
"""Prefix of client names of lmms-eval 0.7.3, and our own, to the variables with the address, in
order (``models/simple/openai.py:148``, ``models/chat/async_openai.py:93``). The last three read
``OPENAI_API_URL`` but do not use it (``models/simple/gpt4v.py:57``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A tested model on a server.

    Attributes:
        model: The model's name on the server; empty if unknown.
        url: The address without a route.
    """

    model: str
    url: str


def served_model(
    client: str, arguments: Mapping[str, object], environment: Mapping[str, str]
) -> ServedModel | None:
    """The server of an lmms-eval model, from ``base_url`` or its client's variables.

    Returns None at Azure, and if no server is known.

    >>> served_model("async_openai", {"model": "m"}, {"OPENAI_API_BASE": "http://h:8000/v1/"})
    ServedModel(model='m', url='http://h:8000/v1')
    >>> served_model("qwen2_5_vl", {"pretrained": "m"}, {"OPENAI_API_BASE": "http://h:8000/v1/"})
    """
    variables = [names for name, names in _CLIENTS.items() if client.startswith(name)]
    url = unquote(str(arguments.get("base_url") or ""))
    is_azure = str(arguments.get("azure_openai")).lower() in ("true", "1", "yes") or (
        client.startswith("gpt4") and environment.get("API_TYPE") == "azure"
    )
    if is_azure or not (url or variables):
        return None
    try:
        url = read_base_url("tested model", url or first_of(environment, variables[0]))
    except SettingWrong:  # reported later
        return None
    model = arguments.get("model") or arguments.get("model_version") or ""
    return ServedModel(model=str(model), url=url)


def shared_server(judge: Judge, tested: ServedModel | None) -> str:
    """A warning that the judge and the tested model got the same server from one variable; empty
    unless they did.
    """
    access = judge.access
    if tested is None or access is None or not _is_at(tested, access):
        return ""
    if not (variable := access.shared_variable):
        return ""
    judge_at = f"judge {judge.model} at {access.address}"
    return f"{judge_at}, from `{variable}`, which the tested model uses too"


def judges_itself(judge: Judge, tested: ServedModel | None) -> str | None:
    """``MODEL at HOST`` if judge and tested model are the same model at one address, else None.

    A maker's or gateway's prefix of the name is ignored.
    """
    if tested is None or judge.access is None or not _is_at(tested, judge.access):
        return None
    if _plain(tested.model) != _plain(judge.model):
        return None
    return f"{judge.model} at {urlsplit(tested.url).hostname}"


def _is_at(tested: ServedModel, access: Access) -> bool:
    return server_name(tested.url) == server_name(access.base_url)


def _plain(model: str) -> str:
    return model.rpartition("/")[2]
