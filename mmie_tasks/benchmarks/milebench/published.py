"""MileBench's published scores, and the sizes of its tasks."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.benchmarks.benchmark import PublishedRow
from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASKS, VARIANT_OF, datasets_in

DATASET_SIZES: Mapping[str, int] = {
    **dict.fromkeys(DATASETS, 200),
    "TextNeedleInAHaystack": 320,
    "ImageNeedleInAHaystack": 320,
    "GPR1200": 600,
}
"""Dataset to number of samples in any variant, at the pinned revision."""

PUBLISHED_SAMPLES: Mapping[str, int] = {
    **{f"milebench_{name}": size for name, size in DATASET_SIZES.items()},
    **{
        task: sum(DATASET_SIZES[name] for name in datasets_in(variant))
        for task, variant in VARIANT_OF.items()
    },
}
"""Task to number of samples."""

_SOURCE = "MileBench's paper, arXiv 2404.18532v2"
_SOURCE_WITHOUT_RETRIEVAL = f"{_SOURCE}; its Diagnostic leaves out I-1, unlike that of other models"
PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores=dict(zip(("real", "diag", *TASKS), map(float, percents.split()), strict=True)),
        source=_SOURCE_WITHOUT_RETRIEVAL if model in ("GPT-4V", "GPT-4o") else _SOURCE,
    )
    for model, percents in {  # real, diag, T-1 to T-4, S-1 to S-5, N-1, N-2, I-1
        "GPT-4o": "60.3 99.4 61.8 56.8 38.0 68.3 85.3 83.3 15.3 47.2 86.5 99.7 99.1 88.8",
        "Gemini 1.5": "54.7 94.5 55.0 54.5 34.0 57.3 73.9 72.7 17.8 44.7 82.5 99.4 96.3 88.0",
        "GPT-4V": "53.0 99.4 51.7 50.1 22.3 58.5 82.8 77.3 11.1 42.4 81.0 99.7 99.1 86.7",
        "Mantis-7B": "47.5 19.9 54.8 49.9 25.3 48.9 65.8 55.5 17.4 31.9 78.0 27.5 0.0 32.2",
        "VILA-7B": "44.4 12.8 40.3 49.1 35.3 49.3 68.1 41.3 12.4 30.7 73.0 25.0 0.3 13.0",
        "Claude 3 Opus": "43.3 65.2 37.7 42.1 21.0 48.6 64.8 59.7 13.3 44.0 58.5 98.1 72.5 25.0",
        "Qwen-VL-Chat-7B": "39.1 37.2 34.7 40.0 22.3 44.6 57.3 52.3 14.3 26.7 59.5 35.3 62.8 13.5",
        "LLaVA-1.5-7B": "38.0 2.1 37.8 45.5 31.5 46.4 50.8 32.0 11.3 24.2 62.5 0.0 0.0 6.2",
    }.items()
)
