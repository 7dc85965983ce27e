"""A judged benchmark of another package: one sentence about a picture."""
