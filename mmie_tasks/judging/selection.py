"""What a benchmark with a judge has: one object, which its room calls and the runner checks."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.base import InProcess, Judge, Outcome, SelfChecking
from mmie_tasks.judges.choice import Choice, choose, open_judge
from mmie_tasks.judging.deferred import Case, Docket, Rows

SYNC = "MMIE_TASKS_SYNC"
_READ = re.compile("JUDGE|API|ENDPOINT|MODEL|BASE|MMIE|CACHE")  # names of variables judges look at

_IN_ORDER_S = 900.0


@dataclass(slots=True)
class _Opened:
    """A judge, and until when, on the monotonic clock, it need not be checked again."""

    judge: Judge
    in_order_until_s: float = 0.0


_launched: weakref.WeakKeyDictionary[object, Choice] = weakref.WeakKeyDictionary()
_opened: dict[int, _Opened] = {}
_opening = threading.Lock()


def launch(launcher: object, choice: Choice) -> None:
    """Let a launcher's choice count as long as the launcher lives, that is for its evaluation."""
    _launched[launcher] = choice


def launched() -> Choice | None:
    """The choice of the launcher that lives, if any: the newest."""
    return next(reversed(list(_launched.values())), None)


def close_all() -> None:
    """Let every judge that was opened give back its memory; they can be asked again."""
    with _opening:
        opened = list(_opened.values())
    for each in opened:
        if isinstance(each.judge, InProcess):
            each.judge.close()


def _shared(choice: Choice, environment: Mapping[str, str]) -> _Opened:
    """The judge of a choice: one object for all benchmarks of a run, with one budget.

    Raises:
        SettingWrong: The choice cannot be obeyed.
    """
    read = {item for item in environment.items() if _READ.search(item[0])}
    key = hash((choice.name, frozenset(choice.options.items()), frozenset(read)))
    with _opening:
        if key not in _opened:
            _opened[key] = _Opened(open_judge(choice, environment))
        return _opened[key]


class BenchmarkJudge:
    """The judge of one benchmark.

    Args:
        title: Names the benchmark where progress is shown.
        default: See below.
        prepare: What else must hold before anything is judged; raises a `MmieTasksError`.

    Attributes:
        default: The judge, as `choosing.parse_choice` reads it, unless the user chooses another.
        sync: Every sample is judged at once, before ``process_results`` returns.
        report: Told of every outcome; set by the runner's side, which keeps a ledger of tokens.
    """

    def __init__(
        self, title: str, default: str, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self.default = default
        self._prepare = prepare
        self.sync = False
        self.report: Callable[[Outcome], None] = lambda _: None
        self._docket = Docket(self.judge, title, lambda outcome: self.report(outcome))

    def choice(self) -> Choice:
        """Which judge this run uses, and who said so.

        Raises:
            SettingWrong: What was said cannot be read.
        """
        return choose(self.default, os.environ, launched())

    def judge(self) -> Judge:
        """The judge itself. Nobody is asked anything yet.

        Raises:
            SettingWrong: The choice cannot be obeyed.
        """
        return _shared(self.choice(), os.environ).judge

    def make_room_with(self, call: Callable[[], object]) -> None:
        """Have something called before the judge loads a model into this process, if it does.

        Raises:
            SettingWrong: The choice cannot be obeyed.
        """
        judge = self.judge()
        if isinstance(judge, InProcess):
            judge.before_loading(call)

    def signature(self) -> str:
        """Everything of the judge that moves a number."""
        return self.judge().signature

    def check(self) -> None:
        """See that the judge can be used, before anything is generated.

        A judge that was in order minutes ago, for another benchmark or before the tested model was
        loaded, is not asked again.

        Raises:
            SettingWrong: The choice, or ``MMIE_TASKS_SYNC``, cannot be obeyed.
            JudgeMisconfigured: The judge cannot answer as it is set up.
            DataBroken: Its cache cannot be used.
        """
        wants_sync(os.environ)
        self._prepare()
        opened = _shared(self.choice(), os.environ)
        if time.monotonic() < opened.in_order_until_s:
            return
        if isinstance(opened.judge, SelfChecking):
            opened.judge.check()
        opened.in_order_until_s = time.monotonic() + _IN_ORDER_S

    def submit(
        self, case: Case, plain: Callable[[Rows], Mapping[str, object]]
    ) -> Mapping[str, object]:
        """The rows of a case: filled in when they are read, or before this returns if `sync`.

        Args:
            case: What is judged.
            plain: Makes what a sample has besides its rows, if `sync`: plain numbers.
        """
        if self.sync or wants_sync(os.environ):
            rows = self._docket.judge_now(case)
            return {**plain(rows), **rows}
        return self._docket.submit(case)


def wants_sync(environment: Mapping[str, str]) -> bool:
    """Whether ``MMIE_TASKS_SYNC`` asks for judging one by one: 0 or 1, by default 0.

    Raises:
        SettingWrong: It is something else.
    """
    value = environment.get(SYNC) or "0"
    if value not in {"0", "1"}:
        hint = f"`export {SYNC}=1` judges each sample at once, as `--baseline` needs it"
        raise SettingWrong(f"`{SYNC}` is {value!r}, and can be 0 or 1.", hint=hint)
    return value == "1"
