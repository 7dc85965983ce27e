"""What to do where the judge and the tested model do not fit together."""

from __future__ import annotations

TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with "
    "`--predict_only --output_path OUT`, then score its answers with `--model predictions "
    "--model_args path=OUT` and the same `--tasks`"
)
