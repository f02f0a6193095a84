"""Questions, and letters read out of replies. Expected letters are given by hand, never by the reader."""

import time
from pathlib import Path

import pytest

from videopro.errors import QuestionError
from videopro.question import LETTERS, OFFICIAL_EXTRACTORS, Question, extract_letter

PETS = Question("What is shown?", ("Birds", "Cats and Dogs", "A red fish", "Four horses"))
COLOURS = Question("Which colour is the car?", ("red", "blue", "green", "yellow"))
COUNT = Question("How many are there?", ("1", "2", "3", "4", "5"))
TEN = Question("Which one?", tuple(f"thing number {i}" for i in range(10)))
SIX = Question("Which task?", ("cut", "boil", "fry", "bake", "wash", "peel"))
TWO = Question("Is it open?", ("open", "closed"))
PROSE = Question("What happens?", ("A person is cooking", "A person is running", "A dog eats", "I think so"))
TWINS = Question("Which?", ("a cup", "a plate", "a cup", "a fork"))
MUSIC = Question("Which key?", ("D minor", "C major", "A flat", "B minor"))
SIGN = Question("Which letter is on the sign?", ("D", "C", "B", "A"))


# ---- the question itself ----------------------------------------------------------------------------------


def test_question_has_letters_and_lines() -> None:
    assert COLOURS.letters == ("A", "B", "C", "D")
    assert COLOURS.lettered_choices() == "A. red\nB. blue\nC. green\nD. yellow"
    assert COLOURS.choice("C") == "green"
    assert TEN.letters == tuple("ABCDEFGHIJ") == tuple(LETTERS)[:10]


def test_question_takes_lists_and_twins_and_is_hashable() -> None:
    assert Question("q", ["x", "x"]).choices == ("x", "x")  # type: ignore[arg-type]
    assert len({Question("q", ("x", "y")), Question("q", ("x", "y"))}) == 1


@pytest.mark.parametrize(
    ("text", "choices", "says"),
    [
        ("q", ("only",), "2 to 26 options, this one has 1"),
        ("q", (), "has 0"),
        ("q", tuple("abcdefghijklmnopqrstuvwxyz-"), "has 27"),
        (" ", ("x", "y"), "needs a text"),
        ("q", ("x", " "), "Option B"),
        ("q", ("x", 3), "Option B"),
        ("q", "xy", "list of texts"),
        (None, ("x", "y"), "needs a text"),
    ],
)
def test_an_invalid_question_is_refused(text: str, choices: tuple[str, ...], says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        Question(text, choices)


@pytest.mark.parametrize("letter", ["C", "a", "", "AB", "Z"])
def test_a_letter_that_names_no_option_is_refused(letter: str) -> None:
    with pytest.raises(QuestionError, match="options are A, B"):
        TWO.choice(letter)


# ---- known traps: what public scorers get wrong ---------------------------------------------------------

TRAPS = [
    ("The answer is B. A man in red ...", "B"),
    ("Based on the video, the answer is C.", "C"),
    ("Answer: D", "D"),
    ("A man is running, so the answer is (B).", "B"),
    ("The correct option is B) Cats and Dogs", "B"),
    ("(B)", "B"),
    ("**C**", "C"),
    ("The answer is B", "B"),
    ("A person is cooking", None),
    ("I think C", "C"),
]


@pytest.mark.parametrize(("reply", "letter"), TRAPS)
def test_trap_table(reply: str, letter: str | None) -> None:
    assert extract_letter(reply, PETS) == letter


@pytest.mark.parametrize(
    ("reader", "reply", "wrong"),
    [
        ("lvbench", "The answer is B. A man in red ...", "T"),
        ("videomme", "Based on the video, the answer is C.", "B"),
        ("longvideobench", "Based on the video, the answer is C.", "B"),
        ("videomme", "Answer: D", "A"),
        ("longvideobench", "Answer: D", "A"),
        ("lvbench", "Answer: D", "A"),
        ("videomme", "A man is running, so the answer is (B).", "A"),
        ("longvideobench", "A man is running, so the answer is (B).", "A"),
        ("cgbench_6677fe3", "A man is running, so the answer is (B).", "A | B"),
        ("lvbench", "The correct option is B) Cats and Dogs", "T"),
        ("mlvu", "The correct option is B) Cats and Dogs", None),
        ("videopro", "(B)", None),
        ("mlvu", "(B)", None),
        ("videopro", "**C**", None),
        ("lvbench", "**C**", "*"),
        ("videopro", "The answer is B", None),
        ("videopro", "A person is cooking", "A"),
        ("videomme", "A person is cooking", "A"),
        ("videopro", "I think C", "I"),
    ],
)
def test_official_readers_fall_into_the_traps(reader: str, reply: str, wrong: str | None) -> None:
    assert OFFICIAL_EXTRACTORS[reader](reply, PETS) == wrong


@pytest.mark.parametrize(
    ("reader", "reply", "letter"),
    [
        *(
            (name, "B", "B")
            for name in ("videomme", "longvideobench", "lvbench", "cgbench_6677fe3", "videopro", "mlvu")
        ),
        ("videomme", "The best answer is: C. Red", "C"),
        ("videomme", "The correct option is D", "D"),
        ("videomme", "Best option: C", "B"),  # the missing comma: "Best option:" is never cut
        ("longvideobench", "Best option: C", "C"),
        ("videomme", "E", None),  # four options only
        ("longvideobench", "E", "E"),
        ("longvideobench", "F", None),  # the official scorer draws a random option
        ("longvideobench", "no idea", None),
        ("videomme", "", None),
        ("lvbench", "", None),
        ("lvbench", "(C) The man", "C"),
        ("lvbench", "C) The man", "C"),
        ("lvbench", "b", "b"),
        ("mlvu", "B) Cats and Dogs", "B"),
        ("mlvu", " B )", "B"),
        ("mlvu", "B. Cats and Dogs", None),
        ("cgbench_6677fe3", '```json\n{"result": "B"}\n```', "B"),
        ("cgbench_6677fe3", '```json\n{"result": B}\n```', "B"),
        ("cgbench_6677fe3", "```json\n{broken\n``` It is C.", "C"),
        ("cgbench_6677fe3", "B or C", "B | C"),  # right if the gold letter is among them
        ("cgbench_6677fe3", "no idea", None),
        ("cgbench_6677fe3", '```json\n{"result": ["B"]}\n```', ""),  # compared, and wrong
        ("cgbench_6677fe3", "```json\n```\nB", "B"),
        ("videomme_afd52cf", "Answer: D", "D"),
        ("videomme_afd52cf", "Best option: C", "B"),  # its commas are missing still
        ("mlvu_4bcc3c0", "(B)", "B"),
        ("mlvu_4bcc3c0", "The answer is B) Cats and Dogs", "B"),
        ("mlvu_4bcc3c0", " B", None),
        ("mlvu_4bcc3c0", ") B", None),
        ("egoschema_77a7d8e3", "B", "B"),
        ("egoschema_77a7d8e3", "B.", None),
        ("egoschema_1d3f34ab", "A man, so (B)", "A"),  # the first in the reply: the A of "A man"
        ("egoschema_1d3f34ab", "The cat is (B)", "B"),
        ("egoschema_1d3f34ab", "no idea", None),
        ("videopro", "Yes, it is.", "Yes"),
        ("videopro", "  D. Four horses", "D"),
        ("videopro", "Based on the video", None),
    ],
)
def test_official_readers_otherwise(reader: str, reply: str, letter: str | None) -> None:
    assert OFFICIAL_EXTRACTORS[reader](reply, PETS) == letter


# ---- replies ----------------------------------------------------------------------------------------------

BARE = [
    *[
        (form, "B")
        for form in ("B", "B.", "(B)", "B)", "[B]", "{B}", "B:", "B,", " B \n", '"B"', "'B'", "“B”", "<B>")
    ],
    *[
        (form, "B")
        for form in ("**B**", "**(B)**", "*B*", "`B`", "__B__", "**B.**", "B!", "(B).", "### B", "> B")
    ],
    *[(form, "B") for form in ("b", "(b)", "b.", "b)", "Ｂ", "（Ｂ）", "Ｂ．", "Ⓑ", "𝐁")],
    *[(form, "B") for form in ("option B", "Option (B)", "Choice B.", "Letter B", "OPTION B", "option b")],
    *[
        (form, "B")
        for form in ("B<|im_end|>", "B</s>", "<b>B</b>", "$B$", "\\(B\\)", "\\text{B}", "$\\textbf{(B)}$")
    ],
    ("A", "A"),
    ("a", "A"),
    ("A.", "A"),
    ("A\n", "A"),
]
WITH_TEXT = [
    ("B. Cats and Dogs", "B"),
    ("B: Cats and Dogs", "B"),
    ("(B) Cats and Dogs", "B"),
    ("[B] Cats and Dogs.", "B"),
    ("B) Cats and Dogs", "B"),
    ("B - Cats and Dogs", "B"),
    ("B — Cats and Dogs", "B"),
    ("B (Cats and Dogs)", "B"),
    ("B Cats and Dogs", "B"),
    ("b) Cats and Dogs", "B"),
    ("**B.** Cats and Dogs", "B"),
    ("**B. Cats and Dogs**", "B"),
    ("Option B: Cats and Dogs", "B"),
    ("A. Birds", "A"),
    ("C. A red fish", "C"),
    ("C\n\nThe fish is seen at 0:42.", "C"),
    ("C. The fish is seen at 0:42, and D. is not.", "C"),
    ("A. The dog barks. Therefore the answer is B. It is seen.", None),
    ("B, because there are pets.", "B"),
    ("B because there are pets.", "B"),
    ("A, since birds fly by.", "A"),
    ("Cats and Dogs", "B"),
    ("cats and dogs.", "B"),
    ("**Cats and Dogs**", "B"),
    ("A red fish", "C"),
    ("The answer is Cats and Dogs.", "B"),
    ("Answer: four horses", "D"),
    ("The answer is four horses, because they run.", "D"),
    ("Cats and Dogs\nThey play in the garden.", "B"),
    ("A. Cats and Dogs", None),  # the letter says one option, the text another
    ("The answer is D. Birds", None),
    ("cats", None),
    ("There are cats and dogs in it.", "B"),
]
SENTENCES = [
    ("The answer is B", "B"),
    ("the answer is b", "B"),
    ("The answer is (b).", "B"),
    ("The answer is: B", "B"),
    ("The answer is **B**.", "B"),
    ('The answer is "B".', "B"),
    ("The answer is option B.", "B"),
    ("The answer would be B.", "B"),
    ("The correct answer is B because of the dog.", "B"),
    ("The correct answer is A because birds fly.", "A"),
    ("The best answer is:\nB", "B"),
    ("Answer:\n\nB", "B"),
    ("Answer: B\nExplanation: A man in red walks by.", "B"),
    ("ANSWER: B", "B"),
    ("answer: b", "B"),
    ("Answer = B", "B"),
    ("Answer -> B", "B"),
    ("## Answer\nB", "B"),
    ("My answer is B.", "B"),
    ("My choice is C!", "C"),
    ("The right choice is (C) A red fish.", "C"),
    ("The answer to this question is D.", "D"),
    ("The answer is clearly B.", "B"),
    ("The answer is most likely B.", "B"),
    ("The answer should be option (D).", "D"),
    ("There is no doubt that the answer is B.", "B"),
    ("Best option: (B)", "B"),
    ("Best Option: B", "B"),
    ("I choose B.", "B"),
    ("I would choose option B here.", "B"),
    ("I'd go with B.", "B"),
    ("I'll pick (C).", "C"),
    ("I select option D.", "D"),
    ("I believe it is B.", "B"),
    ("I believe the answer is B.", "B"),
    ("It's B.", "B"),
    ("It is (C).", "C"),
    ("B is correct.", "B"),
    ("Option B is the correct answer.", "B"),
    ("(B) is the right choice.", "B"),
    ("A is correct", "A"),
    ("Option A is correct.", "A"),
    ("The video best matches option C.", "C"),
    ("This supports option D.", "D"),
    ("A man walks by. So B.", "B"),
    ("Birds are seen; therefore, A.", "A"),
    ("A bird is seen, hence (A).", "A"),
    ("正确答案是 B。", "B"),
    ("答案：C", "C"),
    ("选B", "B"),
    ("我认为应该选择C，因为有鱼。", "C"),
    ("The answer is C, not B.", "C"),
    ("B, not A.", "B"),
    ("The answer is B and not A.", "B"),
    ("The answer is B. A and C are wrong.", "B"),
    ("Either way, the answer is D.", "D"),
]
REASONED = [
    ("First a bird is seen. A dog follows. Then cats join. The answer is B.", "B"),
    ("A is wrong, so C", "C"),
    ("A is wrong, so the answer is C.", "C"),
    ("A is wrong and B is wrong. Therefore, the answer is (D).", "D"),
    ("It is not A. It is not B. The answer is C.", "C"),
    ("At first I thought of A, but the correct answer is D.", "D"),
    ("Let me see. The fish is red.\n\nC", "C"),
    ("Let me see. The fish is red.\n\n**C**", "C"),
    ("The fish is red and the bowl is round. C.", "C"),
    ("The final answer is C.", "C"),
    ("The answer is B at first sight.\nFinal answer: C", "C"),
    ("**Final Answer: (C)**", "C"),
    ("Final Answer: C. A red fish", "C"),
    ("The answer is B. Wait, the fish is red. Actually, the answer is C.", "C"),
    ("The answer is B. Sorry, I was mistaken: the answer is C.", "C"),
    ("<think>The answer is A. No, B?</think>C", "C"),
    ("<think>\nA? B?\n</think>\n\nThe answer is C.", "C"),
    ("it may be A or B ...</think>\n\nD", "D"),
    ("<think>The answer is A", None),
    ("<think>The answer is A.</think>", None),
    ("<think>B</think><answer>C</answer>", "C"),
    ("<answer>C</answer>", "C"),
    ("<answer> (C) A red fish </answer>", "C"),
    ("A fish is seen.\n<answer>C</answer> because A and B are wrong", "C"),
    ("<answer>C", "C"),
    ("<answer>A</answer><answer>B</answer>", None),
    ("<answer>fish</answer>", None),
    ("\\boxed{C}", "C"),
    ("So we get $\\boxed{\\text{C}}$.", "C"),
    ("Thus \\boxed{\\textbf{(C) A red fish}}", "C"),
    ("The answer is B. \\boxed{C}", "C"),
    ('{"answer": "C"}', "C"),
    ("{'answer': 'C'}", "C"),
    ("{answer: C}", "C"),
    ('```json\n{"reason": "A man. B?", "answer": "C"}\n```', "C"),
    ('{"answer": "C. A red fish", "confidence": 0.8}', "C"),
    ('{"answer": "A red fish"}', "C"),
    ('{"result": "C"}', "C"),
    ('{"answer": ["A", "B"]}', None),
    ('{"answer": 2}', None),  # counted from 0 or from 1?
    ('{"answer": null}', None),
    ('{"reason": "C"}', None),
    ('["C"]', "C"),
]
LISTS = [
    ("A. Birds\nB. Cats and Dogs\nC. A red fish\nD. Four horses", None),
    ("A. Birds\nB. Cats and Dogs\nC. A red fish\nD. Four horses\n\nThe answer is C.", "C"),
    ("A. Birds\nB. Cats and Dogs\nC. A red fish\nD. Four horses\nC", "C"),
    ("What is shown?\nA. Birds\nB. Cats and Dogs\nC. A red fish\nD. Four horses\nAnswer: D", "D"),
    ("A. Birds B. Cats and Dogs C. A red fish D. Four horses", None),
    ("A. Birds B. Cats and Dogs C. A red fish D. Four horses. The answer is D.", "D"),
    ("(A) Birds (B) Cats and Dogs (C) A red fish (D) Four horses Answer: C", "C"),
    (
        "(A) Birds - not seen\n(B) Cats and Dogs - not seen\n(C) A red fish - correct\n(D) Four horses - no",
        "C",
    ),
    (
        "A. Birds: incorrect\nB. Cats and Dogs: incorrect\nC. A red fish: correct\nD. Four horses: incorrect",
        "C",
    ),
    ("A) Birds ❌\nB) Cats and Dogs ✅\nC) A red fish ❌", "B"),
    ("A. Birds: correct\nB. Cats and Dogs: correct", None),
    ("- A: no birds are seen.\n- B: there are cats.\n\nSo the answer is B.", "B"),
    ("- A: no birds are seen.\n- B: there are cats.", None),
]
UNREADABLE = [
    ("", None),
    ("   \n", None),
    ("...", None),
    ("?", None),
    ("I cannot determine the answer from the video.", None),
    ("I'm sorry, but I can't help with that.", None),
    ("As an AI model I cannot see videos.", None),
    ("None of the above", None),
    ("None of the options is correct.", None),
    ("Unknown", None),
    ("E", None),
    ("Answer: E", None),
    ("The answer is F.", None),
    ("Z", None),
    ("I", None),
    ("I am not sure.", None),
    ("The answer is A. The answer is B.", None),
    ("A or B", None),
    ("A and B", None),
    ("A/B", None),
    ("A, B", None),
    ("A, B, C, D", None),
    ("Either A or C.", None),
    ("The answer is A or B.", None),
    ("The answer is A and B.", None),
    ("The answer is B/C", None),
    ("Both B and C are correct.", None),
    ("The answer is either B or C", None),
    ("It could be A. It could be B.", None),
    ("B. The dog barks. Therefore the answer is C.", None),
    ("B\nC", None),
    ("AB", None),
    ("ABCD", None),
    ("Not A", None),
    ("The answer is not A.", None),
    ("The answer isn't B.", None),
    ("It is not B.", None),
    ("I don't think the answer is B.", None),
    ("I doubt that the answer is B.", None),
    ("A is incorrect.", None),
    ("A is not correct.", None),
    ("Neither A nor B is correct.", None),
    ("The wrong answer is B.", None),
    ("Is the answer B?", None),
    ("If the answer is B then cats are seen.", None),
    ("A man is running.", None),
    ("A dog and a cat", None),
    ("A", "A"),
    ("An apple", None),
    ("a person walks", None),
    ("Because of the dog", None),
    ("Dogs", None),
    ("Cooking", None),
    ("The answer is a dog.", None),
    ("The answer is A dog.", None),
    ("I think a person cooks.", None),
    ("I think A person cooks.", None),
    ("It is a bird.", None),
    ("So a man enters.", None),
    ("D'Artagnan", None),
    ("B-roll footage is shown.", None),
    ("C++ code is shown.", None),
    ("U.S.A.", None),
    ("Choose from A-D.", None),
    ("Option A shows birds, option B shows cats.", None),
    ("A: B", None),
    ("Vitamin C", None),
    ("Plan B is shown.", None),
    ("The video shows a man at 3 p.m.", None),
    ("1", None),
    ("yes", None),
]
GUESSED = [
    ("Maybe B.", "B"),
    ("Probably B", "B"),
    ("I guess C.", "C"),
    ("My guess is C.", "C"),
    ("It might be D.", "D"),
    ("It might be D, but the answer is B.", "B"),
    ("I'm not sure, but I would guess B.", "B"),
    ("I cannot see it well; the answer is probably B.", "B"),
    ("I'm not sure but I guess B.", "B"),
    ("It is not A so the answer is B.", "B"),
]


@pytest.mark.parametrize(
    ("reply", "letter"), [*BARE, *WITH_TEXT, *SENTENCES, *REASONED, *LISTS, *UNREADABLE, *GUESSED]
)
def test_reply(reply: str, letter: str | None) -> None:
    assert extract_letter(reply, PETS) == letter


@pytest.mark.parametrize(
    ("question", "reply", "letter"),
    [
        (PROSE, "A person is cooking", "A"),
        (PROSE, "A person is running.", "B"),
        (PROSE, "a dog eats", "C"),
        (PROSE, "I think so", "D"),
        (PROSE, "The answer is A person is running", "B"),
        (PROSE, "A person is sleeping", None),
        (TWINS, "a cup", "A"),  # two options have this text, and are right or wrong together
        (TWINS, "a plate", "B"),
        (TWINS, "C. a cup", "C"),
        (TWINS, "A. a cup", "A"),
        (COUNT, "2", "B"),
        (COUNT, "3.", "C"),
        (COUNT, "Answer: 5", "E"),
        (COUNT, "E", "E"),
        (COUNT, "E. 5", "E"),
        (COUNT, "E. 4", None),
        (COUNT, "7", None),
        (SIX, "F", "F"),
        (SIX, "The answer is F.", "F"),
        (SIX, "G", None),
        (TEN, "J", "J"),
        (TEN, "I", "I"),
        (TEN, "(I)", "I"),
        (TEN, "I.", "I"),
        (TEN, "The answer is I.", "I"),
        (TEN, "I think J", "J"),
        (TEN, "I cannot tell.", None),
        (TEN, "I, for one, do not know.", None),
        (TEN, "thing number 7", "H"),
        (TWO, "B", "B"),
        (TWO, "C", None),
        (TWO, "closed", "B"),
        (TWO, "It is closed.", "B"),
        (MUSIC, "C major", "B"),
        (MUSIC, "The answer is C major.", "B"),
        (MUSIC, "B. C major", "B"),
        (MUSIC, "C. C major", None),
        (SIGN, "B", "B"),  # a lone letter is always an option's letter
        (SIGN, "C. B", "C"),
        (COLOURS, "The car is blue.", "B"),
        (COLOURS, "blue", "B"),
        (COLOURS, "Blue, because the car is blue.", "B"),
        (COLOURS, "The answer is blue.", "B"),
        (COLOURS, "A red", "A"),
        (COLOURS, "A blue", None),
    ],
)
def test_reply_to_other_questions(question: Question, reply: str, letter: str | None) -> None:
    assert extract_letter(reply, question) == letter


def listed_replies() -> list[tuple[str, str | None]]:
    rows = (Path(__file__).parent / "replies.txt").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t", 1) for row in rows if not row.startswith("#")]
    return [(reply.replace("\\n", "\n"), None if letter == "-" else letter) for letter, reply in pairs]


@pytest.mark.parametrize(("reply", "letter"), listed_replies())
def test_listed_reply(reply: str, letter: str | None) -> None:
    assert extract_letter(reply, PETS) == letter


@pytest.mark.parametrize("length", [10_000, 200_000])
def test_long_replies_are_read_in_bounded_time(length: int) -> None:
    """A model that repeats itself must not stall a run: no pattern may backtrack over the whole reply."""
    assert extract_letter("so the option " * (length // 14) + "\nAnswer: B", PETS) == "B"
    assert extract_letter("( " * (length // 2), PETS) is None
    assert extract_letter("{" * length, PETS) is None
    assert extract_letter("\n" * length + "B", PETS) == "B"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("<answer>" * 500, None),
        ("<answer>" * 500 + "B", "B"),
        ("<answer>" * 500 + "B" + "</answer>" * 500, "B"),
        ("<final><answer>" * 10_000 + "C", "C"),
        ("<answer>B</answer>" * 10_000, "B"),
        ("<answer>B</answer>" * 10_000 + "<answer>C</answer>", None),
        ("<answer>A <final>B</final> C</answer>", "B"),
        ("<answer>The box says \\boxed{B}</answer>", "B"),
        ('{"answer": ' + "[" * 5000, None),
        ('{"answer": "B", "why": ' + "[" * 5000 + "]" * 5000 + "}", "B"),
        ('{"answer": ' + "1" * 5000 + "}", None),
        ("答案是B。" * 4000, "B"),
        ("Answer: B\n" * 400_000, None),  # only of models whose thinking is not finished
    ],
)
def test_repeated_and_nested_marks_are_read_without_recursion(reply: str, letter: str | None) -> None:
    start = time.process_time()
    assert extract_letter(reply, PETS) == letter
    assert time.process_time() - start < 5


@pytest.mark.parametrize("reader", sorted(OFFICIAL_EXTRACTORS))
@pytest.mark.parametrize("value", ["[" * 5000, "1" * 5000, "{" * 5000])
def test_official_readers_take_any_json(reader: str, value: str) -> None:
    OFFICIAL_EXTRACTORS[reader](f'```json\n{{"result": {value}}}\n```', PETS)
