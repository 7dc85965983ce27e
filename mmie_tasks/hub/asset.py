"""Assets: the datasets, prompts and checkpoints that a run needs on this machine.

A benchmark lists its assets in ``Benchmark.assets``, a judge in ``HasAssets.assets``. Two commands
loop over them: ``doctor`` reports whether each is here, ``prefetch`` downloads the missing ones.
The data files of benchmarks are read here, too: `read_json_file`, and `OddRows` for rows that cannot be used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir, json_problem
from mmie_tasks.core.options import choice_setting
from mmie_tasks.hub.download import HubFile, arrived_bytes, is_commit, is_revision, locate

CACHE_VARIABLE = "MMIE_TASKS_CACHE"

_ODD_ROWS_SETTING = "MMIE_TASKS_ODD_ROWS"
_MAX_ODD_PERCENT = 10  # a file with more unusable rows is not the benchmark's data file
_NAMED_ROWS = 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Check:
    """A check of assets that are on this machine, for ``doctor``.

    Several assets may share a check, such as the archives of one dataset. It runs when all of them are here.

    Attributes:
        subject: What is checked: ``mmie: data``.
        describe: Reads the files and returns one sentence about them. Raises a `MmieTasksError` if they cannot be used;
            what it logs as a warning is reported. An empty text reports the warnings alone.
    """

    subject: str
    describe: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """What fetching an asset would download and occupy.

    Attributes:
        source: Repository, commit and files: ``MMIE/MMIE@c0ffee: data.json, images.tar.gz``.
        file_bytes: Bytes still to be downloaded of each file; None if the server gives no size.
            All zeros if the files are in the Hub's cache and only have to be copied or unpacked.
        disk_bytes: Folder to the bytes that are stored below it afterwards, in addition.
        temporary_bytes: Additional bytes on the disk of the asset's folder while it is fetched: an
            archive and its unpacked files are there at the same time.
        is_confirmed: Whether the server has answered that it has the files and gives them to this account.
    """

    source: str
    file_bytes: tuple[int | None, ...] = ()
    disk_bytes: Mapping[Path, int] = field(default_factory=dict)
    temporary_bytes: int = 0
    is_confirmed: bool = True

    @property
    def known_bytes(self) -> int:
        """Bytes to be downloaded of the files with a known size."""
        return sum(size or 0 for size in self.file_bytes)

    @property
    def size_bytes(self) -> int | None:
        """Bytes to be downloaded; None if the size of a file is unknown."""
        return self.known_bytes if self.file_bytes and None not in self.file_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A thing that a run needs on this machine: a dataset, official prompts, a checkpoint.

    Attributes:
        name: What it is, unique in a run: ``mmie: data``, ``milebench: data, part 1``.
        source: Where it comes from, as far as known without network access: a repository, with the
            commit if the asset is here, or the environment variable that names a local path.
        folder: Folder that it is stored in, or will be.
        is_here: Whether a run can use it without network access. Does not connect.
        plan: Asks the Hub, with one attempt, what has to be downloaded. Raises a `MmieTasksError`
            if the Hub refuses or does not answer.
        fetch: Downloads it, exactly as a run would, and returns one sentence about the result.
            Raises a `MmieTasksError`.
        copies: What a machine without network access needs: environment variable to the folder, or
            file, that has to be copied there and that the variable has to name.
        checks: For ``doctor``, in this order up to the first problem.
        origin: ``hub`` can be downloaded; ``local`` is a path that the user names; ``installed`` is
            part of a package, so that ``prefetch`` skips it.
    """

    name: str
    source: str
    folder: Path
    is_here: Callable[[], bool] = field(repr=False)
    plan: Callable[[], DownloadPlan] = field(repr=False)
    fetch: Callable[[], str] = field(repr=False)
    copies: Mapping[str, Path] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    origin: Literal["hub", "local", "installed"] = "hub"


def local_asset(
    name: str, variable: str, environment: Mapping[str, str], checks: tuple[Check, ...] = ()
) -> Asset | None:
    """The asset that an environment variable names on this machine; None if it is not set.

    It is here if the path exists; only the checks read it. It cannot be downloaded: `Asset.plan`
    and `Asset.fetch` raise `DataMissing`.
    """
    if not (value := environment.get(variable)):
        return None
    path = Path(value).expanduser().absolute()

    def missing() -> NoReturn:
        raise DataMissing(
            f"`{variable}` is `{path}`, which does not exist.",
            hint=f"point `{variable}` at an existing path, or unset it to download",
        )

    return Asset(
        name=name,
        source=f"`{variable}`",
        folder=path,
        is_here=path.exists,
        plan=missing,
        fetch=missing,
        copies={variable: path},
        checks=checks,
        origin="local",
    )


def data_asset(
    *,
    name: str,
    variables: Sequence[str],
    source: str,
    is_here: Callable[[], bool],
    plan: Callable[[], DownloadPlan],
    fetch: Callable[[], str],
    environment: Mapping[str, str],
    describe: Callable[[], str],
) -> Asset:
    """The `local_asset` of the first variable that is set, or else one that can be downloaded.

    A downloaded asset is stored below `mmie_tasks.core.files.cache_dir`. `describe` is the only
    check, with the name of the asset; for the other arguments see `Asset`.
    """
    checks = (Check(subject=name, describe=describe),)
    for variable in variables:
        if local := local_asset(name, variable, environment, checks):
            return local
    folder = cache_dir(environment).absolute()
    return Asset(
        name=name,
        source=source,
        folder=folder,
        is_here=is_here,
        plan=plan,
        fetch=fetch,
        copies={CACHE_VARIABLE: folder},
        checks=checks,
    )


def installed_asset(name: str, source: str, describe: Callable[[], str]) -> Asset:
    """An asset that is part of an installed package; `describe` is its only check."""
    return Asset(
        name=name,
        source=source,
        folder=Path(),
        is_here=lambda: True,
        plan=lambda: DownloadPlan(source=source),
        fetch=lambda: f"{source} is installed",
        checks=(Check(subject=name, describe=describe),),
        origin="installed",
    )


def read_data_file(path: Path, hint: str) -> bytes:
    """The bytes of a data file.

    Raises:
        DataMissing: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataMissing(f"`{path}` cannot be read: {error.strerror}.", hint=hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A parsed data file.

    Attributes:
        value: Its content.
        digest: ``sha256:`` and 12 hex digits, the revision of a local file.
    """

    value: object
    digest: str


def read_json_file(path: Path, *, layout: str, repair: str) -> JsonFile:
    """Read a data file of a benchmark: JSON in UTF-8, which may begin with a byte order mark.

    Several values, one per line (JSON Lines), are a list.

    Args:
        path: The file.
        layout: The hint where it cannot be read.
        repair: The hint where it is not JSON.

    Raises:
        DataMissing: It cannot be read.
        DataBroken: It is not JSON.
    """
    content = read_data_file(path, layout)
    try:
        text = content.decode("utf-8-sig")
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            value = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
        raise DataBroken(f"`{path}`: not JSON ({json_problem(error)}).", hint=repair) from error
    return JsonFile(value=value, digest=f"sha256:{hashlib.sha256(content).hexdigest()[:12]}")


class OddRows:
    """The rows of one task's data files that cannot be used.

    Args:
        title: Title of the benchmark.
        repair: What to do about a broken file; the hint of the errors.
        environment: Read: ``MMIE_TASKS_ODD_ROWS``, which is ``skip`` (default) or ``stop``.

    Raises:
        SettingWrong: The variable has another value.
    """

    def __init__(self, title: str, repair: str, environment: Mapping[str, str]) -> None:
        self._title, self._repair = title, repair
        hint = f"`export {_ODD_ROWS_SETTING}=skip` counts unusable rows and leaves them out"
        self.stop = choice_setting(environment, _ODD_ROWS_SETTING, "skip", "stop", hint=hint) == "stop"
        self._problems: dict[Path, dict[int, str]] = {}
        self._total = 0

    def add(self, file: Path, row: int, problem: str) -> None:
        """Leave out a row.

        Args:
            file: The data file.
            row: Its position in the file, from 0.
            problem: Names row, id and field.

        Raises:
            DataBroken: The setting is ``stop``.
        """
        if self.stop:
            raise DataBroken(f"`{file}`: {problem}.", hint=self._repair)
        self._problems.setdefault(file, {})[row] = problem

    def check(self, file: Path, usable: int) -> None:
        """Check that most rows of a file can be used.

        Args:
            file: The data file.
            usable: How many of its rows can be used.

        Raises:
            DataBroken: More than 10 percent of all its rows cannot.
        """
        problems = self._problems.get(file, {})
        total = usable + len(problems)
        self._total += total
        if 100 * len(problems) > _MAX_ODD_PERCENT * total:
            count = f"{len(problems):,} of {total:,} rows cannot be used, more than {_MAX_ODD_PERCENT} %"
            first = next(iter(problems.values()))
            raise DataBroken(f"`{file}`: {first}. {count}.", hint=self._repair)

    def log(self) -> None:
        """Log one warning about the rows that are left out, with the first of them."""
        if not self._problems:
            return
        named = [
            f"`{file.name}`: {problem}" for file, problems in self._problems.items() for problem in problems.values()
        ]
        more = ["..."] if len(named) > _NAMED_ROWS else []
        logger.warning(
            f"{self._title}: {len(named):,} of {self._total:,} rows cannot be used and are left "
            f"out, as the signature says (`{_ODD_ROWS_SETTING}=stop` ends the run instead). "
            + "; ".join([*named[:_NAMED_ROWS], *more])
        )

    @property
    def suffix(self) -> str:
        """Number and digest of the rows that are left out, for the data's revision; or empty."""
        rows = [f"{file.name}:{row}" for file, rows in self._problems.items() for row in rows]
        digest = hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:6]
        return f",left_out={len(rows)},rows={digest}" if rows else ""


def plan_file(file: HubFile, root: Path, name: str, *, unpacked: bool) -> DownloadPlan:
    """The plan for one file that `mmie_tasks.hub.download.install` would store.

    The unpacked files are assumed to be as large as their archive: they are images, which gzip does not compress.

    Args:
        file: The file on the Hub.
        root: As for `install`.
        name: As for `install`.
        unpacked: Whether it is an archive, which is deleted once it is unpacked.

    Raises:
        DataMissing: The Hub refuses or does not answer.
        DataBroken: The Hub has another file than the pinned one.
    """
    location = locate(file, patient=False)
    source = f"{file.repo}@{location.commit}: {file.filename}"
    if (root / location.commit / name).exists():
        return DownloadPlan(source=source, file_bytes=(0,))
    if location.size_bytes is None:
        return DownloadPlan(source=source, file_bytes=(None,))
    if location.cached_path:
        return DownloadPlan(source=source, file_bytes=(0,), disk_bytes={root: location.size_bytes})
    left_bytes = location.size_bytes - arrived_bytes(location, root / "downloads")
    return DownloadPlan(
        source=source,
        file_bytes=(left_bytes,),
        disk_bytes={root: left_bytes},
        temporary_bytes=location.size_bytes if unpacked else 0,
    )


def combined_plan(source: str, plans: Sequence[DownloadPlan]) -> DownloadPlan:
    """The plan for several files that are fetched one after the other."""
    disk_bytes: Counter[Path] = Counter()
    for plan in plans:
        disk_bytes.update(plan.disk_bytes)
    return DownloadPlan(
        source=source,
        file_bytes=tuple(size for plan in plans for size in plan.file_bytes),
        disk_bytes=disk_bytes,
        temporary_bytes=max((plan.temporary_bytes for plan in plans), default=0),
        is_confirmed=all(plan.is_confirmed for plan in plans),
    )


def hub_cache() -> Path:
    """The folder in which `huggingface_hub` stores repositories, by this process's environment."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).absolute()


def hub_cache_copies() -> Mapping[str, Path]:
    """`Asset.copies` for `hub_cache`: ``HF_HOME``, or ``HF_HUB_CACHE`` if it is not below that."""
    from huggingface_hub import constants

    home = Path(constants.HF_HOME).absolute()
    return {"HF_HOME": home} if hub_cache() == home / "hub" else {"HF_HUB_CACHE": hub_cache()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """A local folder with files of one commit of a repository on the Hub.

    Attributes:
        folder: The folder; named after the commit, or inside one that is.
        repo: Owner and name: ``MMIE/MMIE``.
        commit: The commit, 40 hex digits on the real Hub.
    """

    folder: Path
    repo: str
    commit: str

    @property
    def revision(self) -> str:
        """Repository and commit: ``MMIE/MMIE@<commit>``."""
        return f"{self.repo}@{self.commit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """A dataset repository of which all files are stored in one folder per commit.

    Attributes:
        repo: Owner and name.
        name: Folder below `mmie_tasks.core.files.cache_dir`.
        variable: The environment variable that names a revision; ``main`` if it is not set.
        required: Files and folders without which the folder of a commit is incomplete.
    """

    repo: str
    name: str
    variable: str
    required: tuple[str, ...]

    def root(self, environment: Mapping[str, str]) -> Path:
        """The folder of all its commits."""
        return cache_dir(environment).absolute() / self.name

    def revision(self, environment: Mapping[str, str]) -> str:
        """The requested revision.

        Raises:
            SettingWrong: The variable's value cannot be a revision.
        """
        return revision_setting(environment, self.variable, self.repo) or "main"

    def note(self, environment: Mapping[str, str]) -> CommitNote:
        """The commit note of the requested revision; raises like `revision`."""
        return commit_note(self.root(environment), self.revision(environment))

    def cached(self, environment: Mapping[str, str]) -> HubFolder | None:
        """The folder of an earlier download, if complete; raises like `revision`."""
        commit = self.note(environment).read()
        folder = self.root(environment) / commit
        if commit and all((folder / name).exists() for name in self.required):
            return HubFolder(folder=folder, repo=self.repo, commit=commit)
        return None

    def stored(self, commit: str, environment: Mapping[str, str]) -> HubFolder:
        """Write the commit note of a folder that is complete now."""
        self.note(environment).write(commit)
        return HubFolder(folder=self.root(environment) / commit, repo=self.repo, commit=commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """The text file with the commit of a revision; see the module's docstring."""

    path: Path

    def read(self) -> str:
        """The commit; empty if there is no note, or no commit in it."""
        if not self.path.is_file():
            return ""
        commit = self.path.read_text(encoding="ascii", errors="replace").strip()
        return commit if is_commit(commit) else ""

    def write(self, commit: str) -> None:
        """Write the note in one step.

        Raises:
            OSError: The folder cannot be written.
        """
        with atomic_write(self.path) as part:
            part.write_text(f"{commit}\n", encoding="ascii")


def commit_note(root: Path, revision: str) -> CommitNote:
    """The note of a revision (or of another name without ``..``) below `root`."""
    return CommitNote(path=root / "commits" / f"{revision.replace('/', '%2F')}.txt")


def revision_setting(environment: Mapping[str, str], variable: str, repo: str) -> str:
    """The revision of a dataset that an environment variable names; empty if it is not set.

    Raises:
        SettingWrong: Its value cannot be a revision.
    """
    revision = environment.get(variable, "")
    if revision and not is_revision(revision):
        raise SettingWrong(
            f"`{variable}` is {revision!r}, which cannot be a branch, tag or commit.",
            hint=f"name one listed on https://huggingface.co/datasets/{repo}/commits, or unset it",
        )
    return revision
