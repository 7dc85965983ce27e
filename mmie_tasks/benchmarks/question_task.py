"""A question of texts and pictures, in the forms in which the runner's models take one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.settings import coverage_floor
from mmie_tasks.hub.run_images import ImageOpener

if TYPE_CHECKING:
    import datasets
    from PIL import Image

Options: TypeAlias = Mapping[str, Any] | None
"""``lmms_eval_specific_kwargs`` of a task file."""


class QuestionTask:
    """The functions of a task file about its questions.

    Args:
        parts: A sample, and the options of its task file: texts and image files, in order.
    """

    def __init__(self, parts: Callable[[Doc, Mapping[str, Any]], Sequence[str | Path]]) -> None:
        self._parts = parts
        self.opener = ImageOpener()  # a sample whose image could not be opened is not scored

    def doc_to_messages(
        self, doc: Doc, lmms_eval_specific_kwargs: Options = None
    ) -> list[dict[str, object]]:
        """The question as one user turn with opened images, in order."""
        parts = self._parts(doc, lmms_eval_specific_kwargs or {})
        return user_turn(part if isinstance(part, str) else self._open(doc, part) for part in parts)

    def doc_to_text(self, doc: Doc, lmms_eval_specific_kwargs: Options = None) -> str:
        """The question for wrappers that take text and images separately.

        ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
        """
        options = lmms_eval_specific_kwargs or {}
        token = str(options.get("image_token", "<image>"))
        count, texts = 0, []
        for part in self._parts(doc, options):
            count += isinstance(part, Path)
            texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
        return "".join(texts)

    def doc_to_visual(self, doc: Doc) -> list[Image.Image]:
        """The images of the question, opened, in order."""
        return [self._open(doc, part) for part in self._parts(doc, {}) if isinstance(part, Path)]

    def _open(self, doc: Doc, path: Path) -> Image.Image:
        """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
        return self.opener.open(doc["id"], lambda: path)


def gold_text(doc: Doc) -> str:
    """The text of the gold answer, for the log: ``doc_to_target``."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def load_task(
    selection: str,
    tasks: Mapping[str, str],
    dataset: Callable[[str, Mapping[str, str]], datasets.Dataset],
) -> datasets.Dataset:
    """The samples of a selection, with the task's name, in place of the stub that a YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        samples = dataset(selection, os.environ)
        return samples.add_column("task", [tasks[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from error
