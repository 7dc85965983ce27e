"""The output of a writer: as a text with tokens, and a text as the output that the runner gets."""

from __future__ import annotations

import json

from lmms_eval.api.instance import GenerationResult, TokenCounts, unwrap_generation_output

from mmie_tasks.answers.failures import NO_REPLY
from mmie_tasks.interleaved.text_files import WrittenText


def text_of(output: object) -> WrittenText:
    """The text of a writer's output, in which a null reply is named."""
    text, tokens = (None, None) if output is None else unwrap_generation_output(output)
    if text is None:
        text = NO_REPLY
    elif not isinstance(text, str):
        text = json.dumps(text, default=str)
    return WrittenText(text=text, tokens=tokens and tokens.to_dict())


def output_of(written: WrittenText) -> object:
    """A text as the runner gets it."""
    if written.tokens is None:
        return written.text
    return GenerationResult(text=written.text, token_counts=TokenCounts(**written.tokens))
