"""What `prefetch` downloads: the assets of benchmarks and of judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.registry import BenchmarkEntry
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import HasAssets
from mmie_tasks.judges.choice import JudgeChoices, choose_judges
from mmie_tasks.judges.registry import JudgeChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetList:
    """The assets of a command, and notes to print with them."""

    assets: tuple[Asset, ...] = ()
    notes: tuple[str, ...] = ()


def benchmark_assets(
    selection: Mapping[BenchmarkEntry, Sequence[str]], environment: Mapping[str, str]
) -> AssetList:
    """The assets of the selected tasks of benchmarks that are not installed already."""
    assets: list[Asset] = []
    notes: list[str] = []
    for entry, tasks in selection.items():
        new = entry.load().assets(tasks, environment)
        assets += _to_fetch(new)
        notes += [] if new else [f"{entry.name}: it has no assets to fetch."]
    return AssetList(assets=tuple(assets), notes=tuple(notes))


def judge_assets(
    explicit: JudgeChoices | None,
    benchmarks: Iterable[BenchmarkEntry],
    environment: Mapping[str, str],
) -> AssetList:
    """The assets of the judges that these benchmarks would use.

    Args:
        explicit: The choices of ``--judge``, empty for each benchmark's own judge; None for no
            judge: a note names those that have assets.
        benchmarks: The benchmarks.
        environment: Read: ``MMIE_TASKS_JUDGE`` and what else chooses a judge, and what judges read.

    Raises:
        SettingWrong: There is no such judge, or it has no such option.
        JudgeMisconfigured: An option of a judge is invalid.
    """
    judged = [benchmark for entry in benchmarks if (benchmark := entry.load()).judge is not None]
    chosen = [
        choose_judges(benchmark.name, benchmark.judge.default, environment, explicit or {})
        for benchmark in judged
        if benchmark.judge is not None
    ] or (explicit or {}).values()
    choices: list[JudgeChoice] = []
    for choice in (replace(choice, source="") for one in chosen for choice in one.judges):
        choices += [] if choice in choices else [choice]
    assets: list[Asset] = []
    notes: list[str] = []
    for choice in choices:
        judge = registry.create(choice.name, choice.options, environment)
        new = _to_fetch(judge.assets()) if isinstance(judge, HasAssets) else []
        if explicit is not None:
            assets += new
            notes += [] if new else [f"judge `{choice.name}`: nothing is to be fetched for it."]
        elif new:
            notes.append(f"judge `{choice.name}` is not fetched; add `--judge` for that.")
    return AssetList(assets=tuple(assets), notes=tuple(notes))


def _to_fetch(assets: Iterable[Asset]) -> list[Asset]:
    return [asset for asset in assets if asset.origin != "installed"]
