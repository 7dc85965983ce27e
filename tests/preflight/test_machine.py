"""Where a made-up package is imported from, and its other copies."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.runner import write

from mmie_tasks.preflight.machine import check_copies

WHEEL, CLONE = "wheel 1.1", "clone"
OTHERS = "warning there are other copies, which are not imported:"
EGG_INFO, EDITABLE = "egg-info 1.0", "editable 1.0"


def install(folder: Path, *kinds: str) -> None:
    """Put into `folder/site` and `folder/clone` what an installer or a checkout puts there."""
    site, clone = folder / "site", folder / "clone"
    for kind in kinds:
        name, _, version = kind.partition(" ")
        metadata = f"Metadata-Version: 2.1\nName: made-up\nVersion: {version}\n"
        if name == "wheel":
            write(site / "made_up" / "__init__.py", "")
            write(site / "made_up-1.1.dist-info" / "METADATA", metadata)
        elif name == "clone":
            write(clone / "made_up" / "__init__.py", "raise AssertionError('it is imported')")
        elif name == "egg-info":
            write(clone / "made_up.egg-info" / "PKG-INFO", metadata)
        elif name == "editable":
            info = site / "made_up-1.0.dist-info"
            url = {"url": clone.as_uri(), "dir_info": {"editable": True}}
            write(info / "METADATA", metadata)
            write(info / "direct_url.json", json.dumps(url))
        else:
            write(folder / name, "")


@pytest.mark.parametrize(
    ("kinds", "path", "expected"),
    [
        pytest.param([WHEEL], ["site"], ["ok 1.1, imported from `site/made_up`"], id="wheel"),
        pytest.param(
            [CLONE, EGG_INFO, EDITABLE],
            ["site", "clone"],
            ["ok 1.0, imported from `clone/made_up`"],
            id="editable-clone",
        ),
        pytest.param(
            [CLONE, EDITABLE, WHEEL],
            ["site"],  # the finder of an editable install comes after the path
            ["ok 1.1, imported from `site/made_up`", f"{OTHERS} `clone/made_up` (1.0)"],
            id="editable-clone-and-wheel",
        ),
        pytest.param(
            [CLONE, WHEEL],
            ["clone", "site", "clone"],
            [
                "ok a copy unknown to pip, imported from `clone/made_up`",
                f"{OTHERS} `site/made_up` (1.1)",
            ],
            id="clone-on-the-path",
        ),
        pytest.param(
            [WHEEL, "other/made_up/__init__.py"],
            ["site", "other"],
            ["ok 1.1, imported from `site/made_up`", f"{OTHERS} `other/made_up` (unknown to pip)"],
            id="hidden-copy",
        ),
        pytest.param(
            [WHEEL, "other/made_up.py"],
            ["other", "site"],
            [
                "ok a copy unknown to pip, imported from `other/made_up.py`",
                f"{OTHERS} `site/made_up` (1.1)",
            ],
            id="file-of-that-name",
        ),
        pytest.param(
            [WHEEL, "other/made_up/notes.txt"],
            ["other", "site"],
            ["ok 1.1, imported from `site/made_up`"],
            id="folder-without-code",
        ),
        pytest.param(
            [EDITABLE], ["site"], ["problem is installed, but its code is gone"], id="clone-is-gone"
        ),
        pytest.param([], ["site"], ["problem is not installed"], id="not-installed"),
    ],
)
def test_the_imported_copy_is_named_and_others_are_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kinds: list[str],
    path: list[str],
    expected: list[str],
) -> None:
    install(tmp_path, *kinds)
    monkeypatch.setattr(sys, "path", [str(tmp_path / name) for name in path])
    findings = list(check_copies("made-up", "made_up"))
    lines = [f"{finding.status} {finding.message}" for finding in findings]
    assert [line.replace(f"{tmp_path}/", "") for line in lines] == expected
    assert all(finding.hint for finding in findings if finding.status != "ok")
