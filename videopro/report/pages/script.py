"""Data as scripts: a page opened from disk can load scripts next to it, but cannot fetch files.

Each file is one call, `VIEW.kind("name", {...});`, whose second argument is JSON, but for one key (_OWN_KEY).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# In a script this key would set the object's prototype; a computed key is one like any other. Quotes in a
# text are escaped, so only a key can look like this.
_PROTOTYPE, _OWN_KEY = '"__proto__":', '["__proto__"]:'


def assignment(kind: str, name: str, content: Any) -> str:
    """The script. ASCII only and without `<`, so that no text can end the script or a page that embeds it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    text = text.replace(_PROTOTYPE, _OWN_KEY)
    return f"VIEW.{kind}({json.dumps(name)},{text});\n"


def read_assignment(path: Path) -> Any:
    """The content of such a script; None if it is missing or incomplete."""
    try:
        text = path.read_text(encoding="ascii")
        return json.loads(text[text.index(",") + 1 : text.rindex(");")].replace(_OWN_KEY, _PROTOTYPE))
    except (OSError, ValueError, RecursionError):
        return None
