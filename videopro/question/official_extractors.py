"""The answer extraction of published scorers, faults included, so that official numbers can be reproduced.

Our own code, written after the released scorers. An extractor returns what its scorer compares with the gold
letter, which may not be an option of the question at all ("T"), or None if its scorer finds nothing. If a
scorer accepts any of several letters, they are joined by OR. The benchmark decides whether questions without
a letter leave the denominator. To read replies robustly, use `videopro.question.answer_extraction`.

A name with a commit is the reader of that commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopro.question.question import Question


OR = " | "


def _first_capital(reply: str, phrases: tuple[str, ...], letters: str) -> str | None:
    for phrase in phrases:
        reply = reply.replace(phrase, "")
    match = re.search(f"[{letters}]", reply)
    return match[0] if match else None


def _videomme(reply: str, question: Question) -> str | None:
    """Video-MME, evaluation/eval_your_results.py of BradyFU/Video-MME until commit 49a2e67 (also lmms-eval's
    task `videomme` before commit 9ca4445d).

    Removes four phrases from the reply and takes the first capital A to D of the rest, inside words too:
    "Answer: D" is A, "Based on ..." is B. Missing commas in its list join the last four phrases into two that
    never occur, so "Best answer:" and "The correct option is" stay. Replies without such a capital leave the
    denominator (in lmms-eval they stay in it).
    """
    return _first_capital(
        reply, ("The best answer is", "The correct answer is", "The answer is", "The answer"), "ABCD"
    )


def _videomme_afd52cf(reply: str, question: Question) -> str | None:
    """Video-MME, eval_your_results.py of thanku-all/parse_answer, to which the authors' README links.

    As `videomme`, and removes "Answer:", "Option:", "The correct answer" and "The correct option" too. The
    commas that its list lacks still join four phrases into two that hardly occur. Replies without a capital
    leave the denominator.
    """
    phrases = (
        *("The best answer is", "The correct answer is", "The answer is", "The answer"),
        *("The best option isThe correct option is", "Best answer:Best option:"),
        *("Answer:", "Option:", "The correct answer", "The correct option"),
    )
    return _first_capital(reply, phrases, "ABCD")


def _longvideobench(reply: str, question: Question) -> str | None:
    """LongVideoBench, lmms-eval's task `longvideobench`, which follows the authors' own scorer.

    As for Video-MME, with all eight phrases and the capitals A to E. If nothing is found the official scorer
    draws a random option; here the result is None.
    """
    phrases = (
        *("The best answer is", "The correct answer is", "The answer is", "The answer"),
        *("The best option is", "The correct option is", "Best answer:", "Best option:"),
    )
    return _first_capital(reply, phrases, "ABCDE")


def _lvbench(reply: str, question: Question) -> str | None:
    """LVBench, lvbench/utils/answer_util.py and metrics/compute_accuracy.py of THUDM/LVBench.

    Takes the text before the first ")", of that the text after the first "(", and of that the first character
    of the first word: prose is read as its initial, "The answer is B" as T.
    """
    head = reply.strip().split(")")[0].strip()
    if "(" in head:
        head = head.split("(")[1].strip()
    return head.split(" ")[0][:1] or None


def _mlvu(reply: str, question: Question) -> str | None:
    """MLVU, evaluation/models/videochat2/choice_bench.py (before commit 4bcc3c0) and
    evaluation_test/test_bench.py of JUNJIE99/MLVU.

    The prompt ends with "Best Option: (", so the reply should continue with "B) ...": the text before the
    first ")" must be exactly the gold letter. A model that writes its own bracket, "(B)", is always wrong.
    The dev scorer does not strip spaces and the test scorer does; this extractor does.
    """
    head = reply.split(")")[0].strip()
    return head if head in question.letters else None


def _mlvu_4bcc3c0(reply: str, question: Question) -> str | None:
    """MLVU, evaluation/multiple_choice_evaluation/choice_bench.py of JUNJIE99/MLVU.

    The character before the first ")" must be the gold letter, so "B) ..." and "(B)" are right; without a
    bracket, the whole reply must be, and "B." or " B" is wrong.
    """
    end = reply.find(")")
    # A bracket at the very start leaves nothing, as the slice [-1:0] does there.
    head = reply if end < 0 else reply[end - 1 : end] if end else ""
    return head if head in question.letters else None


def _cgbench_6677fe3(reply: str, question: Question) -> str | None:
    """CG-Bench, run/utils.py (post_process) of CG-Bench/CG-Bench; VLMEvalKit copies it.

    Field "result" of the first ```json block; without a valid one, all standalone capitals A to H, and the
    reply is right if the gold letter is among them. Replies without any leave the denominator.
    """
    block = re.search(r"```json(.*?)```", reply, re.DOTALL)
    if block and block[1].strip():
        # Their scorer puts quotes around a bare word after a colon before parsing.
        quoted = re.sub(r"(?<=:\s)([A-Za-z_]\w*)", r'"\1"', block[1].strip())
        try:
            result = json.loads(quoted)["result"]
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        else:
            # Anything but a letter is compared too, and is wrong.
            return result if result in question.letters else ""
    return OR.join(sorted(set(re.findall(r"\b[A-H]\b", reply)))) or None


def _videopro(reply: str, question: Question) -> str | None:
    """The public VideoPro release: a capital A to J, "Yes" or "No" as the first word of the reply.

    "(B)", "**C**" and "The answer is B" are read as nothing, "A person is cooking" as A and "I think C" as I.
    """
    match = re.match(r"\s*([A-J]|Yes|No)\b", reply)
    return match[1] if match else None


def _egoschema_77a7d8e3(reply: str, question: Question) -> str | None:
    """EgoSchema, lmms-eval's task `egoschema` from that commit to 1d3f34ab
    (egoschema_process_results_generation in utils.py).

    The reply must be "B. text.", "text." or "B" exactly; a missing full stop at the end of the option is
    added to the option, not to the reply, and of an option of several sentences the first counts, without its
    full stop.
    """
    labelled = [f"{letter}. {text}" for letter, text in zip(question.letters, question.choices, strict=True)]
    sentences = [text if text.endswith(".") else f"{text}." for text in labelled]
    for forms in (sentences, [text.split(". ")[1] for text in sentences], list(question.letters)):
        if reply in forms:
            return question.letters[forms.index(reply)]
    return None


def _egoschema_1d3f34ab(reply: str, question: Question) -> str | None:
    """EgoSchema, lmms-eval's task `egoschema` since that commit (parse_multi_choice_response in utils.py).

    Of the letters in brackets, before a space and before a full stop, each taken at its last place, the first
    in the reply: "The cat is (B)" is B, "A man, so B." is A. In a reply of more than five words without any,
    the option whose text, with its letter, occurs. If nothing is found it draws a random option; here the
    result is None. The authors publish no scorer for replies.
    """
    for sign in ",.!?;:'":
        reply = reply.strip(sign)
    reply = f" {reply} "
    forms = [
        (reply.rfind(form.format(letter)), letter)
        for form in ("({})", "{} ", "{}.")
        for letter in question.letters
        if form.format(letter) in reply
    ]
    if not forms and len(reply.split()) > 5:
        # The options of its data begin with their letters.
        labelled = {letter: f"{letter}. {question.choice(letter)}".lower() for letter in question.letters}
        low = reply.lower()
        forms = [(low.rfind(text), letter) for letter, text in labelled.items() if text in low]
    return min(forms, key=lambda form: form[0])[1] if forms else None


def _nextqa(reply: str, question: Question) -> str | None:
    """NExT-QA, lmms-eval's task `nextqa_mc_test`, which reads as MMMU's evaluation does.

    The last of the letters in brackets, else of letters before a space ("a man and A " reads A), else of
    letters before a full stop; in a reply of more than five words, else the last option whose text occurs.
    If nothing is found it draws a random option; here the result is None. The authors publish no scorer for
    replies.
    """
    for sign in ",.!?;:'":
        reply = reply.strip(sign)
    reply = f" {reply} "
    for form in ("({})", "{} ", "{}."):
        mentioned = [letter for letter in question.letters if form.format(letter) in reply]
        if len(mentioned) == 1:
            return mentioned[0]
        if mentioned:
            # Letters without brackets are then searched between spaces; -1 if one is not found.
            last = "({})" if form == "({})" else " {} "
            return max(mentioned, key=lambda letter: (reply.rfind(last.format(letter)), -ord(letter)))
    if len(reply.split()) <= 5:
        return None
    texts = dict(zip(question.letters, question.choices, strict=True))
    named = [letter for letter in question.letters if texts[letter].lower() in reply.lower()]
    return max(named, key=lambda letter: reply.lower().rfind(texts[letter].lower()), default=None)


def written_intervals(reply: str) -> list[tuple[float, float]] | None:
    """The intervals (s) that a reply names, as run/utils.py (post_process, task "miou") of CG-Bench/CG-Bench,
    commit 6677fe3, reads them; None if it reads none.

    Field "result" of the first ```json block, a list of [start, end]; without a valid one, all numbers of the
    reply in pairs, and nothing if their number is odd. A reply without numbers names no interval. The script
    does not check that there are at most five, nor that a start comes before its end. It ends in an error,
    and so reads nothing, if pairs of numbers outside a block overlap.
    """
    result = written_result(reply)
    if isinstance(result, list) and all(map(_is_interval, result)):
        return [(float(start), float(end)) for start, end in result]
    if not reply:
        return None
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", reply)]
    if len(numbers) % 2:
        return None
    # By start, as the script sorts them before it looks for overlaps.
    pairs = sorted(zip(numbers[::2], numbers[1::2], strict=True), key=lambda pair: pair[0])
    return None if any(after[0] <= before[1] for before, after in pairwise(pairs)) else pairs


def written_result(reply: str) -> Any:
    """Field "result" of the first ```json block of a reply; None if there is none, or no valid block."""
    block = re.search(r"```json(.*?)```", reply, re.DOTALL)
    if not block or not block[1].strip():
        return None
    try:
        return json.loads(block[1].strip())["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_interval(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


OFFICIAL_EXTRACTORS: Mapping[str, Callable[[str, Question], str | None]] = {
    "videomme": _videomme,
    "longvideobench": _longvideobench,
    "lvbench": _lvbench,
    "mlvu": _mlvu,
    "videomme_afd52cf": _videomme_afd52cf,
    "mlvu_4bcc3c0": _mlvu_4bcc3c0,
    "cgbench_6677fe3": _cgbench_6677fe3,
    "egoschema_77a7d8e3": _egoschema_77a7d8e3,
    "egoschema_1d3f34ab": _egoschema_1d3f34ab,
    "nextqa": _nextqa,
    "videopro": _videopro,
}
