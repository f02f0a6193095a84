"""The grade in a judge's reply: what stands for itself, and nothing else."""

from __future__ import annotations

import time

import pytest

from videopro.runs.grading import read_verdict


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("3", 3),
        (" 2\n", 2),
        ("Rating: 1", 1),
        ("Grade: 2, not 3", 2),
        *(
            (reply, None)
            for reply in (
                "[[2]] or [[3]]",
                "[[2]], [[3]]",
                "1, no, 2.",
                "2: no, 3",
                "2 (or 3)",
                "2 - or 3",
                "2; maybe 3",
                "Grade: 2 (maybe 3)",
                "Grade: 1. Actually 2.",
                "3 (accuracy), 1 (completeness)",
                "To give 3, it must name the dog.",
                "I was going to give 3.",
                "Some would give 3.",
                "I hesitate to give 3.",
                "Nobody would give 3.",
                "Rather than give 3, I abstain.",
            )
        ),
        ("**0**", 0),
        ("2/3", 2),
        ("3/3", 3),
        ("3 / 3", 3),
        ("3/5", None),
        ("3/10", None),
        ("1 or 2", None),
        ("either 1 or 2", None),
        ("7", None),
        ("-1", None),
        ("2.5", None),
        ("2.0", 2),
        ("none", None),
        ("", None),
        ("<think>..</think>3", 3),
        ("<think>Maybe 3, or 2", None),
        ("I'd say 3 because", None),
        ("</think>\n\n2", 2),
        ("The man has 3 cars", None),
        ("3 cars are visible.", None),
        ("The grade is 3.", 3),
        ("Grade: 3\nThe answer is right.", 3),
        ("The answer matches the reference.\n\n3", 3),
        ("The answer matches.\n\n**Score: 3/3**", 3),
        ('{"score": 3}', 3),
        ('```json\n{"grade": "2"}\n```', 2),
        ("[[3]]", 3),
        ("\\boxed{3}", 3),
        ("(2)", 2),
        ("Your response: 3", 3),
        ("3: the same", 3),
        ("3 - fully right", 3),
        ("3. The answer is right.", 3),
        ("1. The answer says red.\n2. The reference says red.\nGrade: 3", 3),
        ("1. a\n2. b", None),
        ("Initial score: 2. Final score: 3", 3),
        ("Score: 2\nScore: 3", None),
        ("I would give it a 2.", 2),
        ("I rate this answer 1", 1),
        ("I would rate this as a 3 out of 3.", 3),
        ("On a scale of 0 to 3, I give 2.", 2),
        ("The rating is 2 or 3", None),
        ("Rating: 2-3", None),
        ("３", 3),
        ("\u200b3\u200b", 3),
        ("Score (0-3): 3", 3),
        ("Score: 3.5", None),
        ("A rating of 2.", 2),
        ("Three", None),
        ("3.", 3),
        ("3!", 3),
        ("[3]", 3),
        ("Rating: [[2]]", 2),
        ("The reference lists 2 and the answer 2.", None),
        ("0: wrong: it says something else", 0),
        ("Grade = 3", 3),
        ("Grade 3", 3),
        ('{"result": 1}', 1),
        ('{"result": 1, "reason": "2 cats"}', 1),
        ('{"result": true}', None),
        ("At 3:00 the man leaves", None),
        ("The final grade: 1/3", 1),
        ("**Final Grade:** 2", 2),
        ("+3", 3),
        ("5/3", None),
        ("The answer is 3 cats.", None),
        ("9" * 30, None),
        ("0 (wrong) to 3 (right): 1", 1),
        ("On a scale from 0 (wrong) to 3 (right), I give 1.", 1),
        ("0-3: 1", 1),
        ("0 (wrong) to 3 (right)", None),
        ("1 (mostly wrong) to 2 (mostly right)", None),
        ("I would not give 3.", None),
        ("I don't think I would give 3.", None),
        ("If it named the colour, I would give 3.", None),
        ("Would I give 3? No.", None),
        ("I can't give it a 3. Grade: 2", 2),
        ("It does not deserve 3; I give it 1.", 1),
        ("The answer does not match, so I give it 0.", 0),
        ("[[2]] [[3]]", None),
        ("Rating: [2] [3]", None),
        ("Rating: [[2]] Rating: [[3]]", None),
        ("Rating: [[2]]\nRating: [[2]]", 2),
        ("[[3]] It says the same.", 3),
    ],
)
def test_a_verdict_stands_for_itself(reply: str, grade: int | None) -> None:
    assert read_verdict(reply, 0, 3) == grade


def test_a_verdict_is_of_its_own_scale() -> None:
    assert [read_verdict(reply, 0, 1) for reply in ("1/1", "1/3", "2", "0")] == [1, None, None, 0]


def test_any_reply_is_read_in_time() -> None:
    start = time.process_time()
    for part in (
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
    ):
        read_verdict(part * 20_000, 0, 3)
    assert time.process_time() - start < 10
