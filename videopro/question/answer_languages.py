"""Verdicts in other languages than English: "答えはBです", "B选项", "Die Antwort ist B."

Each language has words that come before a letter and words that come after it. A letter here is a capital:
in Romance languages "a", "e" and "o" are words, and so are they at the start of a sentence ("A resposta").
"""

from __future__ import annotations

from videopro.question.answer_phrases import CLOSE, ENDS, OPEN, patterns

_NOT_LATIN = r"[^\x00-\u024f]"
# What may follow a letter: an end, punctuation, another script, or a word that goes on with a reason.
_LETTER = (
    rf"{OPEN}(?P<letter>[A-Z])(?![A-Za-z0-9_\u00c0-\u024f'’+#]|-[A-Za-z0-9])"
    rf"(?=[ \t]*(?:$|\n|[^\w\s]|{_NOT_LATIN}|(?:weil|da|car|porque|perché|parce|omdat|karena|vì|bo"
    r"|richtig|korrekt|juste|juist|corr?ett?[ao]|correct[aeo]?|cert[ao]|giust[ao])\b))"
)
_WEST_BEFORE = (
    # German
    r"(?:antwort|lösung|auswahl|wahl)(?:\s+(?:ist|lautet|wäre))?(?:\s+(?:also|somit|daher|damit|demnach))?"
    r"(?:\s+(?:antwort|option))?",
    r"richtig\s+ist",
    r"\bes\s+ist",
    r"\b(?:ich\s+)?(?:wähle|nehme|würde)(?:\s+option)?",
    r"\balso(?:\s+ist)?",
    r"\bsondern",
    # French
    r"réponse(?:\s+(?:correcte|juste|exacte))?(?:\s+(?:est|serait))?(?:\s+donc)?(?:\s+(?:la|l['’]option"
    r"|la\s+réponse|la\s+lettre|l['’]option))?",
    r"\bc['’]est(?:\s+(?:la|donc|la\s+réponse|l['’]option))?",
    r"\bje\s+choisis(?:\s+(?:l['’]option|la\s+réponse))?",
    r"\bdonc",
    # Spanish, Portuguese, Italian
    r"respuesta(?:\s+correcta)?(?:\s+(?:es|sería))?(?:\s+la)?(?:\s+(?:opción|letra))?",
    r"opción(?:\s+correcta)?(?:\s+es)?(?:\s+la)?",
    r"(?<!no )\bes\s+la(?:\s+(?:opción|letra))?",
    r"\b(?:elijo|escojo|escolho|scelgo)(?:\s+(?:la|a|l['’])?\s*(?:opción|opção|opzione|letra|alternativa))?",
    r"\bsino",
    r"resposta(?:\s+(?:correta|certa))?(?:\s+(?:é|seria))?(?:\s+a)?(?:\s+(?:letra|opção|alternativa))?",
    r"(?:opção|alternativa|letra)(?:\s+(?:correta|certa))?(?:\s+é)?(?:\s+a)?(?:\s+letra)?",
    r"risposta(?:\s+(?:corretta|giusta))?(?:\s+(?:è|sarebbe))?(?:\s+la)?",
    r"opzione(?:\s+(?:corretta|giusta))?(?:\s+è)?(?:\s+la)?",
    # Dutch, Polish, Turkish, Vietnamese, Indonesian
    r"antwoord(?:\s+is)?(?:\s+optie)?",
    r"odpowiedź(?:\s+to)?",
    r"\bcevap",
    r"đáp\s+án(?:\s+đúng)?(?:\s+là)?",
    r"câu\s+trả\s+lời(?:\s+đúng)?(?:\s+là)?",
    r"jawaban(?:nya)?(?:\s+yang\s+(?:benar|tepat))?(?:\s+adalah)?",
    # Swedish, Danish, Norwegian, Czech, Slovak, Romanian, Greek, Finnish, Hungarian, Ukrainian, Dutch
    r"\b(?:svar(?:et)?|odpověď|odpoveď|răspunsul|απάντηση|vastaus|optie|відповідь|válasz)(?:\s+corect)?"
    r"(?:\s+(?:är|er|je|este|είναι|on|is|є))?",
    # Russian
    r"(?:ответ|вариант)(?:\s+(?:—|-|–))?",
    r"\bвыбираю(?:\s+вариант)?",
    # Arabic, Hindi, Thai
    r"(?:الإجابة|الجواب|الخيار)(?:\s+(?:الصحيحة|الصحيح))?(?:\s+(?:هي|هو))?",
    r"(?:उत्तर|जवाब|विकल्प)(?:\s+है)?",
    r"คำตอบ(?:ที่ถูกต้อง)?(?:คือ)?",
)
_EAST_BEFORE = (
    # Chinese. "分析选项" and "看选项" look at an option, and "不选" declines it.
    r"(?:答案|应选|應選|故选|选择|(?<![不没未别非])选|選)(?:选项)?(?:应该|應該|应|就)?(?:选择|选)?(?:是|为|為)?(?:选项)?",
    r"(?:^|正确(?:的)?|最佳(?:的)?|[,。]\s?)(?:选项|選項)(?:应该|應該)?(?:是|为|為)?"
    r"(?=\s?:?\s?[「(]?[A-Z][」)]?\s*(?:$|\n|[^\w\s]))",
    r"(?:认为|觉得|判断)(?:答案)?(?:应该)?是",
    r"(?<!不)而?是(?:选项)?(?=[A-Z](?:选项)?[。.!]?$)",
    # Japanese
    r"(?:答え|正解|解答|回答)(?:は|が)?",
    r"正しい(?:もの|選択肢|答え)は",
    r"選択肢(?:は)?(?=[A-Z]が)",
    # Korean
    r"(?:정답|답안|답)(?:은|는|이)?",
)
_AFTER = (
    # Chinese
    r"\s*(?:选项|選項|项|項)?\s*(?:是|为)?(?:最)?(?:正确|对的|合适|恰当)(?:的|答案|选项|。)?",
    # Japanese and Korean
    r"\s*(?:が(?:正解|正しい|適切|最も)|です|だと(?:思|考)|を選)",
    r"\s*번?\s*(?:입니다|이다|예요|이에요|[가이]\s*(?:정답|맞|옳))",
    # German, French, Spanish, Portuguese, Italian, Dutch
    r"\s+(?:ist\s+)?(?:richtig|korrekt|die\s+(?:richtige|korrekte))",
    r"\s+est\s+(?:correcte?|juste|exacte?|la\s+bonne)",
    r"\s+(?:es|está)\s+(?:correct[ao]|la\s+correcta|la\s+respuesta)",
    r"\s+(?:é|está)\s+(?:corret[ao]|cert[ao]|a\s+(?:correta|resposta))",
    r"\s+è\s+(?:corrett[ao]|giust[ao]|la\s+risposta)",
    r"\s+is\s+juist",
    # Russian, Hindi
    r"\s*(?:—|-|–)?\s*(?:верно|правильн\w+)",
    r"\s+(?:सही|ठीक)\s+है",
)
_LINK = r"\s*(?:[:=]|—|–|-)?\s*"
# A letter after "or" is one of several.
_ALONE = r"(?<![A-Za-z0-9_'’か와과또는하고-])(?<!または)(?<![와과]\s)"

FOREIGN_VERDICTS = patterns(
    rf"(?i:(?:{'|'.join(_WEST_BEFORE)}){_LINK}){_LETTER}",
    rf"(?:{'|'.join(_EAST_BEFORE)}){_LINK}{_LETTER}",
    rf"{_ALONE}[「(\[\"'“*]?(?P<letter>[A-Z]){ENDS}{CLOSE}(?:{'|'.join(_AFTER)})",
)
# A whole reply: "B选项", "Bです".
LETTER_AND_NOUN = r"\s*(?:选项|選項|项|項|番|번)?\s*"
