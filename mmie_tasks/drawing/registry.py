"""The drawers by name."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.choice import parse_choice, read_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.drawing.drawer import Drawer

_NAMES = ("images", "diffusers")


def open_drawer(text: str, environment: Mapping[str, str]) -> Drawer:
    """Open a drawer by ``NAME:MODEL`` or ``NAME:k=v,k=v``; nothing is sent or loaded.

    In the arguments of a model of lmms-eval, which it splits at commas, ``;`` takes their place.

    Raises:
        SettingWrong: There is no such drawer or option, or a value is invalid.
    """
    choice = parse_choice(text.replace(";", ","), "`t2i`", "drawer")
    match choice.name:
        case "images":
            from mmie_tasks.drawing import server

            options = read_options(choice.options, server.ServerOptions, "drawer", "images")
            return server.ImageServer(options, environment)
        case "diffusers":
            from mmie_tasks.drawing import pipeline

            own = read_options(choice.options, pipeline.PipelineOptions, "drawer", "diffusers")
            return pipeline.PipelineDrawer(own, environment)
    hint = f"one of {valid_names_text(_NAMES, choice.name)}, as in `images:gpt-image-2`"
    raise SettingWrong(f"There is no drawer `{choice.name}`.", hint=hint)
