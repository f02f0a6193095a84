"""Options that a reply names by their texts: "blue", "The car is blue.", "Yes, he does."

A text inside a sentence is read with care, because a word of an option may be there for another reason. The
reply must be short and name one option only, without denying, supposing or asking. A short option must also
be what is said about the question's own subject: of "Which colour is the car?", "a blue car" and "It is blue"
name an option, "a blue house" does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from videopro.question.answer_phrases import UNFINISHED
from videopro.question.thoughts import visible

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies reason: they name options that they do not choose.
_LONGEST = 300
_SENTENCES = 3
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?<!\bMr\.)(?<!\bDr\.)(?<!\bMrs\.)(?:\s+|(?<=[。！？]))|\n+")
_CLAUSE = re.compile(
    r"[,;:，、]|\b(?:but|while|whereas|although|though|sondern|sino)\b|而是|ではなく", re.IGNORECASE
)
_DENIES = re.compile(
    r"(?i)\b(?:not|no|never|neither|nor|none|nobody|nothing|without|cannot|wrong|incorrect|false|unlikely"
    r"|instead\s+of|rather\s+than|except|nicht|kein\w*|pas|não|niet|не|nie)\b|n['’]t\b|不|没|ない|ません|않|아니"
)
_DOUBTS = re.compile(
    r"(?i)[?？]|\b(?:or|if|whether|either|maybe|perhaps|possibly|might|may|could|unless|suppose|assuming|at\s+first"
    r"|initially|at\s+the\s+(?:start|beginning)|before|requires?|until|used\s+to|no\s+longer|later|afterwards|options?|choices?"
    r"|question|oder|ou|ni|или"
    r"|(?:someone|somebody|he|she|they|man|woman|boy|girl|narrator|host|user)\s+(?:says?|said|claims?|thinks?|asks?"
    r"|wants?|pretends?))\b|或者?|または|또는|还是"
)
_REFUSES = re.compile(
    r"(?i)\b(?:cannot|can['’]?t|could\s*n['’]t|unable|sorry|unclear|don['’]t\s+(?:know|see)|not\s+(?:sure|visible"
    r"|clear|shown|seen|possible)|let\s+me|let['’]s|need\s+(?:to|more)|step\s+\d|looking\s+for|to\s+help|help\s+you|happy\s+to)\b|无法|让我们|首先"
)
_PRONOUN = re.compile(
    r"(?i)^(?:(?:so|therefore|thus|i\s+(?:think|believe|see|count)|in\s+the\s+(?:video|end)|at\s+the\s+(?:end|start))"
    r"[,\s]+(?:that\s+)?)*(?:it|he|she|they|there|this|not|to|the\s+(?:answer|object|item|thing))\b"
)
_AFTER_MENTION = re.compile(
    r"^\s*(?:$|[.!?,;:()\"'“”’…—–-]|(?:in|on|at|with|because|as|since|and|which|that|who|when|during|near|by|from|to"
    r"|for|times?|of|is|are|was|were|now|then|here|there|again|first|one|ones)\b)"
)
_COUNTED_LOOSELY = re.compile(
    r"(?i)(?:at\s+least|at\s+most|more\s+than|less\s+than|fewer\s+than|over|under|nearly|almost|about|around"
    r"|up\s+to|between|than|from|in|after|before|within|first|last|next|other|another|frame|step|scene|option|number"
    r"|part|chapter|episode|room|camera|level|round|minute|page|figure|person|player|team|at\s+exactly)\s*$"
)
_ANOTHER_CLAUSE = re.compile(
    r"(?i)\b(?:and|but|while|whereas|although|however)\b[^.]*\b(?:is|are|was|were|looks?|seems?|appears?|turns?)\b"
)
_CONTRAST = re.compile(r"\b(?:but|while|whereas|although|however|yet)\b(?!\s+not\b)")
_REASON = re.compile(
    r"\s*(?:[.!]?$|[,–—-]\s*(?:because|since|as|not|which|that|seen|shown|according|based)\b)"
)
_COPULA = re.compile(
    r"\b(?:is|are|was|were|looks|seems|appears)(?:\s+(?:to\s+be|clearly|actually|really|very|the|an?|like|mostly"
    r"|definitely|in\s+fact))*\s*$"
)
_BESIDE = re.compile(r"\b(?:behind|beside|near|next|front|past|above|below|under|by|with|against)\b")
_PREPOSITION = re.compile(
    r"\s+(?:in|on|at|of|behind|above|below|next|beside|with|that|which|who|from|to|under|near|for|seen|shown)\b"
)
_HEADS = re.compile(r"it|he|she|they|there|this|that|answer|option|one|person|thing|object|item|result")
_LABEL = re.compile(r"(?<!\w)[a-z]\s*[.:)]\s*$")
_HELP = re.compile(
    r"(?i)^\w+[,.!;:\s–—-]+(?:i\s+(?:can|will|would|see|understand|have)\b|i['’](?:ll|d)\b|here\b|of\s+course\b|wait\b)"
)
# From 2 on. "One" is a pronoun too.
_NUMBERS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen|twenty"
)
_NUMBER_WORD = re.compile(rf"\b(?:{_NUMBERS})\b")
_ARTICLE = re.compile(r"^(?:an?|the)\s+(?=\S)")
# Words of a question that are not its subject.
_COMMON = re.compile(
    r"the|a|an|is|are|was|were|do|does|did|what|which|who|whom|whose|when|"
    r"where|why|how|many|much|often|of|in|on|at|to|from|for|with|by|and|or"
    r"|not|it|its|this|that|these|those|there|following|video|clip|scene|shown|"
    r"happens|happen|first|last|end|after|before|during|most|least|one"
)


# Cached, because every verdict of a reply is compared with the same few options.
@lru_cache(maxsize=256)
def normalized(text: str) -> str:
    """The text in lower case, without markup and outer punctuation, for comparing."""
    text = _spelled(text)
    return re.sub(r"\s+", " ", re.sub(r"[*`#~$\"“”‘’]", " ", text)).strip(" \t\n.!?,;:'()[]。、")


def is_text(text: str, choice: str) -> bool:
    """Whether a text is exactly an option's text."""
    return bool(normalized(text)) and normalized(text) == normalized(choice)


def by_text(text: str, question: Question) -> str | None:
    """The letter of the only option with this text. A single letter never counts as a text."""
    normal = normalized(text)
    # Options that are single letters would be taken for their neighbours' labels.
    is_read = len(normal) > 1 or normal.isdigit()
    return _only(question, lambda choice: is_read and is_text(text, choice))


def by_bare_text(text: str, question: Question) -> str | None:
    """The letter of the only option with this text but for an article: "wrench" for "a wrench"."""
    bare = _ARTICLE.sub("", normalized(text))
    return _only(question, lambda choice: len(bare) > 1 and _ARTICLE.sub("", normalized(choice)) == bare)


def _only(question: Question, fits: Callable[[str], bool]) -> str | None:
    letters = [letter for letter in question.letters if fits(question.choice(letter))]
    return letters[0] if len(letters) == 1 else None


def by_label(text: str, question: Question) -> str | None:
    """The letter of "A red": a letter and its own option's text, without punctuation between them."""
    letter, _, tail = text.strip().partition(" ")
    return letter if letter in question.letters and is_text(tail, question.choice(letter)) else None


def asks_what_is_not(question: Question) -> bool:
    """Whether a question asks for what is not so: "Which of these is not shown?"."""
    return bool(_DENIES.search(question.text))


def yes_or_no(text: str, question: Question) -> str | None:
    """The letter of the option Yes or No with which the reply begins: "Yes, he leaves"."""
    match = re.match(r"(?i)(yes|no)(?=[,.!;:]|\s+[-–—])", text)
    if not match or _HELP.match(text) or _REFUSES.search(text):
        return None
    other = "no" if match[1].lower() == "yes" else "yes"
    return None if re.search(rf"(?i)\b{other}\b(?=[,.!?])", text) else by_text(match[1], question)


def named_option(text: str, question: Question) -> str | None:
    """The letter of the only option that a short reply names in its sentences, or None."""
    text = text.strip()
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    if len(text) > _LONGEST or not 1 <= len(sentences) <= _SENTENCES:
        return None
    if asks_what_is_not(question):
        return None  # "Which is not shown?": a reply that says what is shown does not choose it
    # A sentence that breaks off may have gone on with "not".
    if UNFINISHED.search(text) or (
        len(sentences) > 1 and not re.search(r"(?:[.!。！)\]\"”]|\W[A-Z])$", text)
    ):
        return None
    named = set()
    for sentence in sentences:
        if len(sentences) > 1 and re.fullmatch(r"\d+[.)]", sentence):
            return None  # the number of a list's item
        mentioned = _mentions(_spelled(sentence), question)
        remark = _without(_spelled(sentence), mentioned)
        if mentioned and (_DOUBTS.search(remark) or _ANOTHER_CLAUSE.search(remark)):
            return None
        if _REFUSES.search(remark):
            return None
        named |= {
            letter
            for letter, start, end in mentioned
            if not _denied(remark, start, end)
            and _is_about_subject(_spelled(sentence), start, end, letter, question)
        }
        if mentioned and _CONTRAST.search(remark, max(end for _, _, end in mentioned)):
            return None  # "a wrench lies there, but he holds a phone"
        if any(not _denied(remark, start, end) and letter not in named for letter, start, end in mentioned):
            return None  # named, but not about the question's subject
    return named.pop() if len(named) == 1 else None


def _spelled(text: str) -> str:
    """The sentence as options are compared: lower case, numbers as digits."""
    text = re.sub(r"[*`~\"“”]", " ", visible(unicodedata.normalize("NFKC", text)).casefold())
    return _NUMBER_WORD.sub(lambda match: str(_NUMBERS.split("|").index(match[0]) + 2), text)


@lru_cache(maxsize=256)
def _pattern(choice: str) -> re.Pattern[str]:
    """An option's text with nothing joined to it: "cat" is not in "category", nor "2" in "12" or "2:30"."""
    bare = _ARTICLE.sub("", _spelled(normalized(choice)).strip())
    # Signs before a number belong to it: "$5".
    signed = unicodedata.normalize("NFKC", choice).strip().casefold()
    bare = signed if signed[:1] in "€£-" else bare
    joined = r"\s+".join(re.escape(part) for part in bare.split())
    before = r"(?<![^\W_])(?<![$€£.:'’/-])(?<!\d[.,])" if bare[:1].isascii() else ""
    after = r"(?![^\W_])(?![.,:/]\d)(?!['’]\w)(?!-\w)" if bare[-1:].isascii() else ""
    return re.compile(before + joined + after)


def _mentions(sentence: str, question: Question) -> list[tuple[str, int, int]]:
    """Options and where they are named; of texts inside each other only the longest."""
    mentions = [
        (letter, match.start(), match.end())
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if normalized(choice) not in ("yes", "no")
        and (len(normalized(choice)) > 1 or normalized(choice).isdigit() or not normalized(choice).isascii())
        for match in _pattern(choice).finditer(sentence)
        if match.end() > match.start()
    ]
    return [
        (letter, start, end)
        for letter, start, end in mentions
        if not any(low <= start and end <= high and high - low > end - start for _, low, high in mentions)
    ]


def _without(sentence: str, mentioned: list[tuple[str, int, int]]) -> str:
    """The sentence with the options' texts blanked, so that their own "no" denies nothing."""
    for _, start, end in mentioned:
        sentence = sentence[:start] + "\0" * (end - start) + sentence[end:]
    return sentence


def _denied(sentence: str, start: int, end: int) -> bool:
    """Whether the clause around a mention denies it: "not red", "red is wrong"."""
    cuts = [match.span() for match in _CLAUSE.finditer(sentence)]
    low = max((stop for _, stop in cuts if stop <= start), default=0)
    high = min((begin for begin, _ in cuts if begin >= end), default=len(sentence))
    return bool(_DENIES.search(sentence[low:high]))


def _is_about_subject(sentence: str, start: int, end: int, letter: str, question: Question) -> bool:
    """Whether the mention says something about the question's subject."""
    option = sentence[start:end]
    before, after = sentence[:start], sentence[end:]
    # "A blue" may be a letter with another option's text.
    choice = normalized(question.choice(letter))
    opens = before.strip() in (("", "the") if choice == option else ("", "a", "an", "the"))
    if opens and _REASON.match(after):
        return True  # "Blue, because ..."
    if _LABEL.search(before) and not re.search(r"\b(?:is|answer)\W+\w\W+$", before):
        return False  # an item of a list
    if _COUNTED_LOOSELY.search(before) and option[:1].isdigit():
        return False
    subjects = {word for word in re.findall(r"\w+", _spelled(question.text)) if not _COMMON.fullmatch(word)}
    following = re.match(r"\s*(\w+)", after)
    joined = re.match(r"\s+(?:and|but)\s+(\w+)", after)
    if joined and _is_one_of(joined[1], subjects):
        return False  # "leaves at 0:35 and arrives later"
    is_long = len(option.split()) > 2 or not option.isascii()
    if (
        option.isascii()
        and not _AFTER_MENTION.match(after)
        and not (following and _is_one_of(following[1], subjects))
    ):
        return False
    if is_long:
        return True
    if re.search(r"\b(?:in|with|light|dark|pale|deep|half|almost|nearly)\s+$", before):
        return False  # "the man in blue", "light blue"
    clause = re.split(r"[,;:]\s", before)[-1]
    if (copula := _COPULA.search(clause)) and not _heads(clause[: copula.start()], subjects):
        return False  # "the bus behind the car is red"
    if not (following and _is_one_of(following[1], subjects)) and _BESIDE.search(clause):
        return False
    context = set(re.findall(r"\w+", before + " " + after))
    return bool(_PRONOUN.match(sentence)) or any(_is_one_of(word, subjects) for word in context)


def _heads(phrase: str, subjects: set[str]) -> bool:
    """Whether what is before "is" is about the question's subject: "the car", not "the roof of the car"."""
    head = re.findall(r"\w+", _PREPOSITION.split(re.sub(r"['’]s\b", "", phrase.strip()))[0])
    return not head or bool(_HEADS.fullmatch(head[-1])) or _is_one_of(head[-1], subjects)


def _is_one_of(word: str, subjects: set[str]) -> bool:
    """Whether a word is one of the question's, in any of its endings: "enter", "enters"."""
    return word in subjects or any(
        len(word) > 3
        and abs(len(subject) - len(word)) <= 3
        and (subject.startswith(word) or (len(subject) > 3 and word.startswith(subject[:-1])))
        for subject in subjects
    )
