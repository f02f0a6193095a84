"""Files that survive a kill, a full disk and foreign text: appending, atomic writes, JSON lines."""

from videopro.storage.append import append_bytes, file_lock
from videopro.storage.atomic import write_atomically
from videopro.storage.disk_errors import cannot_write, is_full
from videopro.storage.json_lines import read_json_lines
from videopro.storage.json_objects import (
    MAX_DEPTH,
    InvalidJson,
    parse_json,
    parse_json_at,
    parse_json_list,
    read_object,
)
from videopro.storage.surrogates import encodable

__all__ = [
    "MAX_DEPTH",
    "InvalidJson",
    "append_bytes",
    "cannot_write",
    "encodable",
    "is_full",
    "file_lock",
    "parse_json",
    "parse_json_at",
    "parse_json_list",
    "read_object",
    "read_json_lines",
    "write_atomically",
]
