"""Verdicts in Chinese: "答案是B", "B选项", "选B". A letter here is a capital.

Every benchmark asks in English; models that were trained on Chinese too sometimes reply in it.
"""

from __future__ import annotations

from videopro.question.answer_phrases import CLOSE, ENDS, OPEN, patterns

_NOT_LATIN = r"[^\x00-\u024f]"
# What may follow a letter: an end, punctuation, or another script.
_LETTER = (
    rf"{OPEN}(?P<letter>[A-Z])(?![A-Za-z0-9_\u00c0-\u024f'’+#]|-[A-Za-z0-9])"
    rf"(?=[ \t]*(?:$|\n|[^\w\s]|{_NOT_LATIN}))"
)
_BEFORE = (
    # "分析选项" and "看选项" look at an option, and "不选" declines it.
    r"(?:答案|应选|應選|故选|选择|(?<![不没未别非])选|選)(?:选项)?(?:应该|應該|应|就)?(?:选择|选)?(?:是|为|為)?(?:选项)?",
    r"(?:^|正确(?:的)?|最佳(?:的)?|[,。]\s?)(?:选项|選項)(?:应该|應該)?(?:是|为|為)?"
    r"(?=\s?:?\s?[「(]?[A-Z][」)]?\s*(?:$|\n|[^\w\s]))",
    r"(?:认为|觉得|判断)(?:答案)?(?:应该)?是",
    r"(?<!不)而?是(?:选项)?(?=[A-Z](?:选项)?[。.!]?$)",
)
_AFTER = r"\s*(?:选项|選項|项|項)?\s*(?:是|为)?(?:最)?(?:正确|对的|合适|恰当)(?:的|答案|选项|。)?"
_LINK = r"\s*(?:[:=]|—|–|-)?\s*"
# A letter after "or" is one of several.
_ALONE = r"(?<![A-Za-z0-9_'’和-])"

CHINESE_VERDICTS = patterns(
    rf"(?:{'|'.join(_BEFORE)}){_LINK}{_LETTER}",
    rf"{_ALONE}[「(\[\"'“*]?(?P<letter>[A-Z]){ENDS}{CLOSE}{_AFTER}",
)
# A whole reply: "B选项".
LETTER_AND_NOUN = r"\s*(?:选项|選項|项|項)?\s*"
