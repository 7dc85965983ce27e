"""Where a checkpoint is, which files are downloaded, and the errors of a failed download."""

import pytest
from support.hub_files import SCORE as REPO
from support.hub_files import UNWANTED, checkpoint_files
from support.hub_process import TOKEN, ask
from support.hub_server import COMMIT, HubServer
from support.internvl_golden import CHECKPOINT

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import DEFAULT_MODEL
from mmie_tasks.judges.mmie_score.checkpoint import locate, open_checkpoint

NEWER = "beef" * 10

LOCATE = """
import os
from loguru import logger
lines = []
logger.add(lambda line: lines.append(str(line)), format="{message}")
from mmie_tasks.judges.mmie_score.checkpoint import locate
located = locate("MMIE/MMIE-Score", None)
answer = {"folder": str(located.folder), "name": located.name, "log": "".join(lines)}
"""


@pytest.fixture
def hub():
    with HubServer(checkpoint_files()) as server:
        yield server


def located(hub, home):
    return ask(hub.url, home, LOCATE)


@pytest.mark.parametrize(
    ("model", "revision", "message"),
    [
        pytest.param("/no/such/folder", None, "is neither a folder", id="absolute"),
        pytest.param("~/nothing-here", None, "is neither a folder", id="home"),
        pytest.param(__file__, None, "is neither a folder", id="file"),
        pytest.param("judge", None, "is neither a folder", id="one-word"),
        pytest.param("https://hub/a/b", None, "is neither a folder", id="address"),
        pytest.param(str(CHECKPOINT), "main", "`revision=main` is set for the folder", id="both"),
        pytest.param("owner/name", "../x", "`revision=../x` is not a branch", id="escape"),
        pytest.param("owner/name", "-x", "`revision=-x` is not a branch", id="option"),
    ],
)
def test_a_model_that_is_neither_folder_nor_repository_is_refused(model, revision, message):
    with pytest.raises(JudgeMisconfigured) as caught:
        locate(model, revision)
    assert message in str(caught.value)


def test_a_checkpoint_is_downloaded_completely_and_its_branch_stays_at_a_commit(hub, tmp_path):
    first = located(hub, tmp_path)
    assert DEFAULT_MODEL == REPO
    assert first["name"] == f"MMIE/MMIE-Score@{COMMIT}"
    assert f"`main` is commit {COMMIT} from now on" in first["log"]
    assert set(hub.downloads("GET")) == {path.name for path in CHECKPOINT.iterdir()}
    assert not set(hub.downloads("HEAD")) & {name.split("/")[-1] for name in UNWANTED[:3]}
    assert {request.token for request in hub.requests} == {f"Bearer {TOKEN}"}
    assert open_checkpoint(locate(first["folder"], None)).end_token_id == 987
    hub.commit = NEWER
    again = located(hub, tmp_path)
    assert again["folder"] == first["folder"]
    assert "as when it was first used" in again["log"]
    (tmp_path / "hf/hub/models--MMIE--MMIE-Score/refs/main").unlink()
    assert located(hub, tmp_path)["name"] == f"MMIE/MMIE-Score@{NEWER}"
