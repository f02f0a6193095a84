"""Data as scripts: a page that was opened from disk may load a script beside it, and may not fetch a file.

One call a file, `VIEW.kind("name", {...});`, whose second argument is JSON. Knows nothing of what is in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def assignment(kind: str, name: str, content: Any) -> str:
    """The script. ASCII only, and without `<`: whatever a text holds, it ends neither the script nor a page
    that someone puts the script into."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"VIEW.{kind}({json.dumps(name)},{text});\n"


def read_assignment(path: Path) -> Any:
    """The content of such a script; None if it is not there or not whole."""
    try:
        text = path.read_text(encoding="ascii")
        return json.loads(text[text.index(",") + 1 : text.rindex(");")])
    except (OSError, ValueError, RecursionError):
        return None
