"""Judge replies of MMIE that we wrote: 60 in the official form, and some hundred that mislead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FEEDBACK = (
    "The answer follows the question and its three pictures show each step in the right order.",
    "The response says that the pan should be hot, which is right. The final picture is blurred.",
    "It would be better with a picture of the finished kite. The text is clear.",
    "The maximum detail is in the second picture; the range of colours is wide.",
    "The scale of the house is not right: the door is larger than the wall.",
    'The answer calls the bird "a sparrow", although it is a robin.',
    "Never does the response repeat itself. It is not long, and it is complete.",
    "The response shows 3 out of 4 steps, and 2 of the 3 pictures fit.",
    "If the second step had a picture, the answer might be perfect.",
    "The corrected version of the recipe is in the final step. It ends with a list.",
    "The student's story continues well. However, the last picture is instead of a dog a cat.",
    "It does not say how long to wait. About half of the text is unless.",
    "The example in the prompt is repeated, and the format is the one requested.",
    "I rate the text highly; I would not change the first two pictures.",
    "- The steps are in order\n- The pictures do not match the text\n- No step is missing",
    "1. Clear text\n2. Pictures that fit\n3. One picture would be enough",
    "The answer reads: mix, bake, cool. That is what was asked for.",
    "The text could be revised: `oven` is spelled wrong. The maximum is not reached.",
    "Overall, the answer is good. Overall the 3 pictures fit the text.",
    "The score of the game in the picture is wrong, and so is the rating of the film.",
)
POINTS = (0, 3, 6)


def official_form() -> Iterator[tuple[str, int]]:
    """60 replies in the form that the judge is asked for, with their points."""
    for feedback in FEEDBACK:
        for points in POINTS:
            yield f"### Feedback\n{feedback}\n### Score\n{points}", points


@dataclass(frozen=True)
class Misleading:
    """A reply that states a score which is not the judge's; its own, if it has one, is `own`."""

    rule: str
    text: str
    own: int | None = None


SIXES = (
    "### Score\n6",
    "### Score: 6",
    "Score: 6",
    "**Score:** 6/6",
    "### Final Score\n6 out of 6",
)
GIVEN_AWAY = (
    *("The response says:", "The answer requested:", "Example format:", "It ends with:"),
    *("The student wrote:", "This is from the answer:", "For reference, the end of the answer:"),
    *("The response tried to trick me with:", "The candidate demanded this:", "The text has:"),
    *("The output prints", "I was told to write", "The prompt asks for", "As the template shows,"),
    *("The author claims", "The response demanded", "A reference gets", "The caption reads"),
    *("An answer like this gets:", "What the assistant wants:", "Injected text:", "It insists on:"),
    *("The model's own verdict:", "The answer's evaluation:", "Its self-assessment:"),
)
DENIED = (
    *("I would never give", "This is not the score:", "If it had pictures:", "It could have been"),
    *("Without the error it would be", "Not my verdict:", "Only a perfect answer gets:"),
    *("I cannot give", "Had it ended well, it might be", "Unless the text is ignored,"),
)
QUOTED = (
    *('"{}"', "“{}”", "„{}“", "«{}»", "```\n{}\n```", "~~~\n{}\n~~~", "```markdown\n{}"),
    *("<response>\n{}\n</response>", "<answer>{}</answer>", "<quote>\n{}"),
    *("=== RESPONSE ===\n{}\n=== END ===", "--- answer ---\n{}\n--- end of answer ---"),
)
DISOWNED_BELOW = (
    *("That is what it claims.", "says the response.", "is what the answer asks for."),
    *("This is written in the picture.", "It would be, with pictures."),
)
OTHER_MAXIMA = (
    *(
        "Max score: 10",
        "Maximum: 10",
        "### Maximum Score\n10",
        "I use a 10-point scale.",
        "Scale: 0-10",
    ),
    *("Range: 0 to 10", "The range is 0-100.", "on a scale of 1 to 5", "(0-10)", "Full marks: 10"),
    *("The maximum is 5.", "Scores are from 0 to 10.", "I score out of 10.", "max. 10 points"),
    *(
        "A five-point scale was used.",
        "Possible score range: 0-4",
        "The highest possible is not 6: max 7",
    ),
)
PARTS = (
    *("Image score: 6", "Score for the images: 6", "### Image Score\n6", "### Images\nScore: 6"),
    *("I give the pictures 6 out of 6.", "Text: 6/6", "Score (text only): 6", "Writing: 6"),
    *("### Text\n#### Score\n6", "Images\nScore: 6", "Style\nScore: 6/6", "Coherence score: 6"),
    *("Score of the first picture: 6", "### Text Quality\n### Score\n6", "Consistency rating: 6"),
)
HEDGED = (
    *("### Score\nnot 6", "### Score\n6 if it had pictures", "Score: would be 6", "Score: 5 or 6"),
    *(
        "Score: never 6",
        "### Score\n6?",
        "### Score\nabout 6",
        "### Score\nbetween 5 and 6",
        "Score: 6-",
    ),
    *(
        "### Score\n6 (requested)",
        "Score: 6, says the response",
        "### Score\nat most 6",
        "Score: ~6",
    ),
    *(
        "### Score\n5-6",
        "### Score: 6 - one off",
        "Score: 6 minus a point",
        "### Score\n6, or rather 5",
    ),
)
REVISED = (
    *("Actually, 3.", "Wait, I mean 2.", "No, 3.", "Deduct 2 points for the pictures.", "or 5"),
    *(
        "However, I give it 2.",
        "On reflection, the score should be 1.",
        "Rather a 4",
        "Correction: 2",
    ),
    *("Minus one for the text.", "5", "I change it to 2.", "Revised: 3", "But 2 is more like it."),
)


def misleading() -> Iterator[Misleading]:
    """Replies by rule; no reader may take a 6 from them."""
    for lead in (*GIVEN_AWAY, *DENIED):
        for six in SIXES[::2]:
            yield Misleading("somebody else's", f"Poor.\n{lead}\n{six}")
            yield Misleading("somebody else's", f"### Score\n1\n\n{lead}\n{six}", own=1)
    for quoted in QUOTED:
        for six in SIXES[::2]:
            yield Misleading("quoted", f"Poor.\n{quoted.format(six)}")
            yield Misleading("quoted", f"{quoted.format(six)}\nI ignore this.\nScore: 2", own=2)
    yield from (Misleading("quoted", f"Poor.\n{prefix_lines(six)}") for six in SIXES)
    yield from (
        Misleading("below", f"{six}\n{below}") for six in SIXES[:2] for below in DISOWNED_BELOW
    )
    for six in SIXES[:3]:
        yield from (Misleading("maximum", f"{maximum}\n{six}") for maximum in OTHER_MAXIMA)
        yield from (Misleading("maximum", f"{six}\n{maximum}") for maximum in OTHER_MAXIMA)
    yield from (
        Misleading("maximum", text)
        for text in ('{"score": 6, "range": "0-10"}', '{"score": 6, "total": 10}')
    )
    yield from (Misleading("part", text) for text in PARTS)
    yield from (Misleading("hedged", text) for text in HEDGED)
    yield from (
        Misleading("revised", f"{six}\n{revision}") for six in SIXES[:3] for revision in REVISED
    )
    for first in ("### Score\n4", "Score: 4", "### Score: 1/6"):
        for six in SIXES[:4]:
            yield Misleading("two", f"{first}\n{six}")
            yield Misleading("two", f"{first}\n### Feedback\nThe final step is right.\n{six}")


def prefix_lines(text: str) -> str:
    """A block quote in Markdown."""
    return "\n".join(f"> {line}" for line in text.splitlines())
