"""What the runner is told of our models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest


def predictions_manifest() -> ModelManifest:
    """The entry of ``--model predictions``. A chat model: the runner opens no image for it."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(
        model_id="predictions",
        chat_class_path="mmie_tasks.runner.predictions.Predictions",
    )
