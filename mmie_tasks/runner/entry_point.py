"""The entry point through which lmms-eval loads this package, and what it changes first.

It is in the group ``lmms_eval.models``, the only one that lmms-eval 0.7.3 loads, however an
evaluation is started. All changes are in one table: `plugin.CHANGES`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest

WITHOUT_TASKS = "models"
"""The command that lists models, and needs no tasks, whose import takes seconds."""


def manifests() -> list[ModelManifest]:
    """The entry point: install our changes and return the manifests of our models.

    They are chat models, for which the runner opens no image.

    Raises:
        SystemExit: Something of ours failed. The runner would log any other exception, and go on
            without our models and hooks (``models/__init__.py:233``).
    """
    from mmie_tasks.core.errors import MmieTasksError

    try:
        if sys.argv[1:2] != [WITHOUT_TASKS]:
            install()
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

    return [
        ModelManifest("predictions", chat_class_path="mmie_tasks.runner.predictions.Predictions"),
        ModelManifest("chat_images", chat_class_path="mmie_tasks.runner.chat_images.ChatImages"),
    ]


def install() -> None:
    """Add our tasks and launchers to the runner after its own; its log has no colours in pipes."""
    from mmie_tasks.runner import launchers, registration
    from mmie_tasks.runner.plugin import wrap

    wrap("loguru:logger.add", _colour_terminals)
    launchers.add_launchers()
    wrap("lmms_eval.tasks:TaskManager.initialize_tasks", registration.index_all_tasks)


def _colour_terminals(add: Callable[..., int]) -> Callable[..., int]:
    """Ask for no colours, as the runner does in pipes and files, too (``__main__.py:515``);
    loguru's own default is terminals, or ``LOGURU_COLORIZE``.
    """

    def add_sink(*args: object, **options: object) -> int:
        options.pop("colorize", None)
        return add(*args, **options)

    return add_sink
