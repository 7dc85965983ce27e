"""``mmie-tasks compare``: paired differences of two runs."""
