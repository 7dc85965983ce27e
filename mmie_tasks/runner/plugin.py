"""The entry point through which lmms-eval loads this package.

It is in the group ``lmms_eval.models``, the only one that lmms-eval 0.7.3 loads
(``models/registry_v2.py:139``), however an evaluation is started. If lmms-eval adds a group for
tasks one day, only the folder ``runner`` changes.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.runner.post_import import after_import
from mmie_tasks.runner.wrap import wrap_once

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest


def manifests() -> list[ModelManifest]:
    """The entry point: install the hooks and return the manifests of our models.

    They are chat models, for which the runner opens no image.

    Raises:
        SystemExit: Something of ours failed. The runner would log any other exception, and go on
            without our models and hooks (``models/__init__.py:233``).
    """
    from mmie_tasks.core.errors import MmieTasksError

    try:
        install_hooks()
        return _manifests()
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None
    except Exception as error:  # noqa: BLE001 - our own: the runner would go on without us
        traceback.print_exc()
        raise SystemExit(
            f"mmie-tasks could not be loaded: {type(error).__name__}: {error}\n\n"
            "hint: report it with the lines above; without mmie-tasks installed, lmms-eval runs "
            "as before"
        ) from None


def _manifests() -> list[ModelManifest]:
    from lmms_eval.models.registry_v2 import ModelManifest

    predictions = "mmie_tasks.runner.predictions.Predictions"
    chat_images = "mmie_tasks.runner.chat_images.ChatImages"
    return [
        ModelManifest("predictions", chat_class_path=predictions),
        ModelManifest("chat_images", chat_class_path=chat_images),
    ]


def install_hooks() -> None:
    """Add our tasks and launchers to the runner after its own; its log has no colours in pipes."""
    wrap_once(logger, "add", _colour_terminals)
    after_import("lmms_eval.tasks", _register_tasks)
    after_import("lmms_eval.llm_judge.launcher", _add_launchers)


def _colour_terminals(add: Callable[..., int]) -> Callable[..., int]:
    """Wrap loguru's ``add``: the runner asks for colours in pipes and files, too
    (``__main__.py:515``); loguru's own default is terminals, or ``LOGURU_COLORIZE``.
    """

    @functools.wraps(add)
    def add_sink(*args: object, **options: object) -> int:
        options.pop("colorize", None)
        return add(*args, **options)

    return add_sink


# Every start of the runner loads this module, so these functions import late.
def _register_tasks(tasks: ModuleType) -> None:
    from mmie_tasks.runner.registration import register_tasks

    register_tasks(tasks)


def _add_launchers(launcher: ModuleType) -> None:
    from mmie_tasks.runner.launchers import add_launchers

    add_launchers(launcher)
