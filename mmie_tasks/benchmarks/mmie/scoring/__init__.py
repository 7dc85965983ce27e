"""From a judge's reply to points, and from points to the paper's percentages."""
