"""``mmie-tasks prefetch``: everything a run downloads, brought beforehand.

For machines without internet: what is fetched here is fetched by the functions that a run calls, so
a run finds it, and `mmie-tasks doctor` finds it with ``HF_HUB_OFFLINE=1``. A benchmark is asked
through ``prefetch.py`` in its room, a judge of ours through ``prefetch.py`` in its package, where
they have one: each has a function ``items``.
"""
