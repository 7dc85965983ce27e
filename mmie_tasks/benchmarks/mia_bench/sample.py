"""Samples of MIA-Bench: an instruction and its graded components.

Source: ``instruction_benchmark_all.json`` of apple/ml-mia-bench at 5422852d, and arXiv 2407.01509.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, StrictInt, model_validator

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


class _MiaRow(DataRow):
    id: DataWords
    instruction: DataWords
    type: Difficulty
    components: Annotated[list[DataWords], Field(min_length=1, max_length=5)]  # official, cell 2
    component_weight: list[Annotated[StrictInt, Field(ge=1)]]
    component_type: list[Category]

    @model_validator(mode="after")
    def _one_for_each_component(self) -> _MiaRow:
        for name in ("component_weight", "component_type"):
            if len(getattr(self, name)) != len(self.components):
                raise ValueError(f"`{name}` has another length than `components`")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An instruction with its components.

    Attributes:
        id: The row in the official file, from 0, as text.
        instruction: The instruction as released, with the stray spaces of the official prompt.
        type: One of `TYPES`.
        components: 1 to 5 graded parts of the instruction, as released.
        weights: Full marks of each component, in points.
        categories: One of `CATEGORIES` for each component; repetitions are possible.
    """

    id: str
    instruction: str
    type: str
    components: tuple[str, ...]
    weights: tuple[int, ...]
    categories: tuple[str, ...]

    @property
    def full_marks(self) -> int:
        """The sum of the weights in points: 10, or 8 in two rows."""
        return sum(self.weights)

    @property
    def contradictory(self) -> bool:
        """Whether the components contradict the instruction, in any copy of the official file."""
        return fingerprint(self.instruction, self.components) in _CONTRADICTORY

    @classmethod
    def from_doc(cls, doc: Mapping[str, object]) -> Sample:
        """Reads a row of the dataset that lmms-eval iterates.

        Raises:
            BadSample: A field is missing or of the wrong kind, or components, weights and
                categories differ in number.
        """
        row = read_row(_MiaRow, doc, "MIA-Bench")
        return cls(
            id=row.id,
            instruction=row.instruction,
            type=row.type,
            components=tuple(row.components),
            weights=tuple(row.component_weight),
            categories=tuple(row.component_type),
        )


def fingerprint(instruction: str, components: Sequence[str]) -> str:
    """Twelve hex digits of the SHA-256 of a sample's texts, unique among the 400 samples.

    Each run of white space counts as one space, so a reformatted copy has the same fingerprint.
    """
    texts = (" ".join(text.split()) for text in (instruction, *components))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
