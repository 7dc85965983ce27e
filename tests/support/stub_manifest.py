"""What an installed package would say about the stub model; read by the runner in a subprocess."""

from lmms_eval.models.registry_v2 import ModelManifest

STUB = ModelManifest(model_id="stub", chat_class_path="support.stub_model.StubChat")
