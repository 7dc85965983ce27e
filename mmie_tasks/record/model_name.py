"""The tested model of a run, and the run's name in last lines, tables and reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_MODEL = re.compile(r"(?:^|,)(?:pretrained|model|model_version|path)=([^,]+)")


def model_name(model: object, model_args: object, saved_name: object = "") -> str:
    """The tested model: a name on the Hub or a server, a path, or else its type in lmms-eval.

    Args:
        model: ``--model``.
        model_args: ``--model_args``, a text or, from a file for ``--config``, a mapping.
        saved_name: ``model_name`` of lmms-eval's results, after which it names their folder; empty
            if it found none in the arguments.

    >>> model_name("qwen2_5_vl", "pretrained=Qwen/Qwen2.5-VL-7B-Instruct,max_pixels=1")
    'Qwen/Qwen2.5-VL-7B-Instruct'
    >>> model_name("qwen2_5_vl", {"pretrained": "/models/a"}), model_name("mine", None)
    ('/models/a', 'mine')
    """
    if saved_name:
        return str(saved_name)
    if isinstance(model_args, Mapping):
        model_args = ",".join(f"{name}={value}" for name, value in model_args.items())
    match = _MODEL.search(str(model_args))
    return match[1] if match else str(model)


def model_of_results(results: Mapping[str, object]) -> str:
    """The tested model of the contents of a results file; empty if they name none."""
    config = results.get("config")
    config = config if isinstance(config, Mapping) else {}
    return model_name(
        config.get("model") or "", config.get("model_args"), results.get("model_name")
    )


def run_name(model: str) -> str:
    """The name of a run of a tested model: the last part of a path or of a name on the Hub.

    >>> run_name("Qwen/Qwen2.5-VL-7B-Instruct"), run_name("/models/a/"), run_name("gpt-4o")
    ('Qwen2.5-VL-7B-Instruct', 'a', 'gpt-4o')
    """
    return Path(model).name
