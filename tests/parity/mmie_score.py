"""The judge MMIE-Score, on recorded outputs of the official pipeline with a tiny checkpoint.

`tests/golden/internvl/README.md` says how they were made.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from support import internvl_golden as golden

from parity.comparison import Check, Comparison, Folders, compared


def tokens(_folders: Folders) -> Comparison | None:
    """The tokens that transformers' engine generates, and their text."""
    if version("transformers").startswith("4."):
        return None
    import torch
    from support.judge_engines import CPU, golden_prompts, open_folder, outputs

    from mmie_tasks.judges.mmie_score.inputs import reply_text
    from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

    checkpoint = open_folder(golden.CHECKPOINT)
    engine = TransformersEngine.start(checkpoint, device=CPU, dtype=torch.float32)
    generated = outputs(engine, golden_prompts())

    def text(ids: list[int]) -> str:
        return reply_text(checkpoint.tokenizer.decode(ids))

    return compared(
        [
            (case.name, [list(case.output_ids), case.response], [generated[n], text(generated[n])])
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
