"""What is said: searching subtitle lines, and hints from the whole transcript."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.numbered import LINES, ReadingBackbone, library, subtitles
from videopro.modules.errors import NotFoundError
from videopro.modules.search import SubtitleSearch, search_tokens
from videopro.video import SubtitleLine, Subtitles

WHOLE = "\n".join(line.text for line in LINES)
ASKED = ("What breaks the bridge?", ["the storm", "a ship", "a fire"])


def hints(word_number: int = 300, asked: Any = ASKED, **models: Any) -> tuple[str, ReadingBackbone]:
    backbone = ReadingBackbone(writes=lambda request: "  In short.\n")
    lib = library(backbone, **models)
    return lib.functions()["get_subtitle_hints"](lib.video, *asked, word_number=word_number), backbone


def test_a_transcript_that_fits_is_given_as_it_is_and_a_longer_one_summarized() -> None:
    # The four lines have 7 + 4 + 5 + 5 words.
    text, backbone = hints(21)
    assert (text, backbone.prompts) == (WHOLE, [])
    text, backbone = hints(20)
    assert text == "In short."
    (prompt,) = backbone.prompts
    for part in (WHOLE, "What breaks the bridge?\nA. the storm\nB. a ship\nC. a fire", "20 words"):
        assert part in prompt
    assert backbone.seen == [[]]


def test_a_transcript_beyond_the_context_is_filtered_by_retrieval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videopro.modules.context.TRANSCRIPT_WORDS", 11)
    _, backbone = hints(8)
    (prompt,) = backbone.prompts
    # The best line has 5 words, the next 4 (it has "a", which no other has); no other fits in the 2 left.
    assert "Anna buys a lantern.\nThe storm breaks the bridge.\n\n" in prompt
    assert "lighthouse" not in prompt


def test_the_lines_themselves_where_the_backbone_cannot_summarize() -> None:
    text, backbone = hints(12, can_summarize=False)
    assert backbone.prompts == []
    # Both lines that share words with the question, in order of time; no more fits in 12 words.
    assert text.splitlines()[-1] == "The storm breaks the bridge."
    assert len(search_tokens(text)) <= 12
    text, _ = hints(2, can_summarize=False)
    assert text == "The storm breaks the bridge."


def test_hints_of_the_beginning_and_of_silence() -> None:
    lib = library()
    hint = lib.functions()["get_subtitle_hints"]
    assert hint(lib.video, *ASKED, duration=20).splitlines() == [line.text for line in LINES[:2]]
    with pytest.raises(NotFoundError, match=r"0\.0-1\.5 s about 'What breaks"):
        hint(lib.video, *ASKED, 1.5)
    with pytest.raises(NotFoundError, match="'Xyz"):
        hints(3, ("Xyz?", ["qq", "rr"]), can_summarize=False)


# ---- search ----------------------------------------------------------------------------------------------


def test_lines_are_ranked_by_bm25() -> None:
    """Lucene's (Kamphuis et al. 2020, "Which BM25 do you mean?", Table 1), with k1 1.5 and b 0.75."""
    # Over words, the sum of log(1 + (n - having + 0.5) / (having + 0.5)) * count
    # / (count + k1 * (1 - b + b * length / mean)).
    scores = {0: 0.843958, 3: 0.429124, 2: 0.206982}
    ranked = SubtitleSearch(subtitles()).rank("the old lighthouse")
    assert [number for number, _ in ranked] == list(scores)
    assert dict(ranked) == pytest.approx(scores, rel=1e-5)


def lines_of(*texts: str) -> Subtitles:
    """Lines of a second each."""
    return Subtitles(tuple(SubtitleLine(i, i + 1, text) for i, text in enumerate(texts)), "test")


@pytest.mark.parametrize(
    ("query", "found"), [("CAT?", [0]), ("zebra", []), ("猫", [2]), ("...", []), ("I", [3]), ("niño", [4])]
)
def test_words_of_any_script(query: str, found: list[int]) -> None:
    texts = ("The cat sat.", "...", "猫が好き", "It is I!", "El Niño")
    assert [number for number, _ in SubtitleSearch(lines_of(*texts)).rank(query)] == found
    assert SubtitleSearch(lines_of("...")).rank(query) == SubtitleSearch(lines_of()).rank(query) == []


def test_lines_by_meaning() -> None:
    class Colours:
        """Knows red-like from sea-like, whatever the words."""

        calls: list[list[str]] = []

        def identity(self) -> object:
            return "colours"

        def encode_texts(self, texts: list[str]) -> np.ndarray:
            self.calls.append(texts)
            return np.array([[0.0, 1.0] if "sea" in text else [1.0, 0.0] for text in texts])

        def encode_queries(self, texts: list[str]) -> np.ndarray:
            return np.array([[0.6, 0.8] if "water" in text else [0.8, 0.6] for text in texts])

    encoder = Colours()
    search = SubtitleSearch(lines_of("a ruby", "the sea", "a rose"), encoder)  # type: ignore[arg-type]
    assert search.rank("something red") == [(0, 0.8), (2, 0.8), (1, 0.6)]
    assert search.rank("water") == [(1, 0.8), (0, 0.6), (2, 0.6)]
    assert encoder.calls == [["a ruby", "the sea", "a rose"]]
    assert search.identity() == "colours"
