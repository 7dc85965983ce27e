"""``mmie-tasks export``: runs in other projects' formats."""
