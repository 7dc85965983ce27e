"""Facts of the machine for ``make gpu``: needs torch and nothing else, and ends with a sentence if
something is missing.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

NEEDED = {
    "torch": "torch",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "loguru": "loguru",
    "pydantic": "pydantic",
    "safetensors": "safetensors",
    "sentencepiece": "sentencepiece",
    "PIL": "pillow",
    "numpy": "numpy",
}
"""What the checks import, with the name that installs it."""


def missing() -> list[str]:
    """Packages to install."""
    return [package for module, package in NEEDED.items() if find_spec(module) is None]


def describe(name: str) -> str:
    """A device and the versions on this machine, in one line; starts CUDA on a GPU."""
    import torch

    facts = []
    if name.startswith("cuda"):
        device = torch.device(name if ":" in name else "cuda:0")
        gpu = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        facts += [
            gpu.name,
            f"compute capability {gpu.major}.{gpu.minor}",
            f"{gpu.multi_processor_count} SMs",
            f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
            _driver(device.index),
        ]
    else:
        facts.append("a CPU")
    facts.append(f"torch {torch.__version__}")
    if name.startswith("cuda"):
        facts += [f"CUDA {torch.version.cuda}", f"cuDNN {torch.backends.cudnn.version()}"]
    return ", ".join([*facts, f"triton {_triton()}", f"transformers {_version('transformers')}"])


def _driver(index: int) -> str:
    """Driver, compute mode and MIG, by ``nvidia-smi``, which counts all GPUs of the machine."""
    query = "--query-gpu=index,driver_version,compute_mode,mig.mode.current"
    try:
        printed = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader", f"--id={index}"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "driver unknown"
    parts = [part.strip() for part in printed.strip().split(",")]
    return "driver {1}, compute mode {2}, MIG {3}".format(*parts) if len(parts) == 4 else printed


def _triton() -> str:
    """The version by the module: nightly and ROCm wheels have other names."""
    try:
        import triton
    except ImportError:
        return "not installed"
    return str(triton.__version__)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main(name: str) -> int:
    """Print the facts, or to stderr why there are none."""
    if packages := missing():
        print(
            f"{', '.join(packages)} not installed. hint: `pip install {' '.join(packages)}`",
            file=sys.stderr,
        )
        return 1
    import torch

    if name.startswith("cuda") and not torch.cuda.is_available():
        print("torch finds no GPU it can use. hint: look at `nvidia-smi`", file=sys.stderr)
        return 1
    try:
        print(describe(name))
    except (RuntimeError, AssertionError, ValueError) as error:
        print(f"{name} cannot be used: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
