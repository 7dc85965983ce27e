"""``mmie-tasks rescore``: saved runs, read again by the current readers."""
