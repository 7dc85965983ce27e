"""The entry point by which vLLM finds MMIE-Score: registers names without importing a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.mmie_score.vllm import NAME

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_MODEL = "mmie_tasks.judges.mmie_score.vllm.model"
_FRONT = "mmie_tasks.judges.mmie_score.vllm.front"
ARCHITECTURE = "MmieScoreModel"
TEXT_ARCHITECTURE = "MmieScorePhi3"


def register() -> None:
    """Register model, ``config.json``, tokenizer and renderer by name; a second call changes
    nothing.

    vLLM calls this in each of its processes, whatever model it serves. Returns if a version lacks
    the imported names, since an error would end a process of the tested model.
    """
    try:
        from vllm import ModelRegistry
        from vllm.renderers.registry import RENDERER_REGISTRY
        from vllm.tokenizers.registry import TokenizerRegistry
        from vllm.transformers_utils.config import get_config_parser, register_config_parser
        from vllm.transformers_utils.config_parser_base import ConfigParserBase
    except ImportError:
        return

    class Parser(ConfigParserBase):  # type: ignore[misc]
        def parse(
            self, model: str | Path, *_: object, **__: object
        ) -> tuple[dict[str, object], PreTrainedConfig]:
            from mmie_tasks.judges.mmie_score.vllm.model import parse_config

            return parse_config(Path(model))

    try:
        get_config_parser(NAME)
    except ValueError:
        register_config_parser(NAME)(Parser)
        TokenizerRegistry.register(NAME, _FRONT, "MmieScoreTokenizer")
        RENDERER_REGISTRY.register(NAME, _FRONT, "MmieScoreRenderer")
        for architecture in (ARCHITECTURE, TEXT_ARCHITECTURE):
            ModelRegistry.register_model(architecture, f"{_MODEL}:{architecture}")
