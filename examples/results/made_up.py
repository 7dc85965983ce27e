"""Answers of a second model, replies of a second judge and people's scores, all made up by us.

The second model, B, answers in few words and with few pictures. No model, judge or person produced
any of it.
"""

from __future__ import annotations

Part = str | tuple[str, str]  # a text, or a text and the name of a picture
Mark = tuple[str, str]  # the reasons, and the points, 0 to 6

# B on MMIE: its answer, and the first judge's mark. The official script leaves out MSR-3, so it has
# none.
MMIE: dict[str, tuple[tuple[Part, ...], Mark | None]] = {
    "SA-1": (("Part 2: The kite flies.",), ("It stops before the tree, and shows nothing.", "2")),
    "SA-2": (
        ("Part 2: They build a man of snow. Part 3: He is gone.",),
        ("The whole story, told without a picture.", "3"),
    ),
    "SA-3": (
        (("Part 2: They fish all day. Part 3: They sail home by moonlight.", "drawn-night"),),
        ("It fits the beginning, and the one picture fits it.", "4"),
    ),
    "PBL-1": (
        (("Step 2: Draw a roof. Step 3: Draw a door.", "drawn-roof"),),
        ("Right, and the roof is shown; the door is not.", "5"),
    ),
    "PBL-2": (
        ("Step 2: Two wires go from the battery to the lamp.",),
        ("Right, and short. A picture would help.", "4"),
    ),
    "PBL-3": (
        ("Step 2: Wash two apples, cut them, and put them in.",),
        ("One could follow it, with no picture to look at.", "4"),
    ),
    "PBL-4": (("Step 2: Draw a boat.",), ("This says no more than the question did.", "1")),
    "MSR-1": (("4",), ("There are five discs, not four.", "1")),
    "MSR-2": (("6",), ("The product is right.", "6")),
    "MSR-3": (("6",), None),
    "MSR-4": (("There are 3 more.",), ("Four less one is three.", "6")),
}

# B on MIA-Bench: its answer, then marks, total and reasons, in the order of the samples.
MIA_BENCH: tuple[tuple[str, str, str, str], ...] = (
    ("A red boat is on the water.", "6/6 0/4", "6/10", "That is one sentence, not two."),
    (
        "A yellow house in morning light,\nits windows blue, its garden bright;\nits roof is red.",
        *("4/4 3/3 3/3", "10/10", "All is there."),
    ),
    (
        'The words "OPEN 24" were put there for people who come late.',
        *("4/4 1/2 2/2 2/2", "9/10", "It explains little."),
    ),
    (
        "Three red, two green; the product is six. Red is more frequent. Do you like apples?",
        *("2/2 2/2 2/2 2/2 2/2", "10/10", "The question has four words."),
    ),
    ("The cat woke up and ate.", "2/4 0/3 3/3", "5/10", "Somebody else tells it."),
    ("It is three.", "5/5 0/5", "5/10", "The word is missing."),
    ("Sunny and warm.", "4/4 4/4", "8/10", "Two adjectives, and the sun."),
    ("Balloons for every heart!", "4/6 0/4", "4/10", "It mentions no colour."),
)

# The second judge on the answers of the first model, A.
OTHER_JUDGE: dict[str, Mark] = {
    "SA-1": ("A good story; the second picture is hard to make out.", "4"),
    "SA-2": ("It ends as it should.", "4"),
    "SA-3": ("Nobody asked for the score at its end. There is little else.", "2"),
    "PBL-1": ("Clear, and well drawn.", "6"),
    "PBL-2": ("Right, if terse.", "4"),
    "PBL-4": ("One step for two.", "2"),
    "MSR-1": ("Five is right.", "6"),
    "MSR-2": ("Right, though not the number alone.", "5"),
    "MSR-4": ("The answer is wrong.", "0"),
}

# People on the answers of A, 0 to 6. There is no answer to PBL-3, so nobody rated it; MSR-3 was
# rated and is not judged.
PEOPLE: dict[str, str] = dict(
    zip(MMIE, ("5", "3", "1", "6", "4", "", "3", "6", "6", "6", "1"), strict=True)
)
