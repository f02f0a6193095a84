"""The words around a letter that make it a verdict, a guess or a denial, as regular expressions.

English, and Chinese at the end. Every repetition is bounded: a reply that repeats a
character forever must not stall a run.
"""

from __future__ import annotations

import re

# ---- letters ----------------------------------------------------------------------------------------------
# What follows a letter decides whether it is one: "B-roll", "C++", "D'Artagnan" are words.
ENDS = r"(?![A-Za-z0-9_\u00c0-\u024f'’+#]|-[A-Za-z0-9])"
# "A" and "I" are also words, as a lower-case letter may be: they are letters only before an end, punctuation
# or a reason.
CLEAR = (
    r"(?=[ \t]*(?:$|\n|[^\w\s]|[\u3040-\u9fff]"
    r"|(?:because|since|as|is|was|due|based|for|given|and|or|with|over|rather|instead|here|if|unless)\b))"
)
OPEN = r"[\s(\[{<\"'“‘«:【「]{0,9}"
CLOSE = r"[)\]}>\"'”’»】」]{0,6}"
LOOSE = rf"{OPEN}(?P<letter>[B-HJ-Z]{ENDS}|[A-Za-z]{ENDS}{CLEAR})"
STRICT = rf"{OPEN}(?P<letter>[A-Z]{ENDS}{CLEAR})"
# After "prefer" or "leaves" a letter other than A and I may be followed by anything.
_CAPITAL = rf"{OPEN}(?P<letter>[B-HJ-Z]{ENDS}|[A-Z]{ENDS}{CLEAR})"

# ---- words before and after a letter ----------------------------------------------------------------------
_SURELY = (
    r"(?:\s+(?:clearly|definitely|(?:almost\s+)?certainly|actually|indeed|simply|therefore|thus|hence|then"
    r"|most likely|likely|obviously|undoubtedly|given\s+by|labell?ed),?){0,3}"
)
IS = rf"(?:\s+(?:is|was|would be|should be|must be|will be|has to be)|'s|’s){_SURELY}"
_ANSWER_NOUN = (
    r"(?:answer|ans|option|choice|response|solution|selection|prediction|conclusion|verdict|letter|statement"
    r"|(?:correct|right|best|remaining|only|closest|most\s+\w+)\s+(?:one|fit|match|pick|label|candidate))"
)
_OF_THIS = (
    r"(?:\s+(?:to|for|of|among|from)\s+(?:this|the|that|these|your)(?:\s+given)?\s+\w+|\s+here"
    r"|\s+(?:letter|number|choice|option)"
    r"|\s+to\s+(?:the|this|that|your)\s+(?:[\w-]+\s+)?question\b[^\n]{0,200}?"
    r"|\s+(?:that|which)\s+[^.,;:\n]{1,80}?)?"
)
# "Let me analyze each option: A." announces a list.
ANSWER_IS = (
    rf"\b(?<!each )(?<!every )(?<!first )(?<!last )(?<!next )(?<!consider )(?<!analyze )(?<!check )"
    rf"{_ANSWER_NOUN}{_OF_THIS}(?:{IS}|\s*(?::|=|->|→|=>|\s[-–—]\s|\n))"
)
NAMED = r"(?:\s*(?:the\s+)?(?:option|choice|letter|answer)\b:?)"
_CHOOSE = (
    r"\b(?:cho(?:ose|se|osing)|pick(?:ed|ing)?|select(?:ed|ing)?|go(?:ing)?\s+(?:with|for)|opt(?:ed)?\s+for"
    r"|say|think|believe|settle\s+on|answer(?:ing)?|match(?:es|ing)?|corresponds?\s+to|points?\s+to"
    r"|supports?|indicates?|suggests?|consistent\s+with|aligns?\s+with|vote(?:\s+for)?|bet\s+on|prefer"
    r"|lean(?:ing)?\s+towards?|lea(?:ves|ving)(?:\s+us)?(?:\s+with)?(?:\s+only)?|left\s+with|stated\s+in)"
)
_IT_IS = (
    rf"(?:\b(?:it|that|this|which|reason|explanation)(?:{IS}|'d\s+be"
    r"|\s+(?:seems|appears|looks)\s+(?:to\s+be|like)(?:\s+it['’]s)?)"
    r"|(?:(?<=[.!?,]\s)|^)(?:must\s+be|should\s+be|gotta\s+be|has\s+to\s+be|looks\s+like|seems\s+like))"
)
_SO = (
    r"\b(?:so|thus|hence|therefore|consequently|ergo|accordingly|in\s+conclusion|overall"
    r"|(?:by\s+(?:process\s+of\s+)?elimination))\b,?"
)
_GOOD = (
    r"\s+(?:the\s+)?(?:(?:most|best|only|single|one)\s+)?"
    r"(?:correct|right(?!\s+(?:behind|next|in|on|at|above|below|before|after|side|hand|of|beside|there)\b)|accurate"
    r"|true|appropriate|suitable|answer|best|likely\s+answer|fitting)\b"
)
# What is more likely than the others is chosen; what is only likely is weighed.
_BETTER = (
    r"\s+(?:(?:the|a)\s+)?(?:(?:most|more)\s+(?:likely|plausible|probable|logical|reasonable|sensible|accurate"
    r"|correct|consistent|suitable|appropriate|fitting|convincing)|better"
    r"|closest\b(?=\s*[.!,;]|\s*$|\s+(?:to\s+what|match|answer|option|description))"
    r"|(?:only\s+)?one\b(?=\s*[.!,;]|\s*$|\s+that\s+(?:makes|fits|matches|explains)\b)|supported\s+by\b(?!\s+(?:no|nothing|neither|only)\b)|what\s+(?:the|we|is|happens|i\s+would)\b|my\s+(?:answer|choice|pick)\b)"
)
_FITS = r"(?:fits|matches|describes|summari[sz]es|represents|captures|reflects|explains|answers)"
RIGHT = (
    r"(?:\s*(?:is|was|seems|appears|looks|sounds|must be|would be|should be|can be|remains)(?:\s+to\s+be)?"
    rf"{_SURELY}(?:{_GOOD}|{_BETTER})|\s+best\s+{_FITS}\b|\s+{_FITS}\s+(?:\w+\s+){{0,3}}best\b"
    rf"|\s+makes\s+(?:the\s+)?most\s+sense\b|\s+(?:fits|matches)(?:\s+the\s+(?:video|clip|scene|frames))?"
    r"(?=\s*[.!]|\s*$)|\s+gets\s+my\s+vote\b|\s+remains(?=\s*[.!]|\s*$)|\s+matches\s+what\b|\s+it\s+is(?=\s*[.!]|\s*$))"
)
_GUESS = (
    r"(?<!\bor )\b(?:guess(?:\s+is|\s+would\s+be)?|maybe|perhaps|probably|possibly|(?:most\s+)?likely"
    r"|(?:might|may|could)(?:\s+well)?\s+be),?"
)
# Words that open a reply or a sentence before a lone letter: "Clearly B.", "Okay, C."
_OPENING = (
    r"(?:^|(?<=[.!?;,:] ))(?:obviously|surely|certainly|undoubtedly|evidently|ok|okay|yes|sure|well|hmm"
    r"|alright|final|without\s+a\s+doubt|no\s+doubt|(?:it\s+is\s+|it['’]s\s+)?(?:clearly|definitely))[,:.!]{0,3}\s+"
)
ENDED = r"(?=[)\]}>\"'”’»】」]{0,6}\s*(?:[.,;!]|$|\())"


def patterns(*sources: str) -> tuple[re.Pattern[str], ...]:
    """The compiled sources; ^ and $ also match at the ends of lines."""
    return tuple(re.compile(source, re.MULTILINE) for source in sources)


FINAL = patterns(rf"(?i:\bfinal\s+{_ANSWER_NOUN}{_OF_THIS}(?:{IS}|\s*[:=\n→-])?{NAMED}?){LOOSE}")
VERDICTS = patterns(
    rf"(?i:{ANSWER_IS}{NAMED}?){LOOSE}",
    rf"(?i:(?:{_CHOOSE}|{_IT_IS}|{_SO}){NAMED}){LOOSE}",
    rf"(?i:(?:{_CHOOSE}|{_IT_IS}|{_SO})){STRICT}",
    rf"(?i:\b(?:prefer|lea(?:ves|ving)(?:\s+us)?(?:\s+with)?(?:\s+only)?|selecting|choosing|find|vote\s+goes\s+to)){_CAPITAL}",
    rf"(?:(?i:\b(?:option|choice|answer)\s*)|(?<![A-Za-z0-9_'’-]))"
    rf"{OPEN}(?P<letter>[A-Z]){CLOSE}[.:,]?(?i:{RIGHT})",
    rf"(?i:\bmak(?:es|ing){NAMED}?){OPEN}(?P<letter>[A-Z]){CLOSE}(?i:{_GOOD})",
    rf"(?i:{_OPENING}{NAMED}?){OPEN}(?P<letter>[A-Z]){ENDS}{ENDED}",
)
GUESSES = patterns(rf"(?i:{_GUESS}{NAMED}?){STRICT}")
# "not A but C", "rather than A, C": what comes after the denial is the verdict.
CONTRASTS = patterns(
    rf"^{OPEN}(?P<letter>[A-Z]){CLOSE},?\s+(?i:rather\s+than|over|instead\s+of|(?:and\s+|but\s+)?not)\s+"
    rf"{OPEN}(?i:option\s+)?[A-Z]{ENDS}",
    rf"(?i:\bnot|n['’]t)\s+{OPEN}[A-Z]{CLOSE},?\s+(?i:but)(?:\s+(?i:rather|instead))?\s+{OPEN}"
    rf"(?P<letter>[A-Z]){ENDS}{ENDED}",
)
OPTION_TEXT_VERDICT = re.compile(rf"(?i:{ANSWER_IS})\s*(?P<text>[^\n]+)")

# ---- several letters --------------------------------------------------------------------------------------
_OR = (
    r"(?:/|&|\||[.,;?!…]{0,3}\s*\b(?:[Oo]r(?:\s+else)?|[Aa]lso|plus)\b|\(or\b(?=\s+[A-Z]\b)|,?\s*\b(?:and|as\s+well\s+as)\b"
    r"|还是|或者?|和|与|,)"
)
MORE = re.compile(
    rf"{CLOSE}\s*{_OR}\s*(?i:(?:maybe|perhaps|possibly|even)\s+)?(?i:(?:option|choice)\s+)?(?:选|选项)?"
    rf"{OPEN}(?P<letter>[A-Z]){ENDS}{CLEAR}"
)
ONE_MORE = re.compile(r"(?:[,;&]|\band)\s*[(\[]?(?P<letter>[A-Z])[.):\]]+\s+(?=[A-Z])")
LETTER_MENTION = re.compile(
    r"(?<![\w'’$.-])(?:[B-HJ-Z](?![\w'’+#-])|A(?=[\n.,;:)\]/?]|$|\s*[=→–—-]|\s+(?:and|or|is|as)\b))"
)

# ---- retractions and denials ------------------------------------------------------------------------------
FALSE = (
    r"(?:incorrect|invalid|wrong|false|untrue|unsupported|impossible|implausible|improbable|unlikely|excluded"
    r"|rejected|eliminated?|ruled?\s+out)"
)
CLAUSE_START = re.compile(r"(?i)[.!?;:,\n。]|\b(?:so|but|thus|hence|therefore|because|and|however)\b")
_SUPPOSED = (
    r"\b(?:if(?!\s+i\s+(?:had|have|must|were|was)\b)|whether|unless|suppos(?:e|ing)|assum(?:e|ing)|depending)\b"
    r"|如果|若|\b(?-i:Had|Were)\s+(?:he|she|it|they|the|there)\b"
)
_SOMEONE = (
    r"(?:others?|one|you|many|people|some)\s+(?:may|might|would|could|choose|say|pick|think)|some\s+people"
    r"|(?:user|student|he|she|they|man|woman)\s+(?:thinks?|says?|claims?|believes?|answers?|chooses?)"
    r"|(?<!any\s)(?:viewers?|readers?|models?|teacher|expert|chatgpt)\s+(?:may|might|would)\s+(?:say|choose|pick)"
)
NEGATED = re.compile(
    r"(?i)n['’]t\b|\b(?:not|never|neither|nor|none|no|nothing|nobody|hardly|doubt|cannot"
    r"|why|than|instead\s+of|except|anything\s+but|rules\s+out|eliminat(?:e|es|ed|ing)|exclud\w+|reject\w*"
    r"|discard\w*|dismiss\w*|contradict\w*|contrast|conflict\w*|compared|unlike|against|verify|check"
    r"|example|e\.g|form(?:at)?|such\s+as|probability|chance|likelihood|doubtful|questionable|depend(?:s|ing)?"
    r"|second[ -]best|least(?!\s+one)|worst|distractor|trap|mistake|last\s+place"
    r"|first\s+(?:chose|picked|said|thought|answered)|refuse|tempting|hard\s+to|used\s+to|was\s+going\s+to|(?:almost|nearly)(?!\s+certain)|before\s+\w+ing"
    r"|(?:^\s*|in\s+order\s+)to\s+(?:choose|pick|say|select|answer)(?=\W*$)"
    rf"|{FALSE}|{_SOMEONE}|at\s+first(?!\s+sight)|initially)\b"
    rf"|不(?:应|能|会|认为|觉得|可|是)|并非|排除|可能|也许|或许|{_SUPPOSED}"
)
# A condition holds for its whole sentence: "Unless she hears it, the answer is C".
CONDITION = re.compile(rf"(?i){_SUPPOSED}[^.!?;\n。]*$")
CONDITION_AFTER = re.compile(
    rf"{CLOSE}\s*,?\s+(?i:(?:only\s+)?if|unless|provided|assuming|depending|only|but\s+(?:ir|not|only))"
)
_NOT = rf"(?:not(?!\s+(?:option\s+)?\(?[A-Z]\b)|never|less|out|{FALSE})\b"
DENIED_AFTER = re.compile(
    rf"{CLOSE}[\s–—-]+(?:(?:is|was|seems|looks|appears|can|could|would|should|may|might|must|does|did|has|be|been|to"
    rf"|clearly|also|therefore|definitely)\s+){{0,3}}{_NOT}|{CLOSE}\s+(?:is|was|ca|does|did|could|would|wo)n['’]t\b"
    rf"|{CLOSE}\s+(?:requires|needs|is\s+(?:tempting|a\s+mistake))\b|{CLOSE}\s+is\s+(?:no|incorr\w+|fals\w+)"
    rf"|{CLOSE}[.,!…]{{0,3}}\s+(?i:(?:(?:but|however|hmm+),?\s+)?(?:or\s+is\s+it"
    r"|(?:that|this)(?:['’]s|\s+is|\s+was|\s+would\s+be)\s+(?:not\s+(?:right|correct|true|shown)|wrong|false|incorrect)"
    rf"|(?:that|this|it)\s+(?:can['’]t|cannot)\s+be\s+(?:right|true|correct)))|{CLOSE}\s*(?:选项|项)?\s*(?:都?不|错|是错|\s*吗)"
)
# A capital after these names something in the video: "player B", "vitamin C".
NAME_BEFORE = re.compile(
    r"(?i)\b(?:team|player|person|man|woman|boy|girl|group|plan|vitamin|grade|class|car|figure|panel|scene|part"
    r"|section|image|frame|clip|video|building|house|room|point|line|character|speaker|candidate|type|hepatitis"
    r"|track|lane|gate|exit|block|level|note|key|size|blood)\s+[(\[\"'“]?$"
)
NO_DOUBT = re.compile(
    r"(?i)\b(?:no|without(?:\s+a)?|beyond)\s+doubt\b|\bby\s+(?:process\s+of\s+)?elimination\b"
)
# What comes before these words no longer counts: "B. Wait, no, C.", "B. No.", "B — I mean C".
TAKEN_BACK = re.compile(
    r"(?i)(?:^|[\s.!?…,;:(–—-])(?:hold\s+on|h+m+(?=\W+\w)|nope|sorry|oops|apolog\w+|correction|reconsider\w*"
    r"|(?:wait|actually)(?=\s*(?:[.,:;!?…–—-]|$|\n|(?:no|it|that|the\s+answer|a\s+(?:moment|minute|second)|[A-Z])\b))"
    r"|scratch\s+that|strike\s+that|i\s+meant?|(?:or\s+)?rather(?=,?\s+[A-Z]\b)|or\s+(?:rather|better)"
    r"|on\s+(?:second\s+thoughts?|reflection)|take\s+(?:that|it)\s+back|changed?\s+my\s+mind|forget\s+(?:it|that)"
    r"|(?:(?:my|made\s+a|that['’]s\s+a)\s+)?mistake(?=\s*(?:[.,:;]|$))|(?:i|that)\s+was\s+(?:wrong|mistaken)|just\s+kidding"
    r"|(?<=[.!?\n]\s)instead(?!\s+of)|(?<=\n)instead(?!\s+of)|(?<=\b[A-Z]\.\s)that\s+is\s+wrong|not\s+really"
    r"|then\s+again(?=,|\s+[A-Z]\b)|double[\s-]checking(?=[,:])|after\s+re\w+ing|(?:looking|up?on)\s+(?:a\s+)?closer(?:\s+\w+)?"
    r"|let\s+me\s+(?:recon\w+|correct(?:\s+myself)?|\w+\s+again)"
    r"|(?:edit|typo|(?:revised|new|updated|corrected)\s+answer)(?=\s*[:,])"
    r"|(?P<no>(?:(?<=\b[A-Z][.,;?…]\s)|(?<=\.\.\.\s)|(?<=\?\s))(?:but\s+)?no"
    r"(?=\s*(?:$|[.,;!…–—]|(?<=[,;]\sno):))))"
    r"(?!\w)(?:[\s,.;]*no(?=\s*[.,:;!…–—]|\s*$))?[\s.,;:!?…–—-]*"
)
# After a guess or an impression: the model keeps looking.
GOES_ON = re.compile(r"(?i)\b(?:however|but|wait|let\s+me(?!\s+know)|let['’]s|yet|we\s+should|i\s+should)\b")
# A letter right after this sentence begins a list, which may be unfinished.
ANNOUNCED = re.compile(
    r"(?i)\b(?:each|every|all|these|following)\s+(?:\w+\s+)?option\b|\b(?:options|choices|answers)\b"
    r"|\bone\s+by\s+one\b|^checking\b|\be\.g|\b(?:first(?:ly)?|next|now|regarding)\b|\bconsider(?:ing)?\b|\blooking\s+at\b|\bstart(?:ing)?\s+with\b"
    r"|\blet\s+me\b|\blet['’]s\b|\b(?:i|we)\s+(?:need|have)\s+to\b|\bstep\s+by\s+step\b"
    r"|逐一|分析|让我们|首先"
)
# An impression: followed by "however", it is no verdict.
WEAK = re.compile(
    r"(?i)\b(?:seems?|appears?|looks?|likely|plausible|probable|better|lean(?:ing)?|would\s+be)\b"
)
UNFINISHED = re.compile(
    r"(?i)(?:[,:;(]|\b(?:and|then|but|or|the|an?|because|with|of|to|is|are|was|in|on|at|that|which|so|if|as|no))\s*$"
)
SAID_BEFORE = re.compile(
    r"(?i)\b(?:says?|reads?|shows?|written|labell?ed|called|named|marked|spells?)\s*[:,]?\s*$"
)
AFFIRMED = re.compile(r"(?i)[✓✔✅☑]|\bcorrect\b")
AFFIRMED_ALONE = re.compile(r"(?i)\b(?:yes|true|right)\b")
DENIED = re.compile(r"(?i)[✗✘❌☒]|\b(?:incorrect|wrong|not|no|never|false|neither)\b|n['’]t\b")

# ---- Chinese: 答案是B, B选项, 选B -------------------------------------------------------------------------
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

VERDICTS += patterns(
    rf"(?:{'|'.join(_BEFORE)}){_LINK}{_LETTER}",
    rf"{_ALONE}[「(\[\"'“*]?(?P<letter>[A-Z]){ENDS}{CLOSE}{_AFTER}",
)
# A whole reply: "B选项".
LETTER_AND_NOUN = r"\s*(?:选项|選項|项|項)?\s*"
