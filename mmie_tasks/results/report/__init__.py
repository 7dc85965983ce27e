"""``mmie-tasks report``: one HTML file with scores, charts and samples of runs."""
