"""The public names, and that pages, examples and tests of other packages' code use no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import mmie_tasks
from mmie_tasks import extend

ROOT = Path(__file__).resolve().parents[1]
OWN_SCRIPT = "a script of this repository, not an example of use"
"""Is in the docstring of a script that makes files of an example, and may import anything."""

PUBLIC = """
Asset Benchmark BenchmarkJudge DataBroken DataMissing Doc Facts Judge JudgeMisconfigured
JudgeOptions JudgeRefused JudgeReply JudgeRequest JudgeResult JudgeUnavailable Metric
MmieTasksError Outcome PublishedRow Record ReplySchema RequestUnfit Scale Scored Signature
TaskSettings Unscored Usage Verdict Verdicts aggregation check_images coverage write_answer
"""

NAMES = {name for name in vars(extend) if not name.startswith("_")}

_ADDRESS = re.compile(
    r"""(?:!function|\bfrom|\bimport)\s+
    (?!\S*<)                     # an address with a placeholder is of a file that is yet to be
    (mmie_tasks(?:\.\w+)*)""",
    re.VERBOSE,
)
"""An import, or a function that a task file names. A file named by its path, an entry-point group,
``python -m`` and the reference's directives, which say where a type is defined, are neither.
"""


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert set(PUBLIC.split()) == NAMES
    assert sorted(mmie_tasks.__all__) == ["__version__", "judge", "load_run"]


def addresses_in_text(text: str) -> set[str]:
    """The imports in a page's code and prose, and the functions that a task file names."""
    return set(_ADDRESS.findall(text))


def addresses_in_code(source: str) -> set[str]:
    """The modules of ours that a Python file imports, also inside functions."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            modules.append(node.module or "")
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return {module for module in modules if module.partition(".")[0] == "mmie_tasks"}


def is_public(address: str) -> bool:
    module, _, name = address.rpartition(".")
    is_public_name = module == "mmie_tasks.extend" and name in NAMES
    return address in ("mmie_tasks", "mmie_tasks.extend") or is_public_name


def private_addresses(path: Path) -> set[str]:
    """What a page, a task file or a Python file uses of ours that is not public."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        addresses = addresses_in_text(text)
    elif OWN_SCRIPT in (ast.get_docstring(ast.parse(text)) or ""):
        addresses = set()
    else:
        addresses = addresses_in_code(text)
    return {address for address in addresses if not is_public(address)}


def files_of_users() -> Iterator[Path]:
    """Every page, the examples, and the tests of other packages' extensions."""
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    for folder in ("mmie_tasks", "examples", "tests"):
        yield from (ROOT / folder).rglob("README.md")
    for pattern in ("*.py", "*.yaml", "*.toml"):
        yield from (ROOT / "examples").rglob(pattern)
    yield from (ROOT / "tests" / "seam").glob("test_own_*.py")
    yield from (ROOT / "tests" / "support" / f"{name}.py" for name in ("judges", "sketch_task"))


def test_pages_examples_and_tests_of_other_packages_use_public_names_only() -> None:
    private = {path: private_addresses(path) for path in files_of_users()}
    assert {path.relative_to(ROOT).as_posix(): used for path, used in private.items() if used} == {}
