"""Pictures of diffusers' pipelines: the model's files, what is refused, the same bytes every time."""

from __future__ import annotations

import json
from pathlib import Path

from support.tiny_pipeline import write_tiny_pipeline


def test_a_tiny_pipeline_has_the_layout_of_diffusers(tmp_path: Path) -> None:
    folder = write_tiny_pipeline(tmp_path / "tiny")
    index = json.loads((folder / "model_index.json").read_text())
    assert index["_class_name"] == "StableDiffusionPipeline"
    assert (folder / "unet" / "diffusion_pytorch_model.safetensors").is_file()
    assert not [*folder.rglob("*.bin")]
