"""The environment variables that name the model and the server of the judge `openai`."""

from __future__ import annotations

MODEL_VARIABLES = ("JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION")
"""In order of precedence."""

OWN_URL_VARIABLE = "JUDGE_BASE_URL"
"""Names the server of judges alone; the others are read for tested models, too."""

OWN_ADDRESS_HINT = (
    f"`{OWN_URL_VARIABLE}=...` or `--judge_args base_url=...` names a server for the judge alone"
)
