"""OpenING's published scores, and the number of samples of its topics."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.benchmarks.benchmark import PublishedRow
from mmie_tasks.benchmarks.opening.official import METRICS
from mmie_tasks.benchmarks.opening.sample import TOPICS
from mmie_tasks.record.metrics import slug

_SIZES = (
    *(70, 120, 80, 60, 150, 80, 200, 80, 80, 200, 160, 40),
    *(40, 120, 60, 80, 120, 80, 120, 80, 80, 40, 20),
)
TOPIC_SIZES: Mapping[str, int] = dict(zip(map(slug, TOPICS.values()), _SIZES, strict=True))
"""Topic to its number of questions in the official file."""

_SOURCE = (
    "LanceZPF/OpenING 56b663b, Interleaved_Arena/model_score_summaries.csv; {n} answers of other "
    "questions than the other rows (95 %: {low} to {high}), judged by gpt-4o of 2025 or earlier"
)
PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores={
            name: round(10 * score, 1)
            for name, score in zip((*map(slug, METRICS), ""), scores, strict=True)
        },
        source=_SOURCE.format(n=n, low=f"{10 * low:.1f}", high=f"{10 * high:.1f}"),
    )
    for model, n, (low, high), scores in (
        ("Human", 132, (8.36, 8.76), (8.65, 8.86, 8.89, 8.38, 9.03, 8.77, 7.42, 8.57)),
        ("GPT-4o+DALL-E3", 133, (7.93, 8.44), (7.98, 8.15, 8.38, 8.01, 8.77, 8.66, 7.42, 8.20)),
        ("Gemini1.5+Flux", 133, (6.91, 7.55), (7.03, 6.98, 7.33, 7.26, 7.98, 7.58, 6.48, 7.23)),
        ("SEED-X", 155, (5.43, 6.24), (5.77, 5.72, 5.72, 6.07, 7.03, 5.65, 4.92, 5.84)),
        ("Anole", 166, (5.40, 6.10), (5.06, 4.90, 5.81, 6.02, 6.91, 6.27, 5.28, 5.75)),
        ("SEED-LLaMA", 148, (4.84, 5.54), (4.59, 4.43, 5.13, 5.50, 6.50, 5.59, 4.61, 5.19)),
        ("Emu2", 159, (4.60, 5.33), (4.69, 4.58, 5.03, 5.24, 6.12, 4.76, 4.31, 4.96)),
        ("GILL", 156, (4.23, 4.88), (4.11, 4.21, 4.35, 5.01, 5.99, 4.33, 3.88, 4.55)),
        ("Show-o", 156, (4.12, 4.73), (3.76, 4.04, 4.33, 4.79, 5.78, 4.37, 3.83, 4.41)),
        ("MiniGPT-5", 142, (3.81, 4.43), (3.63, 3.56, 4.10, 4.50, 5.51, 3.91, 3.61, 4.12)),
        ("NExT-GPT", 142, (3.60, 4.29), (3.61, 3.32, 3.85, 4.25, 5.35, 3.89, 3.35, 3.95)),
    )
)
"""The table of the repository, in percent of full marks; the intervals are our own recomputation.
"""
