"""The judge MMIE-Score, on recorded outputs of the official pipeline with a tiny checkpoint.

`tests/golden/internvl/README.md` says how they were made.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from support import internvl_golden as golden

from parity.comparison import Check, Comparison, Folders, compared


def tokens(_folders: Folders) -> Comparison | None:
    """The tokens that the engine generates, and their text."""
    if version("transformers").startswith("4."):
        return None
    from support.mmie_engine import Plan, build_engine, golden_prompts, reply

    outputs = build_engine(Plan()).outputs(golden_prompts())
    return compared(
        [
            (case.name, [list(case.output_ids), case.response], [outputs[n], reply(outputs[n])])
            for n, case in enumerate(golden.cases())
        ],
        note="tokens and text, in 32-bit floats on the CPU, all cases together; no real checkpoint",
    )


def tiles(_folders: Folders) -> Comparison:
    """The pixels of the tiles that each picture is cut into."""
    from mmie_tasks.judges.mmie_score.tiles import read_tiles

    cases = []
    for case in golden.read("preprocess_cases")["images"]:
        ours = read_tiles(golden.FOLDER / case["image"], case["tile"])
        digest = hashlib.sha256(ours.tobytes()).hexdigest()
        name = f"{case['image']} in tiles of {case['tile']}"
        cases.append((name, [case["n_tiles"], case["uint8_sha256"]], [len(ours), digest]))
    return compared(cases, note="bit for bit")


CHECKS = tuple(
    Check("InternVL's code, recorded", compares, (), run)
    for compares, run in (
        ("output of MMIE-Score with a tiny checkpoint", tokens),
        ("tiles of pictures for MMIE-Score", tiles),
    )
)
