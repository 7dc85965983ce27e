"""What lmms-eval is told when it starts; the model itself is imported only where it is used."""

from lmms_eval.models.registry_v2 import ModelManifest

DRAWING = ModelManifest(model_id="drawing", chat_class_path="drawing_model.Drawing")
