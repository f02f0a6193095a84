"""The answer extraction of published scorers, faults included, so that official numbers can be reproduced.

Our own code, written after the released scorers. An extractor returns what its scorer compares with the gold
letter, which may not be an option of the question at all ("T"), or None if its scorer finds nothing. The
benchmark decides whether such questions leave the denominator. To read replies robustly, use
`videopro.question.answer_extraction`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from videopro.question.question import Question


def _first_capital(reply: str, phrases: tuple[str, ...], letters: str) -> str | None:
    for phrase in phrases:
        reply = reply.replace(phrase, "")
    found = re.search(f"[{letters}]", reply)
    return found[0] if found else None


def _videomme(reply: str, question: Question) -> str | None:
    """Video-MME, evaluation/eval_your_results.py of BradyFU/Video-MME (also lmms-eval's task `videomme`).

    Removes four phrases from the reply and takes the first capital A to D of the rest, inside words too:
    "Answer: D" is A, "Based on ..." is B. Missing commas in its list join the last four phrases into two that
    never occur, so "Best answer:" and "The correct option is" stay. Replies without such a capital leave the
    denominator (in lmms-eval they stay in it).
    """
    return _first_capital(
        reply, ("The best answer is", "The correct answer is", "The answer is", "The answer"), "ABCD"
    )


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
    """MLVU, videochat2/choice_bench.py and Evaluation_Test/test_bench.py of JUNJIE99/MLVU.

    The prompt ends with "Best Option: (", so the reply should continue with "B) ...": the text before the
    first ")" must be exactly the gold letter. A model that writes its own bracket, "(B)", is always wrong.
    The dev scorer does not strip spaces and the test scorer does; this extractor does.
    """
    head = reply.split(")")[0].strip()
    return head if head in question.letters else None


def _cgbench(reply: str, question: Question) -> str | None:
    """CG-Bench, run/utils.py of CG-Bench/CG-Bench (VLMEvalKit copies it).

    Field "result" of a ```json block; without one, all standalone capitals A to H, and the reply counts as
    right if the gold letter is *among* them. An extractor does not know the gold letter: with several
    different capitals this returns None, so that the official score is a little higher than the one computed
    here.
    """
    block = re.search(r"```json(.*?)```", reply, re.DOTALL)
    if block:
        # Their scorer puts quotes around a bare word after a colon before parsing.
        quoted = re.sub(r"(?<=:\s)([A-Za-z_]\w*)", r'"\1"', block[1].strip())
        try:
            result = json.loads(quoted)["result"]
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        else:
            return result if isinstance(result, str) else None
    capitals = set(re.findall(r"\b[A-H]\b", reply))
    return capitals.pop() if len(capitals) == 1 else None


def _videopro(reply: str, question: Question) -> str | None:
    """The public VideoPro release: a capital A to J, "Yes" or "No" as the first word of the reply.

    "(B)", "**C**" and "The answer is B" are read as nothing, "A person is cooking" as A and "I think C" as I.
    """
    found = re.match(r"\s*([A-J]|Yes|No)\b", reply)
    return found[1] if found else None


def _egoschema(reply: str, question: Question) -> str | None:
    """EgoSchema, lmms-eval's task `egoschema` (egoschema_process_results_generation).

    The reply must be "B. text.", "text." or "B" exactly; a missing full stop at the end of the option is
    added to the option, not to the reply. The authors publish no scorer for replies.
    """
    own = list(zip(question.letters, question.choices, strict=True))
    for form in (lambda letter, text: f"{letter}. {text}", lambda letter, text: text):
        for letter, text in own:
            wanted = form(letter, text)
            if reply == (wanted if wanted.endswith(".") else f"{wanted}."):
                return letter
    return next((letter for letter in question.letters if reply in (letter, f"{letter}.")), None)


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
        found = [letter for letter in question.letters if form.format(letter) in reply]
        if len(found) == 1:
            return found[0]
        if found:
            # Letters without brackets are then searched between spaces; -1 if one is not found.
            last = "({})" if form == "({})" else " {} "
            return max(found, key=lambda letter: (reply.rfind(last.format(letter)), -ord(letter)))
    if len(reply.split()) <= 5:
        return None
    texts = dict(zip(question.letters, question.choices, strict=True))
    named = [letter for letter in question.letters if texts[letter].lower() in reply.lower()]
    return max(named, key=lambda letter: reply.lower().rfind(texts[letter].lower()), default=None)


OFFICIAL_EXTRACTORS: Mapping[str, Callable[[str, Question], str | None]] = {
    "videomme": _videomme,
    "longvideobench": _longvideobench,
    "lvbench": _lvbench,
    "mlvu": _mlvu,
    "cgbench": _cgbench,
    "egoschema": _egoschema,
    "nextqa": _nextqa,
    "videopro": _videopro,
}
