"""Files that survive a kill, a full disk and foreign text: appending, atomic writes, JSON lines."""

from videopro.storage.append import append_whole, locked
from videopro.storage.atomic import write_atomically
from videopro.storage.disk_errors import cannot_write, is_full
from videopro.storage.json_lines import read_objects
from videopro.storage.json_objects import (
    MAX_DEPTH,
    NotJson,
    parse_json,
    parse_json_at,
    parse_json_list,
    read_object,
)
from videopro.storage.surrogates import encodable

__all__ = [
    "MAX_DEPTH",
    "NotJson",
    "append_whole",
    "cannot_write",
    "encodable",
    "is_full",
    "locked",
    "parse_json",
    "parse_json_at",
    "parse_json_list",
    "read_object",
    "read_objects",
    "write_atomically",
]
