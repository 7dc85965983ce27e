"""MMIE's published scores, and the number of samples of its tasks."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.benchmarks.benchmark import PublishedRow

CATEGORY_SIZES: Mapping[str, int] = {"SA": 5_005, "PBL": 11_482, "MSR": 3_616}
"""Category to its number of samples (index.html of the project's site, 2287883)."""

_TOTAL = sum(CATEGORY_SIZES.values())
PUBLISHED_SAMPLES: Mapping[str, int] = {
    "mmie": _TOTAL,
    "mmie_1k": _TOTAL,
    "mmie_step": _TOTAL,
    **{f"mmie_{name.lower()}": n_samples for name, n_samples in CATEGORY_SIZES.items()},
}
"""Task to the number of samples that its published scores cover."""

PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores=dict(zip(("SA", "PBL", "MSR", ""), percents, strict=True)),
        source="MMIE's project site, mmie-bench.github.io",
    )
    for model, percents in {
        "MiniGPT-5": (47.63, 55.12, 42.17, 50.92),
        "EMU-2": (39.65, 46.12, 50.75, 45.33),
        "GILL": (46.72, 57.57, 39.33, 51.58),
        "Anole": (48.95, 59.05, 51.72, 55.22),
        "GPT-4o + SD-XL": (56.12, 73.25, 53.67, 65.47),
        "Gemini-1.5 + SD-XL": (49.43, 71.85, 60.05, 64.15),
        "LLaVA-34b + SD-XL": (55.97, 74.60, 47.28, 65.05),
        "Qwen-VL-70b + SD-XL": (52.58, 73.57, 55.63, 65.12),
    }.items()
)
"""The table of the site, in percent of full marks."""
