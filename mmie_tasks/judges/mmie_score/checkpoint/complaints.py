"""What is said of a checkpoint that cannot be used."""

from __future__ import annotations

from mmie_tasks.judges.base import JudgeMisconfigured

WHOLE = (
    "download the whole repository again (every `*.safetensors` with the index, `config.json`, "
    "`conversation.py` and the tokenizer's files), or point `model=` to another folder"
)
OFFICIAL = (
    "use `model=MMIE/MMIE-Score` or a folder with a copy of it; to judge with another model, "
    "serve it and take the judge `openai`"
)


def unusable(message: str, hint: str = WHOLE) -> JudgeMisconfigured:
    """The error for a checkpoint that is not whole, is damaged, or is of another kind."""
    return JudgeMisconfigured(message, hint=hint)
