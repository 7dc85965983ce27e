"""Where the runner meets us: the entry point of the group ``lmms_eval.models``.

That group is the only one lmms-eval 0.7.3 loads (``models/registry_v2.py:139``), and it loads it
for every way of starting an evaluation. When the runner one day has a group for tasks, only this
package ``runner`` changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmie_tasks.runner.launchers import add_launchers
from mmie_tasks.runner.post_import import after_import
from mmie_tasks.runner.registration import register_tasks

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest


# What the runner is told of our models.


def predictions_manifest() -> ModelManifest:
    """The entry of ``--model predictions``. A chat model: the runner opens no image for it."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(
        model_id="predictions",
        chat_class_path="mmie_tasks.runner.predictions.Predictions",
    )


def install_hooks() -> None:
    """See to it that the runner knows our tasks and launchers once it has imported its own."""
    after_import("lmms_eval.tasks", register_tasks)
    after_import("lmms_eval.llm_judge.launcher", add_launchers)


def manifests() -> list[ModelManifest]:
    """The entry point: install the hooks and return the models we add."""
    install_hooks()

    return [predictions_manifest()]
