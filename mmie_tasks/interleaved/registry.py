"""The drawers by name."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core import options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.interleaved.drawer import Drawer

BUILT_IN: Mapping[str, str] = {
    "images": "mmie_tasks.interleaved.server:open_drawer",
    "diffusers": "mmie_tasks.interleaved.pipeline:PipelineDrawer",
}
"""Name to factory, whose keyword arguments are the drawer's options: see `core.options`."""


def open_drawer(choice: str | options.Choice, environment: Mapping[str, str]) -> Drawer:
    """Open a drawer by ``NAME:MODEL``, ``NAME:k=v,k=v`` or its choice; nothing is sent or loaded.

    Raises:
        SettingWrong: There is no such drawer or option, or a value is invalid.
        DrawerMisconfigured: A value makes no sense for the drawer.
    """
    drawer = options.parse_choice(choice, "`t2i`", "drawer") if isinstance(choice, str) else choice
    if (factory := BUILT_IN.get(drawer.name)) is None:
        drawers = valid_names_text(BUILT_IN, drawer.name)
        hint = f"one of {drawers} (as in `t2i=images:model=Qwen/Qwen-Image`)"
        raise SettingWrong(f"There is no drawer `{drawer.name}`.", hint=hint)
    opened: Drawer = options.create("drawer", drawer, options.import_factory(factory), environment)
    return opened
