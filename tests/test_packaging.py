"""A wheel and an editable install both carry the tasks, and the runner finds them there.

Each is installed into an empty virtual environment of its own, which only afterwards is allowed to
see the packages of this one, so that nothing installed here is ever touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from support.fork_server import STARTUP
from support.runner import Workplace
from support.wheels import build, unpack

from mmie_tasks import __version__

ROOT = Path(__file__).resolve().parents[1]
TASKS = ROOT / "task_yamls"

ENTRY_POINT = """
from importlib.metadata import entry_points
(ours,) = entry_points(group="lmms_eval.models", name="mmie_tasks")
print(ours.load().__code__.co_filename)
"""


def output_of(*command: str | Path, cwd: Path) -> str:
    process = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(STARTUP)},  # nothing of ours but a faster YAML parser
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A virtual environment with our package."""

    folder: Path

    def output_of(self, program: str, *words: str) -> str:
        return output_of(self.folder / "bin" / program, *words, cwd=self.folder)


def installed(wheel: Path, folder: Path) -> Installed:
    output_of(sys.executable, "-m", "venv", "--without-pip", folder, cwd=wheel.parent)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    unpack(wheel, site_packages)
    (site_packages / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(folder=folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def from_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(wheel, tmp_path_factory.mktemp("from_wheel"))


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    wheel = build("editable", ROOT, tmp_path_factory.mktemp("editable_wheel"))
    return installed(wheel, tmp_path_factory.mktemp("editable"))


@pytest.fixture(params=["from_wheel", "editable"])
def either(request: pytest.FixtureRequest) -> Installed:
    chosen: Installed = request.getfixturevalue(request.param)
    return chosen


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_holds_our_package_whole_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert files_below(TASKS)
    assert {f"mmie_tasks/task_yamls/{name}" for name in files_below(TASKS)} <= names
    assert "mmie_tasks/py.typed" in names
    others = {name.split("/")[0] for name in names} - {"mmie_tasks"}
    assert [Path(name).suffix for name in others] == [".dist-info"]
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder)) as archive:
        archive.extractall(folder)  # noqa: S202 - ours
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


def test_the_wheel_can_be_built_from_the_source_distribution(
    sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with (
        zipfile.ZipFile(build("wheel", sdist, tmp_path)) as from_sdist,
        zipfile.ZipFile(wheel) as from_checkout,
    ):
        assert set(from_sdist.namelist()) == set(from_checkout.namelist())


def test_the_source_distribution_holds_what_the_wheel_is_built_from_and_no_examples(
    sdist: Path,
) -> None:
    # Another test builds the wheel in the folder.
    assert {path.name for path in sdist.iterdir()} - {"__pycache__"} == {
        *("mmie_tasks", "task_yamls", "pyproject.toml", "hatch_build.py", "PKG-INFO", ".gitignore"),
        *("README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"),
    }


def test_only_the_extra_of_the_judge_in_process_excludes_transformers_4(wheel: Path) -> None:
    required: dict[str, list[Requirement]] = {"": [], "mmie-score": []}
    for requirement in map(Requirement, metadata_of(wheel).get_all("Requires-Dist", [])):
        for extra, requirements in required.items():
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                requirements.append(requirement)
    newest = {"transformers": "4.57.6", "huggingface-hub": "0.36.2", "sentencepiece": "0.1.99"}
    assert {one.name for one in required[""] if one.name in newest} == set(newest)
    assert [
        one for one in required[""] if one.name in newest and newest[one.name] not in one.specifier
    ] == []
    assert any(
        one.name == "transformers" and "4.57.6" not in one.specifier
        for one in required["mmie-score"]
    )


def test_the_changelog_begins_with_the_version_of_the_package(wheel: Path) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line.split() for line in text.splitlines() if line.startswith("## ")]
    assert headings[0][1].rstrip(",") == metadata_of(wheel)["Version"] == __version__


def relative_links(text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not re.match(r"\w+:|#", target)]


def test_no_link_of_the_page_on_a_package_index_is_relative(wheel: Path) -> None:
    page = metadata_of(wheel).get_payload()
    assert isinstance(page, str)
    assert page.startswith("# mmie-tasks\n")
    assert "](https://" in page
    assert relative_links((ROOT / "README.md").read_text(encoding="utf-8"))
    assert relative_links(page) == []


def test_with_the_owners_address_links_and_pictures_are_those_of_the_release(
    sdist: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(sdist, tmp_path / "source")
    (source / "PKG-INFO").unlink()  # or hatchling takes the metadata from it
    project = source / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("repository = "))
    filled_in = text.replace(line, 'repository = "https://host.example/us/mmie-tasks"')
    project.write_text(filled_in, encoding="utf-8")
    metadata = metadata_of(build("wheel", source, tmp_path))
    page = metadata.get_payload()
    assert isinstance(page, str)
    for target in relative_links((source / "README.md").read_text(encoding="utf-8")):
        kind = "raw" if target.endswith(".png") else "blob"
        assert f"](https://host.example/us/mmie-tasks/{kind}/v{__version__}/{target})" in page
    assert "Source, https://host.example/us/mmie-tasks" in metadata.get_all("Project-URL", [])


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_path_that_is_printed_holds_every_task_file(either: Installed) -> None:
    folder = Path(either.output_of("python", "-m", "mmie_tasks", "path").strip())
    assert files_below(folder) == files_below(TASKS)


def test_the_entry_point_is_there_and_is_the_installed_code(
    from_wheel: Installed, editable: Installed
) -> None:
    assert Path(from_wheel.output_of("python", "-c", ENTRY_POINT)).is_relative_to(from_wheel.folder)
    assert Path(editable.output_of("python", "-c", ENTRY_POINT)).is_relative_to(ROOT)


@pytest.fixture(params=["from_wheel", "editable"])
def listed(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The tasks that the runner lists, in the environment of an editable install, and of a wheel in
    a fork.

    Only the interpreter of its environment finds the checkout of an editable install.
    """
    command = ("python", "-m", "lmms_eval", "--tasks", "list")
    chosen: Installed = request.getfixturevalue(request.param)
    if request.param == "editable":
        return chosen.output_of(*command).split()
    (site_packages,) = chosen.folder.glob("lib/python*/site-packages")
    return (
        Workplace(folder=tmp_path)
        .run(*command, PYTHONPATH=f"{site_packages}{os.pathsep}{STARTUP}")
        .output.split()
    )


def test_the_runner_lists_every_task_of_ours(listed: list[str]) -> None:
    ours = {name for path in TASKS.rglob("*.yaml") for name in names_in(path)}
    assert ours
    assert ours - set(listed) == set()


class AnyTag(yaml.SafeLoader):
    """Takes `!function` for a word."""


AnyTag.add_multi_constructor("!", lambda _loader, _suffix, node: node.value)


def names_in(path: Path) -> list[str]:
    """The name of the task or group in a YAML file; a template has none."""
    loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=AnyTag)  # noqa: S506 - a SafeLoader
    return [name for key in ("task", "group") if isinstance(name := loaded.get(key), str)]
