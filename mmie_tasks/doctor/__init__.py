"""``mmie-tasks doctor``: what a long run needs, looked at before it begins.

Nothing large is downloaded, no weights are read, and nothing is generated. A benchmark is asked
through ``doctor.py`` in its room, a judge through ``doctor.py`` in its package, where they have
one: each has a function ``look`` that gives findings.
"""
