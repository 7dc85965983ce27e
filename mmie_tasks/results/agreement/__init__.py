"""``mmie-tasks agreement``: how well judges and people agree."""
