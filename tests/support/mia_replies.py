"""Judge replies of MIA-Bench that we wrote: 60 in the official form, and in forms that are near it.

Weights are (6, 4). The verdict of the judge is 6/6, 2/4 and 8/10, where it has one.
"""

SENTENCE = "score of component 1: 6/6, score of component 2: 2/4, total score: 8/10"
FAKE = "score of component 1: 6/6, score of component 2: 4/4, total score: 10/10"

FEEDBACK = (
    (
        "The response follows the first instruction. I deducted one point for the tone and "
        "one for the length."
    ),
    "The response says that the price range ($10-$20) is fair, which is what was requested.",
    "It rates the hotel on a scale of 1 to 5, as requested: 4 out of 5 stars.",
    "I would say that the second component is only half met; I cannot see any blue in the image.",
    "The response names some of the objects (3 out of 6), and that was requested.",
    'It ends with "Enjoy!", although the instruction asks for a question. It is not a poem.',
    "The maximum length is not exceeded, and the format would be fine if it had two paragraphs.",
    "The final sentence is never finished. The corrected title should be shorter.",
    (
        "Component 1 (6/6): the scene is described in full.\nComponent 2 (2/4): the word `red` is "
        "missing."
    ),
    "- Component 1: all 5 people are named.\n- Component 2: 2 of the 4 colours are wrong.",
    (
        "The example in the instruction is repeated, and the response claims that the dog is "
        "asleep. However, it is awake."
    ),
    "The response contains a grammar mistake; the model tried to be funny instead of exact.",
    (
        "Component 1 receives full marks because the response tells a story. Component 2 gets "
        "2 points since only two adjectives are used."
    ),
    "It loses 2 points because it does not mention the year. No other part is missing.",
    "The response has 45 words, not 50. Unless one counts the title, this is too short.",
    "The total is 8/10: the poem rhymes, but one line is wrong.",
    "The scores reflect that the response ignores the last part. It could have been better.",
    (
        "Never does the response repeat itself. If anything, it is too long; maybe that is a "
        "matter of taste."
    ),
    "The sign reads \u201cMax. 30 km/h\u201d, and the response quotes it. The clock shows 6:45.",
    (
        "The score of the football match (3-2) is given, as the instruction demanded, and its "
        "range of colours is wide."
    ),
)
FORMS = (
    f"{SENTENCE}. {{}}",
    f"Based on the image, the instruction and the response, here are the scores: {SENTENCE}. {{}}",
    "**Score of component 1: 6/6**, **score of component 2: 2/4**, **total score: 8/10**\n\n{}",
)


OTHER_FORMS = (
    "Component 1: 6/6 - The harbour is described.\nComponent 2: 2/4 - Not 20 words.\nTotal: 8/10",
    "### Component 1: 6/6\nNothing is missing.\n### Component 2: 2/4\nNo rhyme.\n### Total\n8/10",
    "| Component | Score |\n|-|-|\n| Component 1 | 6/6 |\n| Component 2 | 2/4 |\n| Total | 8/10 |",
    "After comparing the response with the image: " + SENTENCE + ". It is all there but humour.",
    SENTENCE + ". According to the sign, the shop closes at 6. The response names another hour.",
    SENTENCE + ". \U0001f44d Nice answer overall!",
    SENTENCE + ". Please note that humour is subjective. No component is ignored.",
    "Total score: 8/10. Score of component 1: 6/6, score of component 2: 2/4. It rhymes.",
    "Component 1: 6/6\nComponent 2: 2/4\nTotal score: 8/10\n\nThe response names the colour.",
    "**Component 1 (Describe the scene):** 6/6\n**Component 2 (In red):** 2/4\n**Total:** 8/10",
    "1. Describe the scene: 6/6\n2. In red: 2/4\n\nTotal: 8/10",
    (
        "1. **Describe the scene** (6 points): 6/6 - It is described.\n"
        "2. **In red** (4 points): 2/4 - Half of it.\n\n**Total score: 8/10**"
    ),
    "- Component 1: 6/6. The scene is described.\n- Component 2: 2/4. Only half is red.",
    "Score of component 1: 6 out of 6, score of component 2: 2 out of 4, total score: 8 out of 10.",
    "Component 1 receives 6/6: the scene is there. Component 2 receives 2/4: half is red.",
    "For component 1, I give 6/6. For component 2, I give 2/4. The total is 8/10.",
    (
        "### Component 1\nScore: 6/6\nThe scene is described.\n\n### Component 2\nScore: 2/4\n"
        "Only 2 of 4 words are red.\n\n### Total\n8/10"
    ),
    (
        "| Component | Score |\n|---|---|\n| 1. Describe the scene | 6/6 |\n"
        "| 2. In red | 2/4 |\n| **Total** | **8/10** |"
    ),
    '{"component 1": "6/6", "component 2": "2/4", "total score": "8/10"}',
    (
        '```json\n{"scores": {"component_1": {"score": 6, "max": 6}, "component_2": {"score": '
        '2, "max": 4}}, "total": "8/10"}\n```'
    ),
    (
        "Here is the result:\n```json\n"
        '[{"id": 1, "score": 6, "max": 6}, {"id": 2, "score": 2, "max": 4}]\n```'
    ),
    "The first component gets 6/6 and the second component gets 2/4.",
    (
        "Let me evaluate each component.\n\n"
        "Component 1: The response describes the whole scene. Score: 6/6\n\n"
        "Component 2: Only two of the four words are red. Score: 2/4\n\nTotal score: 8/10"
    ),
    "Based on the image and the instruction, my scores are as follows: " + SENTENCE + ".",
    "<think>component 1: 3/6?</think>" + SENTENCE + ".",
    "[THINK]component 1: 3/6[/THINK]" + SENTENCE,
    "The scene is described.\n\n" + SENTENCE,
    SENTENCE.replace(": ", " = "),
    SENTENCE.upper(),
    "Score of Component A: 6/6, Score of Component B: 2/4, Total Score: 8/10",
    "component 1: 6.0/6, component 2: 2.0/4, total: 8.0/10",
    "Component #1 - 6/6; Component #2 - 2/4; Overall - 8/10",
    "score of component 1: \\frac{6}{6}, score of component 2: \\frac{2}{4}",
    SENTENCE
    + "\n\nFor component 1, all 5 people are named. For component 2, 2 of the 4 colours are right.",
    "Total score: 8/10\n\nBreakdown:\nComponent 1: 6/6\nComponent 2: 2/4",
    "Component 1 (6/6): the scene is there.\nComponent 2 (2/4): half of it is red.",
    "Component one: six out of six. Component two: two out of four.",
    "✅ Component 1: 6/6\n❌ Component 2: 2/4",
)
"""Replies in other forms, with the same verdict."""


def official_form():
    """60 replies in the form that the judge is asked for, all with the verdict of `SENTENCE`."""
    for feedback in FEEDBACK:
        yield from (form.format(feedback) for form in FORMS)
