"""Registers the model with lmms-eval; the model's module is imported only when it is used."""

from lmms_eval.models.registry_v2 import ModelManifest

DRAWING = ModelManifest(model_id="drawing", chat_class_path="drawing_model.Drawing")
