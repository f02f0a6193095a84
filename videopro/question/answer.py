"""One answer to a question, with its confidence: the same record from the backbone to the trace.

Knows nothing of models, programs or runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """What was answered, with the confidence of Eq. 2.

    A letter is one token, so Eq. 2 has L = 1 and the confidence is that token's probability under the softmax
    over the full vocabulary.
    """

    letter: str | None = None
    """The option's letter, "Yes" or "No", or a number that was counted; None when the reply is none of them,
    and for an answer in words, which `raw` holds."""
    confidence: float = 0.0
    """Eq. 2, 0 to 1; 0.0 when there is no letter, and for a letter that no answering call gave."""
    letters: Mapping[str, float] = field(default_factory=dict)
    """Probability of each option's letter, not renormalised: the sum is what the model gives to letters at
    all. Empty where the reply was written, not chosen."""
    raw: str = ""
    """What an official scorer reads: the text of the most likely token, or the reply."""
    tokens_in: int = 0
    """Prompt tokens of the call, visual ones included, those of a shared prefix included; 0 where no call
    gave the answer, and in traces of schema 2 and older."""
    tokens_out: int = 0
