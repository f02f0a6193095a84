"""An answer to a question with its confidence: the same record from the backbone to the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """An answer with the confidence of Eq. 2.

    A letter is one token, so Eq. 2 has L = 1 and the confidence is that token's probability under the softmax
    over the full vocabulary. Of an answer in words it is the exponential of the mean log-probability of its
    tokens, that is, the geometric mean of their probabilities.
    """

    letter: str | None = None
    """The option's letter, "Yes" or "No", or a counted number; None for any other reply, and for an
    answer in words, which is in `raw`."""
    confidence: float = 0.0
    """Eq. 2, in 0..1, of the call that gave the answer or of those that decided its letter; 0.0 if there is
    no answer, and for a letter or words that no call gave or decided."""
    letters: Mapping[str, float] = field(default_factory=dict)
    """Probability of each option's letter, not renormalised: the sum is the mass that the model puts on
    letters. Empty if the reply was free text."""
    raw: str = ""
    """The text that an official scorer reads: the most likely token, or the reply."""
    tokens_in: int = 0
    """Prompt tokens of the call, including visual tokens and those of a shared prefix; 0 if no call gave the
    answer, and in traces of schema 2 and older."""
    tokens_out: int = 0
    cut_at: int | None = None
    """The limit in tokens that cut the reply off; None: it ended by itself. In traces since schema 4."""
