"""``--model interleaved``: a model of lmms-eval writes the answers, a text-to-image model draws
their pictures.

The writer is created and called as by the runner. It gets the question, followed by the words of a
protocol; then it is freed, and the drawer draws the pictures of its texts. Requests of tasks
without pictures go to the writer unchanged. The pipeline of MMIE's paper was never released: this
is a reconstruction, and every answer says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms

from mmie_tasks.answers.drawn import WITHHELD
from mmie_tasks.core.errors import MmieTasksError, SettingWrong, first_line
from mmie_tasks.interleaved.drawer import DrawerMisconfigured, DrawingError
from mmie_tasks.interleaved.pictures import PictureStore, draw_all
from mmie_tasks.interleaved.protocols import STEP
from mmie_tasks.interleaved.registry import open_drawer
from mmie_tasks.record.signature import drawing_text
from mmie_tasks.runner.pair_answers import (
    Draft,
    Outcomes,
    answer_of,
    draft_of,
    facts_of,
    log_answers,
)
from mmie_tasks.runner.pair_arguments import parse_pair_arguments, split_arguments
from mmie_tasks.runner.pair_writer import AskedSample, PairWriter, asked_sample
from mmie_tasks.runner.run_texts import RunTexts


class Interleaved(lmms):  # type: ignore[misc]  # the runner is untyped
    """A writer and a drawer as one model: see `ModelPair`, and `PairArguments` for its arguments.

    Raises:
        SystemExit: An argument is wrong, or the drawer cannot be used. The runner exits with status
            0 on every other exception (``__main__.py``, ``cli_evaluate``).
    """

    is_simple = False
    force_simple = False
    splits_by_task = True
    """Each call of the writer has one task: see `one_task_per_call`."""

    @classmethod
    def create_from_arg_string(
        cls,
        arg_string: str | Mapping[str, object],
        additional_config: Mapping[str, object] | None = None,
    ) -> Interleaved:
        """Create the model as the runner does; the arguments may also be a map."""
        try:
            arguments = split_arguments(arg_string)
        except SettingWrong as error:
            raise SystemExit(str(error)) from None
        return cls(**{**(additional_config or {}), **arguments})

    def __init__(
        self,
        batch_size: object = None,
        max_batch_size: object = None,
        device: object = None,
        **arguments: object,
    ) -> None:
        super().__init__()
        options = {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
        runner_options = {key: value for key, value in options.items() if value is not None}
        try:
            self._arguments = parse_pair_arguments(split_arguments(arguments))
            self._drawer = open_drawer(self._arguments.drawer, os.environ)
            self._drawer.check()
            answers_by = drawing_text(STEP.signature, self._drawer.signature)
            self._store = PictureStore(self._arguments.pictures, self._drawer.storage_signature)
            self._store.prepare()
            self._writer = PairWriter(
                self._arguments, runner_options, force_simple=self.force_simple
            )
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        self.tested_model = self._arguments.pair
        self._signature = ",".join((answers_by, *self._arguments.added_names))
        self.is_simple = self._writer.model.is_simple
        self.task_dict = self._writer.task_dict  # the runner fills it
        self._rank, self._world_size = self._writer.model.rank, self._writer.model.world_size

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the writer's
        """The runner asks for accelerator, device, tokenizer and chat template. The writer has them
        even after it was freed.
        """
        if name.startswith("__") or "_writer" not in vars(self):
            raise AttributeError(name)
        return getattr(self._writer.model, name)

    @property
    def writer(self) -> lmms:
        """See `ModelPair.writer`."""
        return self._writer.model

    def generate_until(self, requests: Sequence[Instance]) -> list[object]:
        """Write all answers, free the writer, draw all pictures.

        Ends the process if no picture could be drawn, for a reason that the user can remove.
        """
        samples = [asked_sample(request, self.task_dict) for request in requests]
        is_drawn = any(samples)
        texts = RunTexts(self._arguments, requests, samples) if is_drawn else None
        outputs = self._outputs(requests, samples, texts)
        drafts = {i: draft_of(outputs[i], sample) for i, sample in enumerate(samples) if sample}
        outcomes = self._draw(drafts.values())
        facts = {i: facts_of(draft, outcomes, self._signature) for i, draft in drafts.items()}
        for i, draft in drafts.items():
            outputs[i] = answer_of(draft, outcomes, facts[i])
        if is_drawn:
            log_answers(list(facts.values()), outcomes)
        return outputs

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[object]:
        """Call the writer: tasks of several rounds have no pictures in answers."""
        return list(self._live_writer().generate_until_multi_round(requests))

    def loglikelihood(self, requests: Sequence[Instance]) -> list[object]:
        """Call the writer."""
        return list(self._live_writer().loglikelihood(requests))

    def generate_visual_cot(self, requests: Sequence[Instance]) -> list[object]:
        """Call the writer."""
        return list(self._live_writer().generate_visual_cot(requests))

    def clean(self) -> None:
        """Free the writer and the drawer; the runner calls it after generation."""
        self._writer.model.clean()
        self._drawer.close()

    def _live_writer(self) -> lmms:
        """The writer's model, with this process's rank, which the runner may have changed."""
        self._writer.rank, self._writer.world_size = self.rank, self.world_size
        return self._writer.live_model()

    def _outputs(
        self,
        requests: Sequence[Instance],
        samples: Sequence[AskedSample | None],
        texts: RunTexts | None,
    ) -> list[object]:
        """The writer's outputs; with `texts`, saved ones are read and new ones saved."""
        self._writer.rank, self._writer.world_size = self.rank, self.world_size
        outputs = {i: text.output for i, text in texts.read().items()} if texts else {}
        missing = [i for i in range(len(requests)) if i not in outputs]
        portion_size = self._writer.portion_size if texts else len(requests)
        for portion in self._writer.outputs(requests, samples, missing, portion_size):
            outputs |= portion
            if texts:
                texts.save(portion)
        return [outputs[i] for i in range(len(requests))]

    def _draw(self, drafts: Iterable[Draft]) -> Outcomes:
        """Free the writer and draw all pictures; returns their outcomes."""
        requests = [picture for draft in drafts for picture in draft.pictures]
        if not requests:
            return {}
        self._writer.free()
        outcomes = draw_all(self._drawer, self._store, requests, shows_bar=self.rank == 0)
        self._drawer.close()
        errors = [outcome for outcome in outcomes.values() if isinstance(outcome, DrawingError)]
        withheld = next((error for error in errors if error.name in WITHHELD), None)
        if withheld and len(errors) == len(outcomes):
            error = DrawerMisconfigured(
                f"None of the {len(outcomes):,} pictures could be drawn: {first_line(withheld)}",
                hint="correct that, then run again: what the writer has written is kept",
            )
            raise SystemExit(str(error))
        return outcomes


class InterleavedSimple(Interleaved):
    """With ``--force_simple``: the writer's simple class."""

    is_simple = True
    force_simple = True
