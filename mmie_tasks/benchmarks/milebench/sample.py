"""Samples of MileBench, and its 29 datasets.

Source: paper arXiv 2404.18532, and the annotation files of FreedomIntelligence/MileBench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mmie_tasks.benchmarks.data_fields import object_of, text_of, texts_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
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
    ) -> Sample:
        """Reads an entry of ``data`` in an official annotation file.

        A ``choice_list`` of None counts as absent (as in the Hub's parquet files). The gold is
        converted to text by ``str``, as in the official ``generate.py``.

        Raises:
            BadSample: A field is missing or of the wrong kind.
        """
        location = f"{dataset}: an entry of `data`"
        fields = object_of(entry, location)
        sample_id = fields.get("sample_id")
        if isinstance(sample_id, bool) or not isinstance(sample_id, (int, str)) or sample_id == "":
            raise BadSample(f"{location}: `sample_id` is {sample_id!r}, not a number or text")
        location = f"{dataset}, sample {sample_id}"
        instance = object_of(fields.get("task_instance"), f"{location}: `task_instance`")
        gold = fields.get("response")
        return cls(
            dataset=dataset,
            sample_id=str(sample_id),
            rule=rule,
            instruction=_instruction(fields, instructions, location),
            context=text_of(instance.get("context"), f"{location}: `context`"),
            images=texts_of(instance.get("images_path"), f"{location}: `images_path`"),
            gold=None if gold is None else text_of(str(gold), f"{location}: `response`"),
            choices=texts_of(instance.get("choice_list") or [], f"{location}: `choice_list`"),
            combined=texts_of(
                instance.get("combined_1_images") or [], f"{location}: `combined_1_images`"
            ),
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Sample:
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


def _instruction(fields: Mapping[str, object], instructions: Sequence[str], location: str) -> str:
    index = fields.get("task_instruction_id")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(instructions):
        raise BadSample(
            f"{location}: `task_instruction_id` is {index!r}, and the file has {len(instructions)} "
            "instructions"
        )
    return instructions[index]
