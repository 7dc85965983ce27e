"""The environment variables that name the model of the judge `openai`."""

from __future__ import annotations

MODEL_VARIABLES = ("JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION")
"""In order of precedence."""
