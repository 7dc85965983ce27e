"""The drawers by name."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.choice import Choice, parse_choice, read_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.interleaved.drawer import Drawer

BUILT_IN = ("images", "diffusers")


def open_drawer(choice: str | Choice, environment: Mapping[str, str]) -> Drawer:
    """Open a drawer by ``NAME:MODEL``, ``NAME:k=v,k=v`` or its choice; nothing is sent or loaded.

    Raises:
        SettingWrong: There is no such drawer or option, or a value is invalid.
        DrawerMisconfigured: A value makes no sense for the drawer.
    """
    drawer = parse_choice(choice, "`t2i`", "drawer") if isinstance(choice, str) else choice
    match drawer.name:
        case "images":
            from mmie_tasks.interleaved import server

            images = read_options(drawer.options, server.ImageOptions, "drawer", drawer.name)
            return server.open_server(images, environment)
        case "diffusers":
            from mmie_tasks.interleaved import pipeline

            own = read_options(drawer.options, pipeline.PipelineOptions, "drawer", drawer.name)
            return pipeline.PipelineDrawer(own, environment)
    drawers = valid_names_text(BUILT_IN, drawer.name)
    hint = f"one of {drawers} (as in `t2i=images:model=Qwen/Qwen-Image`)"
    raise SettingWrong(f"There is no drawer `{drawer.name}`.", hint=hint)
