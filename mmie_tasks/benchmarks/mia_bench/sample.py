"""Samples of MIA-Bench: an instruction and its graded components.

Source: ``instruction_benchmark_all.json`` of apple/ml-mia-bench at 5422852d, and arXiv 2407.01509.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Field, StrictInt, model_validator

from mmie_tasks.benchmarks.data_row import DataRow, DataWords, read_row

Category: TypeAlias = Literal[
    "describe",
    "length_limit",
    "mention",
    "linguistics",  # genre in the paper
    "grammar",
    "math",
    "perspective",
    "textual",  # OCR in the paper
]
Difficulty: TypeAlias = Literal["basic", "intermediate", "advanced", "creative", "complex"]

CATEGORIES: tuple[str, ...] = get_args(Category)
"""Categories of components, as released."""

TYPES: tuple[str, ...] = get_args(Difficulty)
"""Difficulties of instructions, as released."""

_CONTRADICTORY = frozenset(
    ("26e2998bd2be", "aa1db91bb293", "c0b02f394449", "8168db2ba934", "3124769b79ad")
)
"""The `fingerprint` of rows 30, 101, 133, 262 and 266 of the official file: three have the
components of another prompt, two another count.
"""


class MiaSample(DataRow):
    """An instruction with its components.

    Attributes:
        id: The row in the official file, from 0, as text.
        instruction: The instruction as released, with the stray spaces of the official prompt.
        type: One of `TYPES`.
        components: 1 to 5 graded parts of the instruction, as released (official, cell 2).
        weights: Full marks of each component, in points: 10 in sum, or 8 in two rows.
        categories: One of `CATEGORIES` for each component; repetitions are possible.
    """

    model_config = ConfigDict(populate_by_name=True)

    id: DataWords
    instruction: DataWords
    type: Difficulty
    components: Annotated[tuple[DataWords, ...], Field(min_length=1, max_length=5)]
    weights: tuple[Annotated[StrictInt, Field(ge=1)], ...] = Field(alias="component_weight")
    categories: tuple[Category, ...] = Field(alias="component_type")

    @model_validator(mode="after")
    def _one_for_each_component(self) -> MiaSample:
        if not len(self.components) == len(self.weights) == len(self.categories):
            raise ValueError(
                "`components`, `component_weight` and `component_type` differ in length"
            )
        return self

    @property
    def contradictory(self) -> bool:
        """Whether the components contradict the instruction, in any copy of the official file."""
        return fingerprint(self.instruction, self.components) in _CONTRADICTORY

    @classmethod
    def from_doc(cls, doc: Mapping[str, object]) -> MiaSample:
        """Reads a row of the dataset that lmms-eval iterates.

        Raises:
            BadSample: A field is missing or of the wrong kind, or components, weights and
                categories differ in number.
        """
        return read_row(cls, doc, "MIA-Bench")


def fingerprint(instruction: str, components: Sequence[str]) -> str:
    """Twelve hex digits of the SHA-256 of a sample's texts, unique among the 400 samples.

    Each run of white space counts as one space, so a reformatted copy has the same fingerprint.
    """
    texts = (" ".join(text.split()) for text in (instruction, *components))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
