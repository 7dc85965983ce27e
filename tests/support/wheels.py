"""Builds packages with hatchling and installs them by unpacking, without pip and the network."""

import subprocess
import sys
import zipfile

_BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def build(kind, project, folder):
    """Build a wheel, the wheel of an editable install, or a source distribution into a folder."""
    process = subprocess.run(
        [sys.executable, "-c", _BUILD, f"build_{kind}", str(folder)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return folder / process.stdout.split()[-1]


def unpack(wheel, folder):
    """Install a wheel: package and entry points; no console scripts."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
