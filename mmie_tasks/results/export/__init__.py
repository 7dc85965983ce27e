"""``mmie-tasks export``: runs in the formats of others."""
