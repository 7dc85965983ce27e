"""The judge: requests in, MMIE-Score's replies out, all computed together."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeReply, JudgeRequest, Outcome, Usage
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.devices import choose_device, choose_dtype, exact_fp32
from mmie_tasks.judges.mmie_score.memory import TWO_STEPS
from mmie_tasks.judges.mmie_score.settings import Settings

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.attention import Attention
    from mmie_tasks.judges.mmie_score.engine.model import Finished
    from mmie_tasks.judges.mmie_score.loading import Loaded, Place
    from mmie_tasks.judges.mmie_score.preparing import Inputs


# When the score of a reply that is still being written can no longer change.

# As `find_score` in main.py of Lillianwei-h/MMIE at eb0fd6e: the first number after the first
# heading. `\d` is a digit of any script.
_SCORE = re.compile(r"### Score.*?-?\d+(?P<fraction>\.\d+)?", re.DOTALL)

_UNFINISHED = "\ufffd"  # how the first bytes of a character are decoded while the rest is missing


def score_settled(text: str) -> bool:
    r"""Whether the official ``find_score`` gives one and the same score whatever follows.

    It says no as long as the number touches the end of the text, or a point does that may become
    a decimal one, or the text ends inside a character, which may turn out to be a digit.

    Only the official reading is meant: another one may look at what follows the first number.

    >>> [score_settled(f"### Score: {more}") for more in ("4", "4.", "4.5", "4. ", "4/6")]
    [False, False, False, True, True]
    """
    found = _SCORE.search(text)
    if found is None or text.endswith(_UNFINISHED):
        return False
    rest = text[found.end() :]
    return rest != "" and (rest != "." or found["fraction"] is not None)


_OLDEST_TRANSFORMERS = 5
_MARGIN_TOKENS = 16  # lengths are estimated without the image tokens between their marks


class MmieScoreJudge:
    """MMIE-Score on one device of this process.

    The weights are loaded when something is asked, and kept until `close`: until then the memory
    is the tested model's.

    Args:
        settings: What the user wants.
        environment: See `mmie_tasks.judges.mmie_score.open_judge`.
        attention: Replaces the one that the settings name; for checks of another kernel.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        *,
        attention: Attention | None = None,
    ) -> None:
        self._settings = settings
        self._replaced_attention = attention
        self._environment = environment
        self._asking = threading.Lock()
        self._opening = threading.RLock()
        self._loaded: Loaded | None = None
        self._before_loading: Callable[[], object] = lambda: None

    @property
    def signature(self) -> str:
        """The checkpoint's content, and how it is computed.

        Raises:
            JudgeMisconfigured: The checkpoint, or the device, cannot be used.
            DataMissing: The checkpoint cannot be had.
        """
        with self._opening:
            return self._signature

    @cached_property
    def _signature(self) -> str:
        place = self._place
        stop = "settled" if self._settings.early_stop else "end"
        return (
            f"judge:mmie_score|model:MMIE-Score@{self._checkpoint.digest}|dtype:{place.dtype_name}"
            f"|device:{place.device.type}|attention:{self._attention.name}|stop:{stop}"
        )

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        settings = self._settings
        return open_checkpoint(locate(settings.model, settings.revision, self._environment))

    @cached_property
    def _place(self) -> Place:
        from mmie_tasks.judges.mmie_score.loading import Place

        device = choose_device(self._settings.device, self._environment)
        return Place(
            device=device,
            dtype=choose_dtype(self._settings.dtype, device),
            attention=self._settings.attention,
            max_memory_bytes=self._settings.max_memory_bytes,
            graphs=self._settings.graphs,
        )

    @cached_property
    def _attention(self) -> Attention:
        from mmie_tasks.judges.mmie_score.loading import attention_for

        return self._replaced_attention or attention_for(self._checkpoint, self._place)

    def check(self) -> None:
        """See that checkpoint and device are there and right; the weights are not read.

        CUDA is not started here: the tested model may still want to fork.

        Raises:
            JudgeMisconfigured: They are not.
            DataMissing: The checkpoint cannot be had.
        """
        with self._opening:
            check_transformers(version("transformers"))
            found = self._checkpoint
            device = choose_device(self._settings.device, self._environment)
        logger.info(f"The judge is MMIE-Score, {found.located.name}, on {device}.")
        if device.type == "cpu":
            logger.warning("MMIE-Score on a CPU is slow: it is a model of 4 billion weights.")

    def before_loading(self, call: Callable[[], object]) -> None:
        """Have something called right before the weights are loaded: to make room for them."""
        self._before_loading = call

    def close(self) -> None:
        """Give all memory back. What is asked later loads the weights again."""
        with self._asking:
            if self._loaded is not None:
                self._loaded.close()
                self._loaded = None

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give one outcome for each request, as they come, the longest ones first.

        Of several threads one is served after the other.
        """
        with self._asking:
            try:
                yield from self._answers(requests)
            except JudgeMisconfigured as error:
                # The run has its answers by now; they must not be lost with it.
                logger.error(str(error))
                for index in range(len(requests)):
                    yield index, error

    def _answers(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        from mmie_tasks.judges.mmie_score.engine.model import Finished
        from mmie_tasks.judges.mmie_score.preparing import Preparing

        if not requests:
            return
        inputs = self._inputs()
        lengths = [inputs.length(request) for request in requests]
        with ExitStack() as stack:
            stack.enter_context(exact_fp32())
            engine = self._ready().engine(
                rows=min(self._settings.max_rows, len(requests)),
                lengths=[
                    _MARGIN_TOKENS + min(length, inputs.facts.max_positions) + each.max_tokens
                    for length, each in zip(lengths, requests, strict=True)
                ],
            )
            feed = stack.enter_context(Preparing(inputs, requests, lengths))
            settled = self._settled if self._settings.early_stop else None
            for result in engine.run(feed, settled=settled):
                if isinstance(result, Finished):
                    yield result.key, self._reply(result)
                else:
                    yield result.key, result.error
        _report_marks(inputs, requests)

    def _inputs(self) -> Inputs:
        from mmie_tasks.judges.mmie_score.preparing import Inputs

        with self._opening:
            found = self._checkpoint
        refuse = self._settings.marks == "refuse"
        return Inputs(facts=found.facts, tokenizer=found.tokenizer, refuse_marks=refuse)

    def _ready(self) -> Loaded:
        from mmie_tasks.judges.mmie_score.loading import Loaded

        if self._loaded is None:
            self._before_loading()
            with self._opening:
                self._loaded = Loaded(self._checkpoint, self._place, self._attention)
        return self._loaded

    def _settled(self, output: list[int]) -> bool:
        tokenizer = self._checkpoint.tokenizer
        # Where decoding tidies up spaces, what comes later may still change what stands there.
        return not tokenizer.files.cleans_up and score_settled(tokenizer.decode(output))

    def _reply(self, result: Finished) -> JudgeReply:
        usage = Usage(
            input_tokens=result.prompt_tokens, output_tokens=len(result.output), cost_usd=0.0
        )
        return JudgeReply(
            text=prompt.finish(self._checkpoint.tokenizer.decode(result.output)),
            model=f"MMIE-Score@{self._checkpoint.digest}",
            usage=usage,
            finish=result.finish,
        )


def check_transformers(found: str) -> None:
    """See that the installed transformers has the model's layers as we know them.

    Args:
        found: Its version.

    Raises:
        JudgeMisconfigured: It is of version 4 or older.
    """
    if int(found.partition(".")[0]) < _OLDEST_TRANSFORMERS:
        raise JudgeMisconfigured(
            f"MMIE-Score needs transformers {_OLDEST_TRANSFORMERS} or newer, and {found} is "
            "installed.",
            hint=f"`pip install -U transformers`; if the tested model needs {found}, {TWO_STEPS}, "
            "in an environment of its own; or take another judge",
        )


def _report_marks(inputs: Inputs, requests: Sequence[JudgeRequest]) -> None:
    """Say in the log how many requests hold the judge's own control strings, and which."""
    found = [typed for request in requests if (typed := inputs.marks(request))]
    if not found:
        return
    counts = Counter(mark for typed in found for mark in typed)
    listed = ", ".join(f"`{mark}` in {count}" for mark, count in counts.most_common())
    done = "left unscored" if inputs.refuse_marks else "read as the official code reads them"
    logger.warning(
        f"{len(found)} of {len(requests)} requests hold control strings of the judge, and were "
        f"{done}: {listed}. With `marks=refuse` they are left unscored."
    )
