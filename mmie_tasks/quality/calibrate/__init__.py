"""``mmie-tasks calibrate``: a judge's mean, corrected with people's scores of a random sample."""
