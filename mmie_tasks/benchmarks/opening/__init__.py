"""OpenING: questions of 23 topics, answered with texts and pictures, judged on 7 metrics."""
