"""Extracting an option's letter from a model's reply, whatever the reply's form.

A reply is read as a careful person would read it. A verdict in a marked place (a box, an <answer> tag, a JSON
field, "final answer: ...") counts first; then verdicts in sentences ("the answer is C", "so it is B") and the
letter that the reply opens or closes with; last what the model itself calls a guess ("maybe B"). Verdicts of
the same rank must agree: two letters, or a letter with another option's text, make the reply unreadable,
unless the model retracts the earlier verdict ("wait, ..."). An unreadable reply is None, never a guess.

The extractors of published benchmarks, with their faults, are in `videopro.question.official_extractors`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from videopro.storage import parse_json

if TYPE_CHECKING:
    from videopro.question.question import Question

# ---- letters ----------------------------------------------------------------------------------------------
# What follows a letter decides whether it is one: "B-roll", "C++", "D'Artagnan" are words.
_ENDS = r"(?![A-Za-z0-9_\u00c0-\u024f'’+#]|-[A-Za-z0-9])"
# "A" and "I" are also words, as a lower-case letter may be: they are letters only before an end, punctuation
# or a reason.
_CLEAR = (
    r"(?=[ \t]*(?:$|\n|[^\w\s]|[\u3040-\u9fff]"
    r"|(?:because|since|as|is|was|due|based|for|given|and|or|with)\b))"
)
# Bounded, here and below: a reply that repeats a character forever must not stall a run.
_OPEN = r"[\s(\[{<\"'“‘«:【「]{0,9}"
_CLOSE = r"[)\]}>\"'”’»】」]{0,6}"
# Longer replies come from a model that never stops; a million verdicts would take too long.
_LONGEST = 250_000
_NEAR = 400  # characters around a letter that affect its reading
_LOOSE = rf"{_OPEN}(?P<letter>[B-HJ-Z]{_ENDS}|[A-Za-z]{_ENDS}{_CLEAR})"
_STRICT = rf"{_OPEN}(?P<letter>[A-Z]{_ENDS}{_CLEAR})"

# ---- words before and after a letter ----------------------------------------------------------------------
_SURELY = (
    r"(?:\s+(?:clearly|definitely|certainly|indeed|simply|therefore|thus|hence|then|most likely|likely),?)*"
)
_IS = rf"(?:\s+(?:is|was|would be|should be|must be|will be|has to be)|'s|’s){_SURELY}"
_THING = r"(?:answer|option|choice|response|solution|selection|prediction|conclusion|verdict)"
_OF_THIS = (
    r"(?:\s+(?:to|for|of|among|from)\s+(?:this|the|that|these|your)(?:\s+given)?\s+\w+|\s+here"
    r"|\s+(?:letter|number|choice|option))?"
)
_ANSWER_IS = (
    rf"\b(?:{_THING}{_OF_THIS}|(?:correct|right|best)\s+letter)(?:{_IS}|\s*(?::|=|->|→|=>|\s[-–—]\s|\n))"
)
_NAMED = r"(?:\s*(?:the\s+)?(?:option|choice|letter|answer)\b:?)"
_CJK_ANSWER = r"(?:答案|选项|應選|应选|故选|选择|选|選)\s*(?:应该|應該)?(?:是|为|為|は|[:=])?"
_CHOOSE = (
    r"\b(?:cho(?:ose|se|osing)|pick(?:ed|ing)?|select(?:ed|ing)?|go(?:ing)?\s+with|opt(?:ed)?\s+for|say|think"
    r"|believe|settle\s+on|answer(?:ing)?|match(?:es)?|corresponds?\s+to|points?\s+to|supports?|indicates?"
    r"|suggests?|consistent\s+with)"
)
_IT_IS = rf"\b(?:it|that|this){_IS}"
_SO = r"\b(?:so|thus|hence|therefore|consequently|in\s+conclusion|overall)\b,?"
_GOOD = (
    r"\s+(?:the\s+)?(?:(?:most|best|only|single)\s+)?"
    r"(?:correct|right|accurate|true|appropriate|suitable|answer|best|likely\s+answer|fitting)\b"
)
_FITS = r"(?:fits|matches|describes|summari[sz]es|represents|captures|reflects|explains|answers)"
_RIGHT = (
    r"(?:\s*(?:is|was|seems|appears|looks|must be|would be|should be)(?:\s+to\s+be)?"
    r"(?:\s+(?:clearly|definitely|indeed|therefore|most\s+likely|likely|thus|also))*"
    rf"{_GOOD}|\s+best\s+{_FITS}\b|\s+{_FITS}\s+(?:\w+\s+){{0,3}}best\b)"
)
_GUESS = (
    r"\b(?:guess(?:\s+is)?|maybe|perhaps|probably|possibly|(?:most\s+)?likely"
    r"|(?:might|may|could)(?:\s+well)?\s+be)"
)


def _patterns(*sources: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source, re.MULTILINE) for source in sources)


_FINAL = _patterns(rf"(?i:\bfinal\s+{_THING}{_OF_THIS}(?:{_IS}|\s*[:=\n-])?{_NAMED}?){_LOOSE}")
_VERDICTS = _patterns(
    rf"(?i:{_ANSWER_IS}{_NAMED}?){_LOOSE}",
    rf"{_CJK_ANSWER}{_LOOSE}",
    rf"(?i:(?:{_CHOOSE}|{_IT_IS}|{_SO}){_NAMED}){_LOOSE}",
    rf"(?i:(?:{_CHOOSE}|{_IT_IS}|{_SO})){_STRICT}",
    rf"(?:(?i:\b(?:option|choice|answer)\s*)|(?<![A-Za-z0-9_'’-]))"
    rf"{_OPEN}(?P<letter>[A-Z]){_CLOSE}[.:,]?(?i:{_RIGHT})",
    rf"(?i:\bmak(?:es|ing){_NAMED}?){_OPEN}(?P<letter>[A-Z]){_CLOSE}(?i:{_GOOD})",
)
_GUESSES = _patterns(rf"(?i:{_GUESS}{_NAMED}){_LOOSE}", rf"(?i:{_GUESS}){_STRICT}")
_OPTION_TEXT_VERDICT = re.compile(rf"(?i:{_ANSWER_IS})\s*(?P<text>[^\n]+)")

_BARE = re.compile(
    rf"^{_OPEN}(?:(?i:option|choice|letter)\s*)?{_OPEN}(?P<letter>[A-Za-z]){_CLOSE}[\s.,:;!?。、]*{_CLOSE}$"
)
_LEADING = re.compile(
    rf"""^{_OPEN}(?:
    # Option B:
    (?i:(?:option|choice|letter)\s+){_OPEN}(?P<named>[A-Z]){_ENDS}(?=\s*(?:$|[^\w\s]|because|since))
    # B. B) B - B (
    |(?P<letter>[A-Z])(?:{_CLOSE}\s*[.):\]](?![A-Za-z0-9])|{_CLOSE}\s+[-–—(]|\)|{_CLOSE}\s*(?:[–—]|-\s))
    |(?P<comma>[A-HJ-Z]){_CLOSE}(?:,|;|!|\s+(?:because|since|as)\b)  # B, ... B because ...
    |(?P<small>[a-z])\)  # b) ...
    |(?P<tight>[A-Z])[.:]|(?P<initial>[a-z])[.:]  # B.blue b. blue: only with the option's own text
    )\s*(?P<tail>[^\n]*)""",
    re.VERBOSE,
)
_LETTERED_LINE = re.compile(r"^[\s(\[{>-]*(?P<letter>[A-Z])\s*[)\]}.:]+\s*(?P<tail>\S[^\n]*)?$")
_INLINE_LABEL = re.compile(r"(?<!\bis\s)(?<![A-Za-z0-9_(\[])[(\[]?([A-Z])[.):\]]+\s")
_LAST_WORD = re.compile(rf"(?:^|[.!?:]['\"”’)]*\s+|\n\s*){_OPEN}(?P<letter>[A-Z]){_CLOSE}[.!]?{_CLOSE}\s*$")
_MORE = re.compile(
    rf"{_CLOSE}\s*(?:/|&|,?\s*\b(?:or|and)\b|,)\s*(?i:(?:maybe|perhaps|possibly|even)\s+)?"
    rf"(?i:(?:option|choice)\s+)?"
    rf"{_OPEN}(?P<letter>[A-Z]){_ENDS}{_CLEAR}"
)

# ---- retractions and denials ------------------------------------------------------------------------------
_CLAUSE_START = re.compile(r"(?i)[.!?;:,\n]|\b(?:so|but|thus|hence|therefore|because|and|however)\b")
_NEGATED = re.compile(
    r"(?i)n['’]t\b|\b(?:not|never|neither|nor|none|no|doubt|unlikely|cannot|if|whether|unless|suppose|assuming"
    r"|wrong|incorrect|why|than|instead\s+of|rule[sd]?\s+out|eliminat\w+|exclud\w+)\b"
)
_NO_DOUBT = re.compile(r"(?i)\b(?:no|without(?:\s+a)?|beyond)\s+doubt\b")
_CORRECTION = re.compile(
    r"(?i)\b(?:wait|actually|correction|sorry|mistake[n]?|scratch\s+that|on\s+second\s+thought|reconsider\w*"
    r"|instead|changed?\s+my\s+mind)\b"
)
_AFFIRMED = re.compile(r"(?i)[✓✔✅☑]|\bcorrect\b")
_DENIED = re.compile(r"(?i)[✗✘❌☒]|\b(?:incorrect|wrong|not|no|never|false|neither)\b|n['’]t\b")

# ---- wrappers ---------------------------------------------------------------------------------------------
_THOUGHT_OPEN = re.compile(r"(?i)<(?:think|thinking|thought|reasoning|scratchpad)>")
_THOUGHT_CLOSE = re.compile(r"(?i)</(?:think|thinking|thought|reasoning|scratchpad)>")
_ANSWER_TAG = re.compile(r"(?i)<(?P<close>/?)(?P<name>answer|final_answer|final)>")
_TOKEN = re.compile(r"<\|[^|<>]*\|>|</?s>|<(?:eos|bos|pad|end_of_turn)>")
_TAG = re.compile(r"</?(?![A-Z]>)[A-Za-z][A-Za-z0-9_]*\s*/?>")
_BOXED = re.compile(r"\\f?boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|rm|bf)\s*\{([^{}]*)\}")
_FIELD = r"(?:final[_ ]?)?(?:answer|option|choice|letter|result|prediction|response|best[_ ]option)"
_LOOSE_FIELD = re.compile(rf"(?i)[\"']?\b({_FIELD})[\"']?\s*:\s*[\"']?([^\"',}}\n]+)")
_OBJECT = re.compile(r"\{[^{}]*\}")
_MARKUP = re.compile(r"^```[a-z]+$|[*`~$]|\\[()\[\]]|(?<!\w)_+|_+(?!\w)|^[ \t]*[>#]+", re.MULTILINE)
_ONE_MORE = re.compile(r"(?:[,;&]|\band)\s*[(\[]?(?P<letter>[A-Z])[.):\]]+\s+(?=[A-Z])")
_NAMED_AFTER = re.compile(r"[\s,]*\((?:(?i:option|choice)\s+)?(?P<letter>[A-Z])\)\s*$")
_ONLY_LETTERS = re.compile(r"(?:[A-Z](?:[.,;:)/\s]+|$)){3,}")


class _Contradiction(Exception):
    """The reply contradicts itself at the deciding rank."""


class _Verdict(NamedTuple):
    letter: str
    start: int
    end: int


def extract_letter(reply: str, question: Question) -> str | None:
    """The letter of the option that `reply` chooses, or None if it chooses none of this question's options.

    Reads letters in any form (B, (b), **B**, B. text, full-width, boxed, tagged, JSON), verdicts in English
    and Chinese sentences, and a reply that is exactly one option's text. Text inside <think> is ignored; a
    reply that ends inside it has no answer, nor has a reply of more than 250,000 characters. Never raises.
    """
    if len(reply) > _LONGEST:
        return None
    text = _after_thinking(unicodedata.normalize("NFKC", _TOKEN.sub(" ", reply)))
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    if not text:
        return None
    try:
        letter = _common_letter(_marked(text, question)) or _prose(text, question)
    except _Contradiction:
        return None
    return letter if letter in question.letters else None


def _after_thinking(text: str) -> str:
    # If the template put the opening tag into the prompt, only the closing tag is in the reply.
    text = _THOUGHT_CLOSE.split(text)[-1]
    return _THOUGHT_OPEN.split(text)[0]


def _marked(text: str, question: Question) -> Iterator[str | None]:
    """The letter in each marked place: boxes, JSON fields, <answer> tags."""
    yield from _boxes_and_fields(text, question)
    for body in _answer_tags(text):
        yield _common_letter(_boxes_and_fields(body, question)) or _prose(body, question)


def _boxes_and_fields(text: str, question: Question) -> Iterator[str | None]:
    for body in _BOXED.findall(text):
        yield _prose(_LATEX.sub(r"\1", body), question)
    for body in _OBJECT.findall(text):
        for value in _fields(body):
            yield _prose(value, question)


def _answer_tags(text: str) -> Iterator[str]:
    """The texts in <answer> tags; of nested tags only the innermost. An unclosed tag extends to the end."""
    opening: re.Match[str] | None = None
    for tag in _ANSWER_TAG.finditer(text):
        if not tag["close"]:
            opening = tag
        elif opening and tag["name"].lower() == opening["name"].lower():
            yield text[opening.end() : tag.start()]
            opening = None
    if opening:
        yield text[opening.end() :]


def _fields(text: str) -> Iterator[str]:
    """The values of the answer fields of an object in JSON or similar ({'answer': 'C'}, {answer: C})."""
    try:
        found = parse_json(text).items()
    except ValueError:
        found = _LOOSE_FIELD.findall(text)
    for key, value in found:
        if re.fullmatch(_FIELD, str(key), re.IGNORECASE):
            yield str(value) if isinstance(value, str | int | float) else ""


def _common_letter(letters: Iterator[str | None]) -> str | None:
    """The letter on which all marked places agree; None if there are none. Raises _Contradiction
    otherwise."""
    first = next(letters, "")
    if first == "":
        return None
    if first is None or any(letter != first for letter in letters):
        raise _Contradiction
    return first


def _prose(text: str, question: Question) -> str | None:
    """Read text without marked places."""
    if match := _BARE.match(text.strip()):
        return match["letter"].upper()
    plain = _plain(text)
    if match := _BARE.match(plain):
        return match["letter"].upper()
    if (whole := _by_text(plain, question)) is not None:
        return whole
    if _ONLY_LETTERS.fullmatch(plain) and len(set(re.findall("[A-Z]", plain))) > 1:
        raise _Contradiction
    listed, rest = _without_list(plain, question)
    final = [verdict for pattern in _FINAL for verdict in _verdicts(pattern, rest, question)]
    if final:
        return _agreed(final, rest)
    stated = [verdict for pattern in _VERDICTS for verdict in _verdicts(pattern, rest, question)]
    stated += _option_text_verdicts(rest, question) + _first_and_last(rest, question)
    if stated or listed:
        said = {*listed, *([_agreed(stated, rest)] if stated else [])}
        if len(said) > 1:
            raise _Contradiction
        return said.pop()
    guesses = [verdict for pattern in _GUESSES for verdict in _verdicts(pattern, rest, question)]
    return _agreed(guesses, rest) if guesses else None


def _plain(text: str) -> str:
    """Text without markup, and without objects whose fields are not answers."""
    text = _OBJECT.sub(lambda found: " " if ":" in found[0] else found[0], text)
    return _MARKUP.sub(" ", _TAG.sub(" ", _LATEX.sub(r"\1", text))).strip()


def _without_list(text: str, question: Question) -> tuple[set[str], str]:
    """Remove a list of lettered options; return the letters that it marks as right, and the other text."""
    lines = text.split("\n")
    labelled = [(i, m) for i, line in enumerate(lines) if (m := _LETTERED_LINE.match(line)) and m["tail"]]
    if len({match["letter"] for _, match in labelled}) < 2:
        return set(), text
    right = set()
    for i, match in labelled:
        remark = match["tail"]
        if match["letter"] in question.letters:
            own = question.choice(match["letter"]).strip()
            if remark.casefold().startswith(own.casefold()):
                remark = remark[len(own) :]
        if _AFFIRMED.search(remark) and not _DENIED.search(remark):
            right.add(match["letter"])
        lines[i] = ""
    return right, "\n".join(lines).strip()


def _verdicts(pattern: re.Pattern[str], text: str, question: Question) -> Iterator[_Verdict]:
    for match in pattern.finditer(text):
        if _taken_back(text, match):
            continue
        letter = match["letter"].upper()
        tail = text[match.end("letter") : match.end() + _NEAR]
        if (more := _MORE.match(tail)) and more["letter"] != letter:
            raise _Contradiction
        _check_tail(letter, tail, question)
        # "The answer is C major": an option whose text begins like a letter.
        by_text = _by_text(_sentence(text[match.start("letter") : match.end() + _NEAR]), question)
        yield _Verdict(by_text or letter, match.start(), match.end())


def _taken_back(text: str, match: re.Match[str]) -> bool:
    """Whether the clause of the verdict denies, questions or supposes it."""
    before = text[max(0, match.start() - _NEAR) : match.start()]
    starts = [found.end() for found in _CLAUSE_START.finditer(before)]
    clause = before[starts[-1] if starts else 0 :] + text[match.start() : match.start("letter")]
    asked = re.match(rf"{_CLOSE}\s*\?", text[match.end("letter") :])
    return bool(asked or _NEGATED.search(_NO_DOUBT.sub("", clause)))


def _option_text_verdicts(text: str, question: Question) -> list[_Verdict]:
    """Verdicts that give an option's text instead of its letter: "The answer is red"."""
    verdicts = []
    for match in _OPTION_TEXT_VERDICT.finditer(text):
        sentence = _sentence(match["text"])
        named, letter = _NAMED_AFTER.search(sentence), None
        for part in (sentence, re.split(r",|\b(?:because|since|as)\b", match["text"])[0]):
            part = _NAMED_AFTER.sub("", part)
            letter = letter or _by_text(part, question) or _by_label(part, question)
        if letter and named and named["letter"] != letter:
            raise _Contradiction
        before = text[max(0, match.start() - _NEAR) : match.start()].split("\n")[-1]
        if letter and not _NEGATED.search(before):
            verdicts.append(_Verdict(letter, match.start(), match.end()))
    return verdicts


def _first_and_last(text: str, question: Question) -> list[_Verdict]:
    """Verdicts from the letter (or option) that opens the text, and from a lone letter that ends it."""
    found = []
    first_line = text.split("\n", 1)[0].strip()
    if match := _BARE.match(first_line):
        found.append(_Verdict(match["letter"].upper(), 0, len(first_line)))
    elif (letter := _by_text(first_line, question)) is not None:
        found.append(_Verdict(letter, 0, len(first_line)))
    elif match := _LEADING.match(text):
        form = next(name for name, letter in match.groupdict().items() if letter and name != "tail")
        letter = match[form].upper()
        own = letter in question.letters and _is_text(match["tail"], question.choice(letter))
        # Labels A, B, ... in one line are a list of the options, whose first letter is not a verdict.
        listed = letter == "A" and "B" in _INLINE_LABEL.findall(first_line)
        more = _MORE.match(text, match.end(form))
        if (
            not listed
            and not (more and more["letter"] != letter)
            and (own or form not in ("tight", "initial"))
        ):
            _check_tail(letter, match["tail"], question)
            found.append(_Verdict(letter, 0, match.start("tail")))
            if own and match.end("tail") == len(text):
                return found  # the option's own text may end like a lone letter
    elif letter := _by_label(first_line, question):
        found.append(_Verdict(letter, 0, len(first_line)))
    if match := _LAST_WORD.search(text):
        found.append(_Verdict(match["letter"], match.start("letter"), match.end()))
    return found


def _agreed(verdicts: list[_Verdict], text: str) -> str:
    """The letter on which the verdicts agree, or the last one if the model says that it corrects itself."""
    verdicts = sorted(verdicts, key=lambda verdict: verdict.end)
    last = verdicts[-1].letter
    others = [verdict for verdict in verdicts if verdict.letter != last]
    if others and not _CORRECTION.search(text, others[-1].end, verdicts[-1].end):
        raise _Contradiction
    return last


def _check_tail(letter: str, tail: str, question: Question) -> None:
    """Raise _Contradiction for a letter that is followed by another option's text or by another letter."""
    tail = re.sub(rf"^{_CLOSE}\s*[.):,\-–—=]*\s*", "", tail)
    for part in (tail.split("\n")[0], _sentence(tail)):
        fits = [
            own
            for own, choice in zip(question.letters, question.choices, strict=True)
            if _is_text(part, choice)
        ]
        if letter in fits:
            return
        if fits:
            raise _Contradiction
    if (match := _BARE.match(_sentence(tail))) and match["letter"].isupper() and match["letter"] != letter:
        raise _Contradiction
    if (match := _ONE_MORE.search(tail.split("\n")[0])) and match["letter"] != letter:
        raise _Contradiction


def _by_label(text: str, question: Question) -> str | None:
    """The letter of "A red": a letter and its own option's text, without punctuation between them."""
    letter, _, words = text.strip().partition(" ")
    return letter if letter in question.letters and _is_text(words, question.choice(letter)) else None


def _sentence(text: str) -> str:
    return re.split(r"[.!?](?=\s|$)|\n", text.lstrip(), maxsplit=1)[0]


# Cached, because every verdict of a reply is compared with the same few options.
@lru_cache(maxsize=256)
def _words(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"\s+", " ", re.sub(r"[*`#~$\"“”‘’]", " ", text)).strip(" \t\n.!?,;:'()[]")


def _is_text(text: str, choice: str) -> bool:
    return bool(_words(text)) and _words(text) == _words(choice)


def _by_text(text: str, question: Question) -> str | None:
    """The letter of the only option with this text. A single letter never counts as a text."""
    if len(_words(text)) < 2 and not _words(text).isdigit():
        return None
    fits = [
        letter
        for letter, choice in zip(question.letters, question.choices, strict=True)
        if _is_text(text, choice)
    ]
    return fits[0] if len(fits) == 1 else None
