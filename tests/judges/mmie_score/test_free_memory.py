"""What a process may take: of the machine, and of the container it is in."""

from pathlib import Path

import pytest
import torch

from mmie_tasks.judges.mmie_score import devices as asked_now
from mmie_tasks.judges.mmie_score.devices import container_left, free_bytes

CPU = torch.device("cpu")
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


def machine(root, group, files):
    written = {"proc/self/cgroup": group} | files
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("group", "files", "left"),
    [
        pytest.param("", {}, None, id="no groups"),
        pytest.param("0::/\n", {}, None, id="the top group has no limit"),
        pytest.param(
            "0::/\n", {f"{V2}/memory.max": "max\n", f"{V2}/memory.current": "5\n"}, None, id="max"
        ),
        pytest.param(
            "0::/\n",
            {f"{V2}/memory.max": "1000\n", f"{V2}/memory.current": "600\n"},
            400,
            id="version 2",
        ),
        pytest.param(
            "0::/\n",
            {
                f"{V2}/memory.max": "1000\n",
                f"{V2}/memory.current": "600\n",
                f"{V2}/memory.stat": "anon 1\nfile 9\ninactive_file 150\n",
            },
            550,
            id="files that can be dropped",
        ),
        pytest.param(
            "0::/a/b\n",
            {
                f"{V2}/a/b/memory.max": "max\n",
                f"{V2}/a/b/memory.current": "1\n",
                f"{V2}/a/memory.max": "100\n",
                f"{V2}/a/memory.current": "130\n",
            },
            0,
            id="the group above is full",
        ),
        pytest.param(
            "3:cpu:/x\n2:hugetlb,memory:/x\n",
            {
                f"{V1}/x/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/x/memory.usage_in_bytes": "5\n",
                f"{V1}/memory.limit_in_bytes": "800\n",
                f"{V1}/memory.usage_in_bytes": "500\n",
                f"{V1}/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            },
            400,
            id="version 1",
        ),
    ],
)
def test_a_container_leaves_what_its_limits_say(tmp_path, group, files, left):
    assert container_left(machine(tmp_path, group, files)) == left


@pytest.mark.parametrize(("left", "limited"), [(None, False), (2**60, False), (2**20, True)])
def test_no_more_is_free_than_the_container_leaves(monkeypatch, left, limited):
    monkeypatch.setattr(asked_now, "container_left", lambda _: left)
    assert free_bytes(CPU) > 0
    assert (free_bytes(CPU) == 2**20) == limited


def test_this_machine_can_be_asked():
    left = container_left(Path("/"))
    assert left is None or left >= 0


def test_a_gpu_is_asked_itself_after_torch_gave_back_what_it_kept(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append("empty"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: asked.append(device) or (7, 9))
    assert free_bytes(torch.device("cuda", 1)) == 7
    assert asked == ["empty", torch.device("cuda", 1)]
