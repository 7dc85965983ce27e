"""Judge replies of MMIE that we wrote: 60 in the official form, and in forms that are near it."""

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


def official_form():
    """60 replies in the form that the judge is asked for, with their points."""
    for feedback in FEEDBACK:
        for points in POINTS:
            yield f"### Feedback\n{feedback}\n### Score\n{points}", points


FAIR = {
    "Feedback:\nGood work\n\nScore: 4": 4,
    "### Feedback\nGood work\n\nScore: 4": 4,
    "**Feedback**\n\nNo image given\n\n**Score**: 2": 2,
    "Very good\nScore: 4": 4,
    "### Feedback\nA\n### Score\n4": 4,
    "### Feedback\nB\n### Score\n4": 4,
    "**Feedback**\nGood work\n**Score**: 4": 4,
    "I would give this answer a score of 4 out of 6.": 4,
    "Overall, I rate it 4/6.": 4,
    "The answer is clear and complete. Score: 4/6.": 4,
    "### Feedback: The images fit.\n### Score: 5": 5,
    'Here is my evaluation:\n```json\n{"feedback": "Good.", "score": 4}\n```': 4,
    '```json\n{"score": "4/6", "feedback": "x"}\n```': 4,
    "Score: 4\n\nFeedback: The steps are clear, with 3 of 4 pictures.": 4,
    "**Overall Score: 5/6**": 5,
    "### Final Score\n\n**4.5**": 4.5,
    "Final rating - 3": 3,
    "My score for this response is 4.": 4,
    "The score is 4.": 4,
    "I'd rate this response 5 out of 6.": 5,
    "Score = 5": 5,
    "Rating: 4 out of 6 points": 4,
    "4/6\n\nThe response is clear.": 4,
    "4": 4,
    "**4**": 4,
    "# Evaluation\n\n## Feedback\nGood pictures.\n\n## Score\n5 / 6": 5,
    "### Feedback\nText.\n\n### Score\n5: the text is good but the pictures are not.": 5,
    "<think>\nI would say 3.\n</think>\n### Feedback\nOk.\n### Score\n4": 4,
    "[THINK]score 3[/THINK]Score: 4": 4,
    "### Feedback\nIt fits.\n\n---\n\n### Score\n4": 4,
    "Feedback: Fine.\nScore (0-6): 3": 3,
    "Score (out of 6): 3": 3,
    "$\\boxed{4}$": 4,
    "Score: \\boxed{5}": 5,
    "The final score is: 4": 4,
    "Score: Four": 4,
    "### Score\n### 4": 4,
    "Score:\n- 4": 4,
    "Total score: 4": 4,
    "I would give this response a 5.": 5,
    "The response deserves a score of 3 out of 6.": 3,
    "Based on the criteria, the score is 4.": 4,
    "Therefore, my final score is 4 out of 6.": 4,
    "Therefore, I give it a score of 4.": 4,
    "**Score**\n\n4 (Good)": 4,
    "Score: 5.0": 5,
    "### Score\n5 points": 5,
    "|Criterion|Score|\n|---|---|\n|Overall|5|": 5,
    '{"Feedback": "Fine", "Score": 3}': 3,
    "Score: 4 - The response is good.": 4,
    "Score: 4\xa0/ 6": 4,
    "Score for this response: 4/6": 4,
    "I would rate this answer a solid 4 out of 6.": 4,
    "Score: 4/6 ⭐⭐⭐⭐": 4,
    "Feedback: The text fits; one picture is blurred. Rating: 5/6.": 5,
}
"""Replies of a fair judge in other forms, with their points."""

JUDGE_PROMPTS = '''
STORY = """Judge '### Score\\n' by
its {feeling}."""
METHOD = "Judge the method."
SUM = 'Judge the sum.'

def get_prompt(data_id):
    if "SA" in data_id:
        return STORY + "Q {question} A {answer}"
    elif "PBL" in data_id:
        return METHOD + "Q {question} A {answer}"
    elif "MSR" in data_id:
        return SUM + "Q {question} A {answer} R {gt_answer}"
    else:
        print("?")
'''
"""Python in the form of the official file with MMIE's prompts; the words are ours."""
