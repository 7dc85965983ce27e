"""Small versions of everything that is downloaded, for a `HubServer`."""

import io
import json
import os
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from support.internvl_golden import CHECKPOINT
from support.mmie_data import conversations_folder

ONE, CONTENT = "owner/images", os.urandom(50_000)
MMIE, ANNOTATION, ARCHIVE = "MMIE/MMIE", "data.json", "images.tar.gz"
SCORE = "MMIE/MMIE-Score"
UNWANTED = ("modeling.py", "pytorch_model.bin", "README.md", "checkpoint-1/model.safetensors")
MIA_BENCH, PARQUET = "lmms-lab-encoder/MIA-Bench", "data/test-00000-of-00001.parquet"
MIA_BENCH_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mia_bench" / "data"


def archive(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


def one_file():
    return {(ONE, "a/one.bin"): CONTENT}


def mmie_files(n=3, prefix="images/"):
    """MMIE with `n` samples, and a file that must not be downloaded."""
    with TemporaryDirectory() as temporary:
        folder = conversations_folder(Path(temporary), n)
        images = sorted((folder / "images").iterdir())
        return {
            (MMIE, ANNOTATION): (folder / ANNOTATION).read_bytes(),
            (MMIE, ARCHIVE): archive((f"{prefix}{one.name}", one.read_bytes()) for one in images),
            (MMIE, "overview.json"): b"[]",
        }


def checkpoint_files():
    """The tiny checkpoint, and files that must not be downloaded."""
    checkpoint = sorted(CHECKPOINT.iterdir())
    unwanted = {(SCORE, name): b"unwanted" for name in UNWANTED}
    return {(SCORE, path.name): path.read_bytes() for path in checkpoint} | unwanted


def mia_bench_rows():
    """The samples of the example, each picture its file's bytes."""
    annotation = MIA_BENCH_EXAMPLE / "instruction_benchmark_all.json"
    rows = json.loads(annotation.read_text(encoding="utf-8"))
    return [
        {**row, "image": {"bytes": (MIA_BENCH_EXAMPLE / row["image"]).read_bytes(), "path": None}}
        for row in rows
    ]


def mia_bench_files(edit=lambda _: None):
    """The example of MIA-Bench, edited."""
    rows = mia_bench_rows()
    edit(rows)
    readme = b"---\nlicense: other\n---\n"
    return {(MIA_BENCH, "README.md"): readme, (MIA_BENCH, PARQUET): parquet(rows)}


def parquet(rows):
    """A parquet file as the dataset on the Hub has it."""
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    return content.getvalue()
