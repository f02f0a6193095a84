"""The grade in a judge's reply: what stands for itself, and nothing else."""

import time

import pytest

from videopro.runs.grading import read_verdict

VERDICTS: dict[int | None, tuple[str, ...]] = {
    0: (*("**0**", "0: wrong: it says something else", "The answer does not match, so I give it 0."),),
    1: (
        *("Rating: 1", "I rate this answer 1", '{"result": 1}', '{"result": 1, "reason": "2 cats"}'),
        *("The final grade: 1/3", "0 (wrong) to 3 (right): 1"),
        *("On a scale from 0 (wrong) to 3 (right), I give 1.", "0-3: 1"),
        *("It does not deserve 3; I give it 1.",),
    ),
    2: (
        *(" 2\n", "Grade: 2, not 3", "2/3", "2.0", "</think>\n\n2", '```json\n{"grade": "2"}\n```'),
        *("(2)", "I would give it a 2.", "On a scale of 0 to 3, I give 2.", "A rating of 2."),
        *("Rating: [[2]]", "**Final Grade:** 2", "I can't give it a 3. Grade: 2"),
        *("Rating: [[2]]\nRating: [[2]]",),
    ),
    3: (
        *("3", "3/3", "3 / 3", "<think>..</think>3", "The grade is 3."),
        *("Grade: 3\nThe answer is right.", "The answer matches the reference.\n\n3"),
        *("The answer matches.\n\n**Score: 3/3**", '{"score": 3}', "[[3]]", "\\boxed{3}"),
        *("Your response: 3", "3: the same", "3 - fully right", "3. The answer is right."),
        *("1. The answer says red.\n2. The reference says red.\nGrade: 3",),
        *("Initial score: 2. Final score: 3", "I would rate this as a 3 out of 3.", "３"),
        *("\u200b3\u200b", "Score (0-3): 3", "3.", "3!", "[3]", "Grade = 3", "Grade 3", "+3"),
        *("[[3]] It says the same.",),
    ),
    None: (
        *("[[2]] or [[3]]", "[[2]], [[3]]", "1, no, 2.", "2: no, 3", "2 (or 3)", "2 - or 3"),
        *("2; maybe 3", "Grade: 2 (maybe 3)", "Grade: 1. Actually 2."),
        *("3 (accuracy), 1 (completeness)", "To give 3, it must name the dog."),
        *("I was going to give 3.", "Some would give 3.", "I hesitate to give 3."),
        *("Nobody would give 3.", "Rather than give 3, I abstain.", "3/5", "3/10", "1 or 2"),
        *("either 1 or 2", "7", "-1", "2.5", "none", "", "<think>Maybe 3, or 2", "I'd say 3 because"),
        *("The man has 3 cars", "3 cars are visible.", "1. a\n2. b", "Score: 2\nScore: 3"),
        *("The rating is 2 or 3", "Rating: 2-3", "Score: 3.5", "Three"),
        *("The reference lists 2 and the answer 2.", '{"result": true}', "At 3:00 the man leaves"),
        *("5/3", "The answer is 3 cats.", "0 (wrong) to 3 (right)"),
        *("1 (mostly wrong) to 2 (mostly right)", "I would not give 3."),
        *("I don't think I would give 3.", "If it named the colour, I would give 3."),
        *("Would I give 3? No.", "[[2]] [[3]]", "Rating: [2] [3]", "Rating: [[2]] Rating: [[3]]"),
        "9" * 30,
    ),
}


@pytest.mark.parametrize(
    ("grade", "reply"), [(grade, reply) for grade in VERDICTS for reply in VERDICTS[grade]]
)
def test_a_verdict_stands_for_itself(grade: int | None, reply: str) -> None:
    assert read_verdict(reply, 0, 3) == grade


def test_a_verdict_is_of_its_own_scale() -> None:
    assert [read_verdict(reply, 0, 1) for reply in ("1/1", "1/3", "2", "0")] == [1, None, None, 0]


def test_any_reply_is_read_in_time() -> None:
    start = time.process_time()
    parts = (
        "grade ",
        "Score: 1 or ",
        "3\n",
        "{",
        "[[",
        "give it a ",
        "<think>",
        "9",
        "[[2]] [[3]] ",
        "0 ( to ",
    )
    for part in parts:
        read_verdict(part * 20_000, 0, 3)
    assert time.process_time() - start < 10
