"""Options that a reply names by their texts: "blue", "The car is blue.", "Yes, he does."

A text inside a sentence is read with care, because a word of an option may be there for another reason. The
reply must be short and name one option only, without denying, supposing or asking. A short option must also be
what is said about the question's own subject: of "Which colour is the car?", "a blue car" and "It is blue"
name an option, "a blue house" does not.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from videopro.question.question import Question

# Longer replies reason: they name options that they do not choose.
_LONGEST = 300
_SENTENCES = 3
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?<!\bMr\.)(?<!\bDr\.)(?<!\bMrs\.)(?:\s+|(?<=[。！？]))|\n+")
_CLAUSE = re.compile(r"[,;:，、]|\b(?:but|while|whereas|although|though|sondern|sino)\b|而是|ではなく", re.IGNORECASE)
_DENIES = re.compile(
    r"(?i)\b(?:not|no|never|neither|nor|none|nobody|nothing|without|cannot|wrong|incorrect|false|unlikely"
    r"|instead\s+of|rather\s+than|except|nicht|kein\w*|pas|não|niet|не|nie)\b|n['’]t\b|不|没|ない|ません|않|아니"
)
_DOUBTS = re.compile(
    r"(?i)[?？]|\b(?:or|if|whether|either|maybe|perhaps|possibly|might|may|could|unless|suppose|assuming|at\s+first"
    r"|initially|options?|choices?|oder|ou|ni|или|some(?:one|body)\s+says?)\b|或者?|または|또는|还是"
)
_REFUSES = re.compile(
    r"(?i)\b(?:cannot|can['’]?t|could\s*n['’]t|unable|sorry|unclear|don['’]t\s+(?:know|see)|not\s+(?:sure|visible"
    r"|clear|shown|seen|possible)|let\s+me|let['’]s|need\s+(?:to|more)|step\s+\d)\b|无法|让我们|首先"
)
_PRONOUN = re.compile(
    r"(?i)^(?:(?:so|therefore|thus|i\s+(?:think|believe|see|count)|in\s+the\s+(?:video|end)|at\s+the\s+(?:end|start))"
    r"[,\s]+(?:that\s+)?)*(?:it|he|she|they|there|this|the\s+answer|to)\b"
)
_AFTER_MENTION = re.compile(
    r"^\s*(?:$|[.!?,;:()\"'“”’…—–-]|(?:in|on|at|with|because|as|since|and|which|that|who|when|during|near|by|from|to"
    r"|for|times?|of|is|are|was|were|now|then|here|there|again|first|one|ones)\b)"
)
_COUNTED_LOOSELY = re.compile(
    r"(?i)(?:at\s+least|at\s+most|more\s+than|less\s+than|fewer\s+than|over|under|nearly|almost|about|around"
    r"|up\s+to|between|than|from|in|after|before|within|first|frame|step|scene|option|number)\s*$"
)
_ANOTHER_CLAUSE = re.compile(r"(?i)\b(?:and|but|while|whereas|although|however)\b[^.]*\b(?:is|are|was|were)\b")
_NUMBERS = dict(
    zip(
        (
            "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty"
        ).split(),
        range(2, 21),
        strict=True,
    )
)
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBERS)})\b")
_ARTICLE = re.compile(r"^(?:an?|the)\s+(?=\S)")
_COMMON = frozenset(
    "the a an is are was were do does did what which who whom whose when where why how many much often of in on at "
    "to from for with by and or not it its this that these those there following video clip scene shown happens "
    "happen first last end after before during most least one".split()
)


# Cached, because every verdict of a reply is compared with the same few options.
@lru_cache(maxsize=256)
def words(text: str) -> str:
    """The text in lower case, without markup and outer punctuation, for comparing."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", re.sub(r"[*`#~$\"“”‘’]", " ", text)).strip(" \t\n.!?,;:'()[]。、")


def is_text(text: str, choice: str) -> bool:
    """Whether a text is exactly an option's text."""
    return bool(words(text)) and words(text) == words(choice)


def by_text(text: str, question: Question) -> str | None:
    """The letter of the only option with this text. A single letter never counts as a text."""
    found = words(text)
    if len(found) < 2 and not found.isdigit():
        return None
    fits = [
        letter
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if is_text(text, choice)
    ]
    return fits[0] if len(fits) == 1 else None


def by_label(text: str, question: Question) -> str | None:
    """The letter of "A red": a letter and its own option's text, without punctuation between them."""
    letter, _, rest = text.strip().partition(" ")
    return letter if letter in question.letters and is_text(rest, question.choice(letter)) else None


def yes_or_no(text: str, question: Question) -> str | None:
    """The letter of the option Yes or No with which the reply begins: "Yes, he leaves"."""
    match = re.match(r"(?i)(yes|no)(?=[,.!;:]|\s+[-–—])", text)
    return by_text(match[1], question) if match else None


def named_option(text: str, question: Question) -> str | None:
    """The letter of the only option that a short reply names in its sentences, or None."""
    text = text.strip()
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    if len(text) > _LONGEST or not 1 <= len(sentences) <= _SENTENCES:
        return None
    if _DENIES.search(question.text.casefold()):
        return None  # "Which is not shown?": a reply that says what is shown does not choose it
    named = set()
    for sentence in sentences:
        mentioned = _mentions(_spelled(sentence), question)
        rest = _without(_spelled(sentence), mentioned)
        if mentioned and (_DOUBTS.search(rest) or _ANOTHER_CLAUSE.search(rest)):
            return None
        if _REFUSES.search(rest):
            return None
        named |= {
            letter
            for letter, start, end in mentioned
            if not _denied(rest, start, end) and _is_said(_spelled(sentence), start, end, letter, question)
        }
        if any(not _denied(rest, start, end) and letter not in named for letter, start, end in mentioned):
            return None  # named, but not about the question's subject
    return named.pop() if len(named) == 1 else None


def _spelled(text: str) -> str:
    """The sentence as options are compared: lower case, numbers as digits."""
    text = re.sub(r"[*`~\"“”]", " ", unicodedata.normalize("NFKC", text).casefold())
    return _NUMBER_WORD.sub(lambda found: str(_NUMBERS[found[0]]), text)


@lru_cache(maxsize=256)
def _pattern(choice: str) -> re.Pattern[str]:
    """An option's text with nothing joined to it: "cat" is not in "category", nor "2" in "12" or "2:30"."""
    bare = _ARTICLE.sub("", _spelled(words(choice)).strip())
    # Signs before a number belong to it: "$5".
    signed = unicodedata.normalize("NFKC", choice).strip().casefold()
    bare = signed if signed[:1] in "$€£-" else bare
    joined = r"\s+".join(re.escape(part) for part in bare.split())
    before = r"(?<![^\W_])(?<![$€£.:'’/-])(?<!\d[.,])" if bare[:1].isascii() else ""
    after = r"(?![^\W_])(?![.,:/]\d)(?!['’]\w)(?!-\w)" if bare[-1:].isascii() else ""
    return re.compile(before + joined + after)


def _mentions(sentence: str, question: Question) -> list[tuple[str, int, int]]:
    """Options and where they are named; of texts inside each other only the longest."""
    found = [
        (letter, match.start(), match.end())
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if len(words(choice)) > 1 or words(choice).isdigit() or not words(choice).isascii()
        for match in _pattern(choice).finditer(sentence)
        if match.end() > match.start()
    ]
    return [
        (letter, start, end)
        for letter, start, end in found
        if not any(
            low <= start and end <= high and high - low > end - start for _, low, high in found
        )
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


def _is_said(sentence: str, start: int, end: int, letter: str, question: Question) -> bool:
    """Whether the mention tells something about the question's subject."""
    option = sentence[start:end]
    before, after = sentence[:start], sentence[end:]
    if _COUNTED_LOOSELY.search(before) and option[:1].isdigit():
        return False
    if len(option.split()) > 2 or not option.isascii():
        return True
    subjects = {word for word in re.findall(r"\w+", _spelled(question.text)) if word not in _COMMON}
    following = re.match(r"\s*(\w+)", after)
    if not _AFTER_MENTION.match(after) and not (following and _is_one_of(following[1], subjects)):
        return False
    others = set(re.findall(r"\w+", before + " " + after))
    return bool(_PRONOUN.match(sentence)) or any(_is_one_of(word, subjects) for word in others)


def _is_one_of(word: str, subjects: set[str]) -> bool:
    """Whether a word is one of the question's, in any of its endings: "enter", "enters"."""
    return word in subjects or any(
        len(subject) > 3 and len(word) > 3 and subject[:-1] == word[: len(subject) - 1] and
        abs(len(subject) - len(word)) <= 3
        for subject in subjects
    ) or any(len(word) > 3 and subject.startswith(word) and len(subject) - len(word) <= 3 for subject in subjects)
