"""What MileBench is made of: its 29 datasets, and one sample of them.

Source: paper arXiv 2404.18532, and the annotation files of FreedomIntelligence/MileBench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

TASK_OF = {
    "ActionLocalization": "T-1",
    "ActionPrediction": "T-1",
    "ActionSequence": "T-1",
    "ObjectExistence": "T-2",
    "ObjectInteraction": "T-2",
    "MovingAttribute": "T-2",
    "ObjectShuffle": "T-2",
    "EgocentricNavigation": "T-3",
    "MovingDirection": "T-3",
    "CounterfactualInference": "T-4",
    "StateChange": "T-4",
    "CharacterOrder": "T-4",
    "SceneTransition": "T-4",
    "WebQA": "S-1",
    "TQA": "S-1",
    "MultiModalQA": "S-1",
    "WikiVQA": "S-1",
    "SlideVQA": "S-2",
    "OCR-VQA": "S-2",
    "DocVQA": "S-2",
    "Spot-the-Diff": "S-3",
    "CLEVR-Change": "S-3",
    "IEdit": "S-3",
    "MMCoQA": "S-4",
    "ALFRED": "S-4",
    "nuscenes": "S-5",
    "TextNeedleInAHaystack": "N-1",
    "ImageNeedleInAHaystack": "N-2",
    "GPR1200": "I-1",
}
"""Dataset to task, in the paper's order."""

DATASETS = tuple(TASK_OF)
TASKS = tuple(dict.fromkeys(TASK_OF.values()))
REALISTIC = tuple(task for task in TASKS if task[0] in "TS")
DIAGNOSTIC = tuple(task for task in TASKS if task[0] in "NI")

Variant = Literal["test", "adv", "combined1"]
VARIANTS: tuple[Variant, ...] = ("test", "adv", "combined1")
Rule = Literal["choice", "rouge", "needle", "substring"]
Level = Literal["few", "medium", "many"]


class BadSample(ValueError):
    """An annotation that cannot be used; the message names the sample and the field."""


def has_variant(dataset: str, variant: Variant) -> bool:
    """Whether the dataset was published in this variant: the diagnostic ones have no ``adv``."""
    return variant != "adv" or TASK_OF[dataset] in REALISTIC


def rule_of(dataset: str, question_type: str) -> Rule:
    """The branch of the official scorer (``evaluate.py`` at 9583e1f, ``main``).

    Raises:
        BadSample: A question type the official script knows nothing of.
    """
    if "NeedleInAHaystack" in dataset:
        return "needle"
    if "MMCoQA" in dataset:
        return "substring"
    match question_type:
        case "open-ended":
            return "rouge"
        case "multi-choice":
            return "choice"
    raise BadSample(
        f"{dataset}: `question_type` is {question_type!r}, not 'open-ended' or 'multi-choice'"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question. Image names are as annotated: relative to the dataset's ``images`` folder."""

    dataset: str
    sample_id: str
    rule: Rule
    instruction: str
    context: str
    images: tuple[str, ...]
    gold: str | None  # None where the annotation has none
    choices: tuple[str, ...] = ()  # empty for open questions
    combined: tuple[str, ...] = ()  # files below ``combined_1_images``, where the archive has them

    @property
    def id(self) -> str:
        """Unique in the benchmark: ``DocVQA/131``."""
        return f"{self.dataset}/{self.sample_id}"

    @property
    def level(self) -> Level:
        """Few (up to 5 images), medium (6 to 31) or many.

        As the official scorer, from the number of annotated images, not from the stored field
        (``evaluate.py`` at 9583e1f, ``get_image_quantity_level``).
        """
        if len(self.images) < 6:
            return "few"
        return "many" if len(self.images) > 31 else "medium"

    @classmethod
    def from_annotation(
        cls, entry: object, *, dataset: str, rule: Rule, instructions: Sequence[str]
    ) -> Sample:
        """Read one entry of ``data`` in an official annotation file.

        A ``choice_list`` of None counts as absent (the Hub's parquet files have it so). The gold
        becomes text by ``str``, as in the official ``generate.py``.

        Raises:
            BadSample: A field is missing or of the wrong kind.
        """
        where = f"{dataset}: an entry of `data`"
        fields = _mapping(entry, where)
        sample_id = _sample_id(fields, where)
        where = f"{dataset}, sample {sample_id}"
        task = _mapping(fields.get("task_instance"), f"{where}: `task_instance`")
        gold = fields.get("response")
        return cls(
            dataset=dataset,
            sample_id=sample_id,
            rule=rule,
            instruction=_instruction(fields, instructions, where),
            context=_text(task.get("context"), f"{where}: `context`"),
            images=_texts(task.get("images_path"), f"{where}: `images_path`"),
            gold=None if gold is None else _text(str(gold), f"{where}: `response`"),
            choices=_texts(task.get("choice_list") or [], f"{where}: `choice_list`"),
            combined=_texts(task.get("combined_1_images") or [], f"{where}: `combined_1_images`"),
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, object]) -> Sample:
        """Read a row of the dataset that lmms-eval iterates (see ``task.py``)."""
        dataset = str(doc["dataset"])
        sample_id = str(doc["id"]).removeprefix(f"{dataset}/")
        gold = doc["gold"]
        where = f"{dataset}, sample {sample_id}"
        return cls(
            dataset=dataset,
            sample_id=sample_id,
            rule=rule_of(dataset, str(doc["question_type"])),
            instruction=str(doc["instruction"]),
            context=str(doc["context"]),
            images=_texts(doc["images"], f"{where}: `images`"),
            gold=None if gold is None else str(gold),
            choices=_texts(doc["choices"], f"{where}: `choices`"),
            combined=_texts(doc["combined"], f"{where}: `combined`"),
        )


def _sample_id(fields: Mapping[str, object], where: str) -> str:
    value = fields.get("sample_id")
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
        raise BadSample(f"{where}: `sample_id` is {value!r}, not a number or text")
    return str(value)


def _instruction(fields: Mapping[str, object], instructions: Sequence[str], where: str) -> str:
    index = fields.get("task_instruction_id")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(instructions):
        raise BadSample(
            f"{where}: `task_instruction_id` is {index!r}, "
            f"and the file has {len(instructions)} instructions"
        )
    return instructions[index]


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadSample(f"{where} is {type(value).__name__}, not an object")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadSample(f"{where} is {type(value).__name__}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can hold half a character; nothing else can
        raise BadSample(f"{where} holds a lone surrogate at {error.start}") from error
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadSample(f"{where} is {type(value).__name__}, not a list of texts")
    return tuple(_text(item, f"{where}[{i}]") for i, item in enumerate(value))
