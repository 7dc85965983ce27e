"""Log lines with invalid content, and any JSON."""

import math

from hypothesis import strategies as st

from mmie_tasks.record.record import BadRecord

JUNK = [None, 3, -1.5, math.nan, 10**400, "x", [], [1], ["x"], {}, {"a": 1}, True]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


def spoil(value, lots, junk):
    """Replace one random value, at any depth, with junk."""
    key = lots.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
    if isinstance(value[key], (dict, list)) and value[key] and lots.random() < 0.8:
        spoil(value[key], lots, junk)
    else:
        value[key] = junk


def outcome(read, line):
    """The result of reading a line, or the message of its error; other exceptions are raised."""
    try:
        return read(line)
    except BadRecord as error:
        return str(error)
