"""Drawers by name, and their options: see `core.options`. To add one: a module here and an entry in `BUILT_IN`."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core import options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.drawing.base import Drawer

BUILT_IN: Mapping[str, str] = {
    "images": "mmie_tasks.drawing.server:open_drawer",
    "diffusers": "mmie_tasks.drawing.pipeline:open_drawer",
}
"""Name to factory, as ``module:function``."""


def open_drawer(choice: str, environment: Mapping[str, str]) -> Drawer:
    """Open a drawer; it draws, sends and loads nothing yet.

    Args:
        choice: ``NAME:MODEL`` or ``NAME:k=v,k=v``, as the user typed it after ``t2i=``.
        environment: Holds keys and addresses of servers.

    Raises:
        SettingWrong: No such drawer or option, or an unusable value; lists the valid ones.
        DrawerMisconfigured: A value makes no sense for the drawer.
    """
    drawer = options.parse_choice(choice, "`t2i`", "drawer")
    if (factory := BUILT_IN.get(drawer.name)) is None:
        hint = f"one of {options.listed(BUILT_IN, drawer.name)}, as in `t2i=images:model=gpt-image-1`"
        raise SettingWrong(f"There is no drawer `{drawer.name}`.", hint=hint)
    opened: Drawer = options.create("drawer", drawer, options.import_factory(factory), environment)
    return opened
