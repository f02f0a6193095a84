"""A card on the hub: its metadata, a part that is made again at each push, and what its owner wrote."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from huggingface_hub import DatasetCard, ModelCard

from videopro.errors import ConfigError

BEGIN = "<!-- videopro: this part is made again by each `videopro push`; write above or below it -->"
END = "<!-- videopro: end of that part -->"
_MARKED = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)

C = TypeVar("C", ModelCard, DatasetCard)


def marked(text: str) -> str:
    """A text as the part of a card that is made again."""
    return f"{BEGIN}\n\n{text.strip()}\n\n{END}"


def with_edits(card: C, before: C | None) -> C:
    """The card with what its owner wrote into the one that is on the hub: the text outside the marked part,
    and metadata that the records do not decide. Raises ConfigError if a mark is gone."""
    if before is None:
        return card
    part = _MARKED.search(card.text)
    assert part is not None
    beginnings, ends = before.text.count(BEGIN), before.text.count(END)
    if beginnings != ends or beginnings > 1 or (beginnings and not _MARKED.search(before.text)):
        raise ConfigError(
            f"the card on the hub has {beginnings} times the mark {BEGIN!r} and {ends} times {END!r}; put "
            "both around the part that videopro makes, or remove both"
        )
    if beginnings:
        text = _MARKED.sub(lambda _: part[0], before.text)
    else:
        text = f"{before.text.rstrip()}\n\n{part[0]}\n" if before.text.strip() else card.text
    generated: dict[str, Any] = _mapping(card)
    # What an earlier push evaluated, and this one may not.
    edited: dict[str, Any] = {
        name: value for name, value in _mapping(before).items() if name != "model-index"
    }
    tags = list(dict.fromkeys([*(edited.get("tags") or ()), *(generated.get("tags") or ())]))
    data = type(card.data)(**{**edited, **generated, "tags": tags})
    return type(card)(f"---\n{data.to_yaml()}\n---\n{text}")


def _mapping(card: ModelCard | DatasetCard) -> dict[str, Any]:
    return dict(card.data.to_dict())  # type: ignore[no-untyped-call]
