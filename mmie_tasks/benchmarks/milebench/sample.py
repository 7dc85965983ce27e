"""Samples of MileBench, and its 29 datasets.

Source: paper arXiv 2404.18532, and the annotation files of FreedomIntelligence/MileBench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StrictInt

from mmie_tasks.benchmarks.data_row import DataRow, DataText, read_row
from mmie_tasks.core.errors import BadSample

DATASETS_OF = {
    "T-1": ("ActionLocalization", "ActionPrediction", "ActionSequence"),
    "T-2": ("ObjectExistence", "ObjectInteraction", "MovingAttribute", "ObjectShuffle"),
    "T-3": ("EgocentricNavigation", "MovingDirection"),
    "T-4": ("CounterfactualInference", "StateChange", "CharacterOrder", "SceneTransition"),
    "S-1": ("WebQA", "TQA", "MultiModalQA", "WikiVQA"),
    "S-2": ("SlideVQA", "OCR-VQA", "DocVQA"),
    "S-3": ("Spot-the-Diff", "CLEVR-Change", "IEdit"),
    "S-4": ("MMCoQA", "ALFRED"),
    "S-5": ("nuscenes",),
    "N-1": ("TextNeedleInAHaystack",),
    "N-2": ("ImageNeedleInAHaystack",),
    "I-1": ("GPR1200",),
}
"""Task to its datasets."""

TASK_OF = {dataset: task for task, datasets in DATASETS_OF.items() for dataset in datasets}
"""Dataset to task, in the paper's order."""

DATASETS = tuple(TASK_OF)
TASKS = tuple(DATASETS_OF)
REALISTIC = tuple(task for task in TASKS if task[0] in "TS")
DIAGNOSTIC = tuple(task for task in TASKS if task[0] in "NI")

Variant: TypeAlias = Literal["test", "adv", "combined1"]
VARIANT_OF: Mapping[str, Variant] = {
    "milebench": "test",
    "milebench_adv": "adv",
    "milebench_combined1": "combined1",
}
"""Task of the whole benchmark to its variant: the published data as it is, with adversarially
shuffled options, or with combined images."""

ScoringRule: TypeAlias = Literal["choice", "rouge", "needle", "substring"]
ImageLevel: TypeAlias = Literal["few", "medium", "many"]


def datasets_in(variant: Variant) -> tuple[str, ...]:
    """The datasets published in this variant; the diagnostic ones have no ``adv``."""
    return tuple(name for name in DATASETS if variant != "adv" or TASK_OF[name] in REALISTIC)


def rule_of(dataset: str, question_type: str) -> ScoringRule:
    """The scoring rule, as in ``main`` of the official ``evaluate.py`` at 9583e1f.

    Raises:
        BadSample: The official script does not have the question type.
    """
    if "NeedleInAHaystack" in dataset:
        return "needle"
    if "MMCoQA" in dataset:
        return "substring"
    rules: dict[str, ScoringRule] = {"open-ended": "rouge", "multi-choice": "choice"}
    if question_type in rules:
        return rules[question_type]
    raise BadSample(
        f"{dataset}: `question_type` is {question_type!r}, not 'open-ended' or 'multi-choice'"
    )


def _id(value: object) -> object:
    return str(value) if type(value) is int else value


def _gold(value: object) -> object:
    """The text of any value, as in the official ``generate.py``."""
    return value if value is None else str(value)


class _MileBenchTask(DataRow):
    context: DataText
    images_path: list[DataText]
    choice_list: list[DataText] | None = None
    combined_1_images: list[DataText] | None = None


class _MileBenchRow(DataRow):
    sample_id: Annotated[DataText, Field(min_length=1), BeforeValidator(_id)]
    task_instruction_id: Annotated[StrictInt, Field(ge=0)]
    task_instance: _MileBenchTask
    response: Annotated[DataText | None, BeforeValidator(_gold)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MileSample:
    """One question of a dataset.

    Attributes:
        dataset: The dataset's official name.
        sample_id: Unique within the dataset.
        rule: How answers are scored.
        instruction: The instruction before the question.
        context: The question, with a placeholder for every image.
        images: File names as annotated, relative to the dataset's folder ``images``.
        gold: The gold answer; None if the annotation has none.
        choices: The options; empty for an open question.
        combined: File names relative to ``combined_1_images``; empty if the annotation has none.
    """

    dataset: str
    sample_id: str
    rule: ScoringRule
    instruction: str
    context: str
    images: tuple[str, ...]
    gold: str | None
    choices: tuple[str, ...] = ()
    combined: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id within the benchmark: ``DocVQA/131``."""
        return f"{self.dataset}/{self.sample_id}"

    @property
    def level(self) -> ImageLevel:
        """Few (up to 5 images), medium (6 to 31) or many.

        Like ``get_image_quantity_level`` of the official ``evaluate.py`` at 9583e1f, it counts the
        annotated images and ignores the stored field.
        """
        if len(self.images) < 6:
            return "few"
        return "many" if len(self.images) > 31 else "medium"

    @classmethod
    def from_annotation(
        cls, entry: object, *, dataset: str, rule: ScoringRule, instructions: Sequence[str]
    ) -> MileSample:
        """Reads an entry of ``data`` in an official annotation file.

        A ``choice_list`` of None counts as absent (as in the Hub's parquet files). The gold is
        converted to text by ``str``, as in the official ``generate.py``.

        Raises:
            BadSample: A field is missing or of the wrong kind.
        """
        row = read_row(_MileBenchRow, entry, dataset, "sample_id")
        if row.task_instruction_id >= len(instructions):
            raise BadSample(
                f"{dataset}, id {row.sample_id}: `task_instruction_id` is "
                f"{row.task_instruction_id}, and the file has {len(instructions)} instructions"
            )
        task = row.task_instance
        return cls(
            dataset=dataset,
            sample_id=row.sample_id,
            rule=rule,
            instruction=instructions[row.task_instruction_id],
            context=task.context,
            images=tuple(task.images_path),
            gold=row.response,
            choices=tuple(task.choice_list or ()),
            combined=tuple(task.combined_1_images or ()),
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> MileSample:
        """Reads a row of the dataset that lmms-eval iterates (see ``data.py``)."""
        return cls(
            dataset=doc["dataset"],
            sample_id=doc["id"].removeprefix(f"{doc['dataset']}/"),
            rule=rule_of(doc["dataset"], doc["question_type"]),
            instruction=doc["instruction"],
            context=doc["context"],
            images=tuple(doc["images"]),
            gold=doc["gold"],
            choices=tuple(doc["choices"]),
            combined=tuple(doc["combined"]),
        )
