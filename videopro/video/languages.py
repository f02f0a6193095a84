"""Codes of languages: "de", "ger" and "deu" name the same one."""

from __future__ import annotations

# ISO 639-1 and ISO 639-2 (T, then B where it differs) of the languages that films have subtitles in. Matroska
# has the B codes, MP4 the T codes, and people write those of two letters.
_CODES = """
af afr|am amh|ar ara|az aze|be bel|bg bul|bn ben|bs bos|ca cat|cs ces cze|cy cym wel|da dan|de deu ger
el ell gre|en eng|es spa|et est|eu eus baq|fa fas per|fi fin|fil fil|fr fra fre|ga gle|gl glg|gu guj|he heb iw
hi hin|hr hrv|hu hun|hy hye arm|id ind in|is isl ice|it ita|ja jpn|ka kat geo|kk kaz|km khm|kn kan|ko kor
ky kir|lo lao|lt lit|lv lav|mk mkd mac|ml mal|mn mon|mr mar|ms msa may|my mya bur|nb nob no nor|ne nep
nl nld dut|nn nno|pa pan|pl pol|ps pus|pt por|ro ron rum|ru rus|si sin|sk slk slo|sl slv|so som|sq sqi alb
sr srp|sv swe|sw swa|ta tam|te tel|th tha|tl tgl|tr tur|uk ukr|ur urd|uz uzb|vi vie|zh zho chi cmn|zu zul
"""
_OF_CODE = {
    code: codes.split()[0]
    for line in _CODES.split("\n")
    for codes in line.split("|")
    for code in codes.split()
}


def language_of(tag: str) -> str:
    """The language of a tag such as "ger", "de" or "de-AT": its code of two letters where it has one, else
    the tag's first part in lower case. Empty for a tag that says nothing, such as "und"."""
    code = tag.strip().lower().replace("_", "-").split("-")[0]
    return "" if code in ("und", "unk", "mis", "zxx") else _OF_CODE.get(code, code)


def is_language(tag: str) -> bool:
    """Whether a tag is one of the languages listed here."""
    return tag.lower().replace("_", "-").split("-")[0] in _OF_CODE
