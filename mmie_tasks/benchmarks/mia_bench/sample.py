"""Samples of MIA-Bench: an instruction and its graded components.

Source: ``instruction_benchmark_all.json`` of apple/ml-mia-bench at 5422852d, and arXiv 2407.01509.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mmie_tasks.benchmarks.data_fields import items_of, text_of
from mmie_tasks.core.errors import BadSample

CATEGORIES = (
    "describe",
    "length_limit",
    "mention",
    "linguistics",  # genre in the paper
    "grammar",
    "math",
    "perspective",
    "textual",  # OCR in the paper
)
"""Categories of components, as released."""

TYPES = ("basic", "intermediate", "advanced", "creative", "complex")
"""Difficulties of instructions, as released."""

MAX_COMPONENTS = 5  # the official prompt is defined for 1 to 5 (notebook, cell 2)

_CONTRADICTORY = frozenset(
    ("26e2998bd2be", "aa1db91bb293", "c0b02f394449", "8168db2ba934", "3124769b79ad")
)
"""The `fingerprint` of rows 30, 101, 133, 262 and 266 of the official file: three have the
components of another prompt, two another count.
"""

T = TypeVar("T")


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
        sample_id = _words(doc.get("id"), "MIA-Bench: `id`")
        where = f"MIA-Bench, sample {sample_id}"
        sample = cls(
            id=sample_id,
            instruction=_words(doc.get("instruction"), f"{where}: `instruction`"),
            type=_one_of(TYPES, doc.get("type"), f"{where}: `type`"),
            components=_all(_words, doc.get("components"), f"{where}: `components`"),
            weights=_all(_weight, doc.get("component_weight"), f"{where}: `component_weight`"),
            categories=_all(
                partial(_one_of, CATEGORIES),
                doc.get("component_type"),
                f"{where}: `component_type`",
            ),
        )
        n = len(sample.components)
        if not 1 <= n <= MAX_COMPONENTS:
            raise BadSample(f"{where}: `components` holds {n} texts, not 1 to {MAX_COMPONENTS}")
        if (m := len(sample.weights)) != n:
            raise BadSample(f"{where}: `component_weight` holds {m} values for {n} components")
        if (m := len(sample.categories)) != n:
            raise BadSample(f"{where}: `component_type` holds {m} values for {n} components")
        return sample


def fingerprint(instruction: str, components: Sequence[str]) -> str:
    """Twelve hex digits of the SHA-256 of a sample's texts, unique among the 400 samples.

    Each run of white space counts as one space, so a reformatted copy has the same fingerprint.
    """
    texts = (" ".join(text.split()) for text in (instruction, *components))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _all(read: Callable[[object, str], T], value: object, where: str) -> tuple[T, ...]:
    return tuple(read(item, f"{where}[{i}]") for i, item in enumerate(items_of(value, where)))


def _words(value: object, where: str) -> str:
    text = text_of(value, where)
    if not text.strip():
        raise BadSample(f"{where} is empty")
    return text


def _weight(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadSample(f"{where} is {value!r}, not a number of points from 1")
    return value


def _one_of(allowed: tuple[str, ...], value: object, where: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise BadSample(f"{where} is {value!r}, not one of {', '.join(allowed)}")
    return value
