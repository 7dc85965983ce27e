"""A wheel carries the package whole, and lmms-eval finds its tasks there. `make dist` checks both
archives.
"""

from __future__ import annotations

import os
import re
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.fork_server import STARTUP
from support.runner import Workplace
from support.wheels import build, unpack

from mmie_tasks import __version__

ROOT = Path(__file__).resolve().parents[1]
TASKS = ROOT / "task_yamls"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


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


def test_only_the_extra_of_the_judge_in_process_excludes_transformers_4(wheel: Path) -> None:
    required: dict[str, list[Requirement]] = {"": [], "mmie-score": []}
    for requirement in map(Requirement, metadata_of(wheel).get_all("Requires-Dist", [])):
        for extra, requirements in required.items():
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                requirements.append(requirement)
    newest = {"transformers": "4.57.6", "huggingface-hub": "0.36.2", "sentencepiece": "0.1.99"}
    named = [one for one in required[""] if one.name in newest]
    assert {one.name for one in named} == set(newest)
    assert [one for one in named if newest[one.name] not in one.specifier] == []
    of_judge = [one for one in required["mmie-score"] if one.name == "transformers"]
    assert any("4.57.6" not in one.specifier for one in of_judge)


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
    assert relative_links((ROOT / "README.md").read_text(encoding="utf-8"))
    assert relative_links(page) == []


def test_lmms_eval_lists_every_task_of_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    unpack(wheel, tmp_path / "site")
    path = os.pathsep.join(map(str, (tmp_path / "site", STARTUP)))
    workplace = Workplace(folder=tmp_path)
    command = ("python", "-m", "lmms_eval", "--tasks", "list")
    listed = workplace.run(*command, PYTHONPATH=path).output.split()
    texts = [file.read_text(encoding="utf-8") for file in TASKS.rglob("*.yaml")]
    ours = {name for text in texts for name in re.findall(r"(?m)^(?:task|group): (\S+)$", text)}
    assert len(ours) > 30
    assert ours - set(listed) == set()
