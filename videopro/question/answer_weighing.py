"""How a reply weighs options against each other: rankings, alternatives, and a verdict for each.

The reply is read as *tokens* (an option, a rank, a doubt, a verdict, a boundary, any other word), and these
as *clauses*, each of which gives its options one standing: "Most likely: B. Second most likely: C." has two,
B first and C below. What stands below a choice is left out before the reply is read for verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from videopro.question.answer_phrases import AFFIRMED, AFFIRMED_ALONE, DENIED, ENDS, FALSE, NAME_BEFORE

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies reason: they weigh options on the way, and say their choice at the end.
_LONGEST = 1500
_LIKELY = r"(?:likel(?:y|iest)|probable|plausible|possible|preferred|convincing|suitable|reasonable)"
_PICK = r"(?:choice|guess|pick|place|bet|candidate|preference|hypothesis|contender)"
_ANSWER = rf"(?:{_PICK}|answer|option)"
_MEASURE = r"(?:likelihood|probability|plausibility|preference|confidence)"
_NUMBERED_AS = r"(?:rank|top|choice|guess|place)[\s#-]*"
_LATER = r"(?:second|third|fourth|fifth|sixth|2nd|3rd|4th|5th|6th|next)"
_TRUE = (
    r"(?:correct|true|supported|confirmed|valid"
    r"|right(?!\s+(?:behind|next|in|on|at|above|below|before|after|side|hand|of|beside|there)\b))"
)
# Kinds of words; the first that fits counts. A kind is one letter, so that a reply's kinds are a text too.
_FIRST, _BELOW, _DOUBT, _RIGHT, _WRONG, _PROBABLE, _VETO = "fbdynlx"
_BEST = (_FIRST, _RIGHT, _PROBABLE)
_WORDS = {
    # What a list of options is ordered by, from the last and from the first.
    "v": r"least\s+(?:\w+\s+){0,2}to\s+(?:the\s+)?most|(?:worst|low(?:est)?|weakest|bottom)\s+to\s+\w+"
    r"|ascending|increasing|reversed?|(?:worst|lowest|weakest|least\s+\w+)\s+first|(?:best|highest|most\s+\w+)\s+last",
    "o": r"(?:\w+\s+ranking|rank(?:ings?|ed|s)?)(?!\s*#?\d)|most\s+(?:\w+\s+)?to\s+least|best\s+to\s+worst"
    rf"|{_MEASURE}\s+order|(?:of|by)\s+{_MEASURE}",
    _BELOW: rf"{_LATER}[\s-]+(?:best|most)(?:\s+{_LIKELY})?(?:\s+{_ANSWER})?"
    rf"|{_LATER}[\s-]+(?:{_LIKELY}|{_PICK})|{_LATER}(?=\s*[:=])|my\s+{_LATER}|also\s+{_LIKELY}"
    rf"|(?:(?:less|least)\s+{_LIKELY}|worst|alternative|back-?up|secondary|fallback)(?:\s+{_ANSWER})?"
    r"|runners?[\s-]up|alternatively|(?:close|distant|near)\s+second|(?<!\bis\s)(?<!\bwas\s)followed(?:\s+closely)?\s+by"
    rf"|less\s+so|weak(?:er|est)(?:\s+{_ANSWER})?|{_NUMBERED_AS}[2-9]",
    _FIRST: rf"(?:first|1st)[\s-]+{_PICK}|(?:top|primary|main|favou?rite|leading|strongest)[\s-]+{_ANSWER}"
    rf"|{_NUMBERED_AS}1|(?:mo(?:st|re)\s+{_LIKELY}|likeliest|best)(?:\s+{_ANSWER})?|primary",
    "i": r"first|1st",
    "j": _LATER,
    # What cannot be ruled out is possible, and no more.
    _DOUBT: r"(?:can|(?:c|w)ould|do)(?:\s*no|n?['’]?)t\s+(?:be\s+)?(?:(?:entirely|fully)\s+)?"
    r"(?:ruled?\s+out|excluded?|dismiss(?:ed)?|eliminated?)"
    r"|not\s+(?:ruled\s+out|out\s+of\s+the\s+question|impossible)|could|might|may|maybe|perhaps|possib(?:ly|le|ility)|plausible|conceivabl[ey]",
    _WRONG: rf"(?:not|isn['’]t)\s+(?:\w+ly\s+)?{_TRUE}|{FALSE}|no(?!\s+longer)",
    _RIGHT: rf"{_TRUE}|yes",
    _VETO: r"(?:all|any|every|no)(?:thing)?\s+but|than|rather|instead|over|unless|whether|if|wait|actually"
    r"|sorry|equally|both|either|between|not|never|neither|nor|none|without|hardly|cannot|\w+n['’]t",
    "r": r"or",
    "c": r"but|though|although|however|while|whereas|yet|with",
    "a": r"and|then|finally|lastly",
    _PROBABLE: r"likely|probabl[ye]",
    # Words that add nothing.
    "z": r"is|are|very|quite|most|more|as|the|an?|my|be|it|to|them|options?|answers?|choices?|statement"
    r"|verdict|chance|confidence|probability|likelihood|also|follows",
}
_SIGNS = {
    "s": r"\d{1,3}(?:\.\d+)?\s*%|(?<![\d.])[01]?\.\d+",
    "h": r"(?<!\w)\d{1,2}[.):](?!\d)|(?<=\| )\d{1,2}(?= \|)|#\s*\d{1,2}\b",
    "g": r"(?<![-=–])>{1,2}|[≻≫]",
    "e": r"[=~≈]",
    "N": r"[✗✘❌☒]",
    "Y": r"[✓✔✅☑]",
    "k": r"[,/&]",
    "m": r";",
    # A bracket around an option.
    "p": r"\((?=[^()\n]{0,80}\b[A-Z]\b[^()\n]{0,80}\))",
    "t": r"[.!](?=\s|$)|\n",
    "q": r"\?",
    "w": r"[^\W_][\w'’-]*",
}
_SAME = {"N": _WRONG, "Y": _RIGHT, "k": "a", "m": "c"}
# "A" and "I" are words too.
_TOKEN = re.compile(
    r"(?P<L>(?:(?i:options?|choices?)\s+)?(?<![\w'’$.-])[(\[]?"
    r"(?P<letter>[B-HJ-Z]|[AI](?=\s*(?:$|[\n)\].:,;✗✘❌☒✓✔✅☑>=|(–—→⇒-]))|A(?=\s+(?:is|was|and|or|as|with|first"
    r"|second|third|has|at|then|no|yes|not|might|may|could|can|must|would|seems|looks|appears"
    rf"|(?:{_TRUE}|{FALSE})(?!\s+{_ANSWER}))\b)){ENDS}[)\]]?)|"
    + "|".join(rf"(?P<{kind}>(?i:(?<!\w)(?:{words})(?!\w)))" for kind, words in _WORDS.items())
    + "".join(f"|(?P<{kind}>{sign})" for kind, sign in _SIGNS.items())
)
# In kinds: "Most likely: B"; "B and C are wrong", "B. Right." (the first full stop is the label's); others.
_CLAUSE = re.compile(
    r"[acp]*(?:(?:[^Lactqpfbdynl]*[fbdynl][^Lactqp]*[ap]?L(?:[ar]{1,2}z*L)*[^Lactqpfbdynl]*"
    r"|[^Lactqpfbdynl]*L(?:[ar]{1,2}z*L)*(?:t(?=[nyd](?![zwb]{0,3}L)))?(?:(?:a?r(?![bx])|[^Lactqp]*[xr])[^Lactqp]*L)*[^Lactqp]*)"
    r"(?:a?c[^Lactqpx]*(?=[tq]|$))?|[^Lactqp]*)[tq]?"
)
# Options in an order, with shares, ranks and doubts next to them: "Ranking: 1. B (likely), 2. C", "B > C".
_ITEM = "L[sfbdlnijzp]{0,4}"
_RANKING = re.compile(
    rf"(?P<order>[vo][wvofbzlshapte]{{0,8}}?)?"
    rf"(?P<items>(?:hL[^hL]{{0,30}}){{2,}}|[hij]?{_ITEM}(?:(?:[acgte]{{1,3}}[hij]?|h)z*{_ITEM})+(?=[tpq]|$))"
)
_NUMBERED = re.compile(rf"h{_ITEM}(?:[acgt]{{0,3}}h{_ITEM}){{2,}}")
_LEFT_OVER = re.compile(r"^\W*(?:(?:but|and|though|although|while|however)\b)?[\s,;.]*")
_LETTERED_LINE = re.compile(
    r"^[ \t(\[{>•-]*(?:\d+\.[ \t]*)?(?:[Oo]ption[ \t]+)?(?P<letter>[A-Z])"
    r"(?:[ \t]*[)\]}.:]+[ \t]*|[ \t][-–—][ \t]|[ \t]+(?=[✓✔✅☑✗✘❌☒]))(?P<tail>\S[^\n]*)$",
    re.MULTILINE,
)


class _Token(NamedTuple):
    kind: str
    start: int
    end: int
    letter: str | None


class _Clause(NamedTuple):
    kinds: str
    start: int
    end: int
    letters: set[str]

    @property
    def standing(self) -> str:
        """The kind of word that gives its options their standing; empty if none does."""
        if ordinal := re.fullmatch("[azo]*L[ao]*([ij])[az]*t?", self.kinds):
            return _FIRST if ordinal[1] == "i" else _BELOW
        if self.kinds.startswith("r"):
            return "r"
        kinds = self.kinds.replace("q", _VETO)
        order = (_VETO, _WRONG, _BELOW, _DOUBT, "r", _FIRST, _RIGHT, _PROBABLE)
        return next((kind for kind in order if kind in kinds), "")

    @property
    def is_plain(self) -> bool:
        """Whether every word up to the option and its standing is understood."""
        said = max(self.kinds.find("L"), self.kinds.find(self.standing))
        return "w" not in self.kinds[:said] and "c" not in self.kinds[said:]


def settled(text: str, question: Question, read: Callable[[str], str | None]) -> str:
    """The text without what it puts below its choice, and with the choice of a ranking or of a list of
    verdicts as "Answer: B."; the text itself if it weighs nothing. `read` reads a clause by itself."""
    if len(text) > _LONGEST:
        return text
    bare = _without_own_texts(text, question)
    tokens = list(_tokens(bare, question))
    if (ranked := _ranked(bare, tokens)) is not None:
        return ranked
    clauses = list(_clauses(tokens))
    below, doubted, wrong, named, best = (
        [clause for clause in clauses if clause.standing in standings]
        for standings in ((_BELOW,), (_DOUBT,), (_WRONG,), ("", *_BEST), _BEST)
    )
    chosen = _letters(named)
    is_clear = len(chosen) == 1 and not chosen & _letters(wrong)
    judged = [*best, *doubted, *wrong]
    is_weighed = len(best) == len(named) and len(clauses) == len(judged) + len(below)
    if len(chosen) == len(clauses) == 1:
        return text
    if chosen and is_weighed and all(clause.is_plain for clause in judged):
        return _cut(bare, clauses, best[0]) if is_clear else ""
    lesser = [*doubted, *(clause for clause in wrong if "w" not in clause.kinds)]
    said = (_LEFT_OVER.sub("", bare[clause.start : clause.end]) for clause in named)
    choice = named[0] if below and is_clear and len(named) == 1 and named[0].standing == _FIRST else None
    cut = [*below, *named] if choice else below
    if lesser and is_clear and any(read(part) in chosen for part in said):
        cut = [*cut, *lesser]
    return _cut(bare, cut, choice) if cut else text


def _letters(clauses: Sequence[_Clause]) -> set[str]:
    return {letter for clause in clauses for letter in clause.letters}


def _cut(text: str, clauses: Sequence[_Clause], choice: _Clause | None = None) -> str:
    """The text without clauses; in place of the chosen one is its letter."""
    for clause in sorted(clauses, key=lambda clause: clause.start, reverse=True):
        answer = f"Answer: {min(clause.letters)}." if clause is choice else ""
        text = f"{text[: clause.start]} {answer} {text[clause.end :]}"
    return _LEFT_OVER.sub("", text).strip()


def _without_own_texts(text: str, question: Question) -> str:
    """The text without the options' texts next to their own letters."""
    for letter, choice in zip(question.letters, question.choices, strict=True):
        own = rf"[ :|–—-]{{0,4}}[(\"“']?(?i:{re.escape(choice.strip())})[)\"”']?(?!\w)"
        text = re.sub(rf"(?<!\w)({letter}[)\].:]{{0,2}}){own}", r"\1", text)
        text = re.sub(rf"(?<!\w)(?i:{re.escape(choice.strip())}) ?(\({letter}\))", r"\1", text)
    return text


def _tokens(text: str, question: Question) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, letter = match.lastgroup or "", match["letter"]
        if letter and (
            letter not in question.letters
            or NAME_BEFORE.search(text, max(0, match.start() - 30), match.start("letter"))
        ):
            kind, letter = "w", None
        yield _Token(_SAME.get(kind, kind), *match.span(), letter)


def _clauses(tokens: Sequence[_Token]) -> Iterator[_Clause]:
    """The parts of a reply that name options, each with one standing."""
    for match in _CLAUSE.finditer("".join(token.kind for token in tokens)):
        if letters := {token.letter for token in tokens[slice(*match.span())] if token.letter}:
            yield _Clause(match[0], tokens[match.start()].start, tokens[match.end() - 1].end, letters)


def _ranked(text: str, tokens: Sequence[_Token]) -> str | None:
    """The text with the first of its ranking in place of the ranking; None without one."""
    kinds = "".join(token.kind for token in tokens)
    for match in _RANKING.finditer(kinds):
        listed, order = match["items"], match["order"] or ""
        items = tokens[match.start("items") : match.end()]
        letters = [token.letter for token in items if token.letter]
        numbers = [
            int(re.sub(r"\D", "", text[token.start : token.end])) for token in items if token.kind == "h"
        ]
        is_down = "v" in order or numbers > sorted(numbers)
        before = text[: items[0].start].rstrip(" \n(")
        is_ordered = order and (re.search("[ghi]", listed) or before.endswith((":", "them", "|", " is")))
        is_whole = not kinds[: match.start()].strip("z") and not kinds[match.end() :].strip("t")
        is_chain = is_whole and re.fullmatch("LgL(?:[ge]L)*", listed)
        is_numbered = is_whole and _NUMBERED.fullmatch(listed)
        # One to four, A to D, is the list of the options itself.
        if is_numbered and not order and letters == sorted(letters):
            return ""
        is_tie = re.match("h?L[^L]*e", listed)
        if not is_tie and len(set(letters)) == len(letters) and (is_ordered or is_chain or is_numbered):
            choice = letters[-1 if is_down else 0]
            return f"{text[: tokens[match.start()].start]}Answer: {choice}. {text[items[-1].end :]}"
    return None


def without_list(text: str, question: Question) -> tuple[set[str], str]:
    """Remove a list of lettered options; return the letters that it marks as right, and the other text.

    "Correct" and a tick mark a line. "Yes" and "true" mark it only if every other line is denied: in an
    unfinished list they may be one of several.
    """
    labelled = [match for match in _LETTERED_LINE.finditer(text) if match["letter"] in question.letters]
    # One line with a letter is the answer itself, not a list.
    if len({match["letter"] for match in labelled}) < 2:
        return set(), text
    marked: dict[str, set[str]] = {"denied": set(), "right": set(), "perhaps": set(), "": set()}
    for match in reversed(labelled):
        remark, choice = match["tail"], question.choice(match["letter"]).strip()
        # An option's own "no" or "correct" marks nothing.
        if remark.casefold().startswith(choice.casefold()):
            remark = remark[len(choice) :]
        forms = (("denied", DENIED), ("right", AFFIRMED), ("perhaps", AFFIRMED_ALONE))
        marked[next((name for name, form in forms if form.search(remark)), "")].add(match["letter"])
        text = text[: match.start()] + text[match.end() :]
    return marked["right"] or (set() if marked[""] else marked["perhaps"]), text.strip()
