"""``mmie-tasks rescore``: applies the current readers to saved runs."""
