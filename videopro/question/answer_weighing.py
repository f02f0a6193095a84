"""How a reply weighs options against each other: rankings, shares, alternatives, and a verdict for each.

The reply is read as *tokens* (an option, a rank, a doubt, a verdict, a boundary, any other word), and these as
*clauses*, each of which gives its options one standing: "Most likely: B. Second most likely: C." has two, B
first and C below. What stands below a choice is left out before the reply is read for verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from videopro.question.answer_phrases import ENDS, NAME_BEFORE

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies reason: they weigh options on the way, and say their choice at the end.
_LONGEST = 1500
_LIKELY = r"(?:likely|likeliest|probable|plausible|possible|preferred|convincing|suitable|reasonable)"
_PICK = r"(?:choice|guess|pick|bet|candidate|preference|hypothesis|contender)"
_ANSWER = rf"(?:{_PICK}|answer|option)"
_LATER = r"(?:second|third|fourth|fifth|sixth|2nd|3rd|4th|5th|6th|next)"
_FALSE = (
    r"(?:incorrect|wrong|false|untrue|unsupported|impossible|implausible|improbable|unlikely|excluded"
    r"|eliminated?|ruled?\s+out)"
)
_TRUE = (
    r"(?:correct|true|supported|confirmed|valid"
    r"|right(?!\s+(?:behind|next|in|on|at|above|below|before|after|side|hand|of|beside|there)\b))"
)
# Kinds of tokens, the first that fits counts. A kind is one letter, so that a reply's tokens are a text too.
_ORDER, _BELOW, _FIRST, _DOUBT, _WRONG, _RIGHT, _PROBABLE, _VETO, _OPTION = "obfdnylxL"
_WORDS = {
    "v": r"least\s+to\s+most|worst\s+to\s+best|ascending\s+order",
    _ORDER: r"(?:\w+\s+ranking|rank(?:ings?|ed)?)(?!\s*#?\d)|most\s+to\s+least|best\s+to\s+worst|(?:likelihood|probability|confidence)"
    r"\s+order|order(?:ed)?\s+(?:of|by)\s+(?:likelihood|probability|plausibility|preference|confidence)",
    _BELOW: rf"{_LATER}[\s-]+(?:best|most)(?:\s+{_LIKELY})?(?:\s+{_ANSWER})?|{_LATER}[\s-]+(?:{_LIKELY}|{_PICK})"
    rf"|runners?[\s-]up|(?:alternative|back-?up|secondary|fallback)(?:\s+{_ANSWER})?|alternatively"
    rf"|(?:less|least)\s+{_LIKELY}(?:\s+{_ANSWER})?|(?:close|distant|near)\s+second"
    rf"|followed(?:\s+closely)?\s+by|worst(?:\s+{_ANSWER})?|also\s+{_LIKELY}|{_LATER}(?=\s*[:=])"
    rf"|rank\s*#?\s*[2-9]|my\s+{_LATER}",
    _FIRST: rf"(?:first|1st)[\s-]+{_PICK}|(?:top|primary|main|favou?rite|leading|strongest)[\s-]+{_ANSWER}"
    rf"|rank\s*#?\s*1|mo(?:st|re)\s+{_LIKELY}(?:\s+{_ANSWER})?|best(?:\s+{_ANSWER})?|primary",
    "i": r"first|1st",
    "j": _LATER,
    # What cannot be ruled out is possible, and no more.
    _DOUBT: r"(?:can(?:\s*no|['’]?)t|could(?:\s+no|\s*n['’])t|not)\s+(?:be\s+)?"
    r"(?:(?:entirely|fully|completely)\s+)?(?:ruled?\s+out|excluded?|dismiss(?:ed)?|eliminated?)"
    r"|could|might|may|maybe|perhaps|possib(?:ly|le|ility)|plausible|conceivabl[ey]",
    _WRONG: rf"(?:not|isn['’]t)\s+(?:\w+ly\s+)?{_TRUE}|{_FALSE}|no",
    _RIGHT: rf"{_TRUE}|yes",
    _VETO: r"than|rather|instead|over|unless|whether|if|or|wait|actually|sorry|equally|both|either|between"
    r"|not|never|neither|nor|none|without|hardly|cannot|\w+n['’]t",
    "c": r"but|though|although|however|while|whereas|yet|with",
    "a": r"and|then|finally|lastly",
    _PROBABLE: r"likely|probabl[ye]",
    "z": r"is|are|very|quite|most|more|as|the|an?|my|be|it|to|them|options?|answers?|choices?|statement|verdict|chance|confidence"
    r"|probability|likelihood|also|follows",
}
_SIGNS = {
    "s": r"\d{1,3}(?:\.\d+)?\s*%|(?<![\d.])[01]?\.\d+",
    "h": r"(?<!\w)\d{1,2}[.):](?!\d)|(?<=\| )\d{1,2}(?= \|)|#\s*\d{1,2}\b",
    "g": r"(?<![-=–])>{1,2}|[≻≫]",
    "e": r"[=~≈]",
    "N": r"[✗✘❌☒]",
    "Y": r"[✓✔✅☑]",
    "k": r"[,;/&]",
    "p": r"\(",
    "t": r"[.!](?=\s|$)|\n",
    "q": r"\?",
    "w": r"[^\W_][\w'’-]*",
}
_LETTER = (
    r"(?<![\w'’$.-])[(\[]?(?P<letter>[B-HJ-Z]|[AI](?=[)\].:,;]|\s*(?:$|[\n✗✘❌☒✓✔✅☑>=|(–—-]))"
    rf"|A(?=\s+(?:is|was|and|or|as|with|first|second|third|has|at|then|no|yes|not|might|may|could|can|must|would|seems|looks|appears|{_TRUE}|{_FALSE})\b)){ENDS}"
    r"[)\]]?"
)
_TOKEN = re.compile(
    rf"(?P<{_OPTION}>(?:(?i:options?|choices?)\s+)?{_LETTER})|"
    + "|".join(rf"(?P<{kind}>(?i:(?<!\w)(?:{words})(?!\w)))" for kind, words in _WORDS.items())
    + "|"
    + "|".join(f"(?P<{kind}>{signs})" for kind, signs in _SIGNS.items())
)
# Options in an order. What stands beside one may be a share, a rank or a remark of doubt.
_ITEM = "L[sfbdlnijzp]{0,4}"
_RANKING = re.compile(rf"(?P<order>[vo][wvofbzlshapte]{{0,8}}?)?(?P<items>h?{_ITEM}(?:[agt]{{1,3}}h?z*{_ITEM})+)(?=[tpq]|$)")
_CHAIN = re.compile("L(?:gL)+")
_NUMBERED = re.compile(rf"h{_ITEM}(?:[agt]{{0,3}}h{_ITEM}){{2,}}")
_GOES_ON = re.compile(r"\b(?:[Ww]ait|[Aa]ctually|[Ll]et(?:['’]s|\s+me|\s+us))\b")
_LEFT_OVER = re.compile(r"^\W*(?:(?:but|and|though|although|while|however)\b)?[\s,;.]*")


class _Token(NamedTuple):
    kind: str
    start: int
    end: int
    word: str
    """What it says; of an option the letter alone."""


class _Clause(NamedTuple):
    tokens: tuple[_Token, ...]

    @property
    def kinds(self) -> str:
        return _kinds(self.tokens)

    @property
    def letters(self) -> set[str]:
        return {token.word for token in self.tokens if token.kind == _OPTION}

    @property
    def standing(self) -> str:
        """The kind of token that gives its options their standing; empty if none does."""
        kinds = self.kinds
        if "q" in kinds:
            return _VETO
        if re.fullmatch("[az]*L[za]*j[za]*t?", kinds):
            return _BELOW
        if re.fullmatch("[az]*L[za]*it?", kinds):
            return _FIRST
        return next((kind for kind in (_VETO, _WRONG, _BELOW, _DOUBT, _FIRST, _RIGHT, _PROBABLE) if kind in kinds), "")

    @property
    def is_plain(self) -> bool:
        """Whether every word is understood."""
        return "w" not in self.kinds


def settled(text: str, question: Question, read: Callable[[str], str | None]) -> str:
    """The text without what it puts below its choice, and with the choice of a ranking or of a list of
    verdicts as "Answer: B."; the text itself if it weighs nothing. `read` reads a clause by itself."""
    if len(text) > _LONGEST:
        return text
    bare = _without_own_texts(text, question)
    tokens = _tokens(bare, question)
    options = [token.start for token in tokens if token.kind == _OPTION]
    if not options or _GOES_ON.search(bare, options[0]):
        return text
    if ranked := _ranked(bare, tokens):
        return ranked
    clauses = [clause for clause in _clauses(tokens, bare) if clause.letters]
    below = [clause for clause in clauses if clause.standing == _BELOW]
    others = [clause for clause in clauses if clause.standing != _BELOW]
    best = [clause for clause in others if clause.standing in (_FIRST, _RIGHT, _PROBABLE)]
    chosen = set().union(*(clause.letters for clause in best))
    lesser = [clause for clause in others if clause.standing in (_WRONG, _DOUBT)]
    if len(chosen) == 1 and len(clauses) > len(best) == len(others) - len(lesser) and _all_plain([*best, *lesser]):
        if chosen & set().union(*(clause.letters for clause in lesser)):
            return text
        return _cut(bare, clauses, best[0], *chosen)
    doubted = [clause for clause in others if clause.standing == _DOUBT]
    named = [clause for clause in others if clause.standing in ("", _FIRST, _RIGHT, _PROBABLE)]
    letters = set().union(*(clause.letters for clause in named))
    if doubted and len(letters) == 1:
        spans = (bare[clause.tokens[0].start : clause.tokens[-1].end] for clause in named)
        if any(read(_LEFT_OVER.sub("", span)) in letters for span in spans):
            below += doubted
    return _cut(bare, below) if below else text


def _all_plain(clauses: list[_Clause]) -> bool:
    return all(clause.is_plain for clause in clauses)


def _cut(text: str, clauses: list[_Clause], choice: _Clause | None = None, letter: str = "") -> str:
    """The text without clauses, but with the letter of the chosen one."""
    for clause in reversed(clauses):
        said = f" Answer: {letter}. " if clause is choice else " "
        text = text[: clause.tokens[0].start] + said + text[clause.tokens[-1].end :]
    return _LEFT_OVER.sub("", text).strip()


def _without_own_texts(text: str, question: Question) -> str:
    """The text without the options' texts beside their own letters."""
    for letter, choice in zip(question.letters, question.choices, strict=True):
        own = rf"(?<!\w)({letter}[)\].:]{{0,2}})[ :–—-]{{0,4}}[(\"“']?(?i:{re.escape(choice.strip())})[)\"”']?(?!\w)"
        text = re.sub(own, r"\1", text)
    return text


def _tokens(text: str, question: Question) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        kind, letter = match.lastgroup or "w", match["letter"]
        named = letter and NAME_BEFORE.search(text, max(0, match.start() - 30), match.start("letter"))
        if named or (letter and letter not in question.letters):
            kind = "w"
        kind = {"N": _WRONG, "Y": _RIGHT, "k": "a"}.get(kind, kind)
        tokens.append(_Token(kind, *match.span(), letter or match[0]))
    return tokens


def _kinds(tokens: Sequence[_Token]) -> str:
    return "".join(token.kind for token in tokens)


def _ranked(text: str, tokens: list[_Token]) -> str:
    """The text with the first of its ranking in place of the ranking; empty without one."""
    kinds = _kinds(tokens)
    for match in _RANKING.finditer(kinds):
        items = tokens[match.start("items") : match.end()]
        letters = [token.word for token in items if token.kind == _OPTION]
        start = items[0].start
        ordered = match["order"] and (
            "g" in match["items"] or "h" in match["items"] or "i" in match["items"] or text[:start].rstrip(" \n(").endswith((":", "them", "|"))
        )
        whole = match.span() == (0, len(kinds.rstrip("t")))
        chain = _CHAIN.fullmatch(match["items"]) and (ordered or whole)
        numbered = whole and _NUMBERED.fullmatch(match["items"]) and letters != sorted(letters)
        if len(set(letters)) == len(letters) and (ordered or chain or numbered):
            choice = letters[-1] if match["order"] and "v" in match["order"] else letters[0]
            return f"{text[: tokens[match.start()].start]}Answer: {choice}. {text[items[-1].end :]}"
    return ""


def _clauses(tokens: list[_Token], text: str) -> Iterator[_Clause]:
    """The parts of a reply that say one thing of their options."""
    clause: list[_Token] = []
    for index, token in enumerate(tokens):
        said = _kinds(clause)
        following = _kinds(tokens[index + 1 : index + 4])
        if token.kind in "tq":
            # "A. Wrong. B. Right.": the full stop is the label's.
            if not (token.kind == "t" and token.word == "." and re.fullmatch("[zt]*L", said) and re.match("[nyd](?!z?L)", following)):
                yield _Clause((*clause, token))
                clause = []
            continue
        if token.kind in "ac" and len(re.sub("[az]", "", said)) > 1 and said[-1] != _OPTION:
            yield _Clause(tuple(clause))
            clause = []
        elif _OPTION in said and (
            token.kind == "c"
            # "A, B and C" is one list.
            or (token.kind == "a" and not (said[-1] in "La" and re.match("a?L", following)))
            or (token.kind == "p" and any(other.kind == _OPTION for other in _inside(tokens, token, text)))
            or (token.kind == _OPTION and _VETO not in said and re.search("L[^L]*[nydfblijs]", said))
            or (token.kind in "nydfbl" and re.search("[nydfbl][^L]*L+[a-zL]*$", said) and said[-1] == _OPTION)
        ):
            yield _Clause(tuple(clause))
            clause = []
        clause.append(token)
    if clause:
        yield _Clause(tuple(clause))


def _inside(tokens: list[_Token], opening: _Token, text: str) -> list[_Token]:
    end = text.find(")", opening.end)
    return [token for token in tokens if opening.end <= token.start < end]
