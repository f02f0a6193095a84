"""Reading a JSON object out of a text or file, or saying what is wrong with it.

Knows JSON; nothing of what an object is to hold.
"""

from __future__ import annotations

import json
from typing import Any

from videopro.errors import VideoProError


def read_object(text: str, where: str, error: type[VideoProError]) -> dict[str, Any]:
    """The object that a line holds. Raises `error`, naming `where` and the mend, for anything else."""
    try:
        found = json.loads(text)
    except ValueError as reason:
        raise error(f"{where}: is not JSON ({reason}); write one object a line") from reason
    if not isinstance(found, dict):
        raise error(f"{where}: must be an object, not {type(found).__name__}")
    return found
