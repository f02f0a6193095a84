"""File storage that survives kills, full disks and malformed text: logs, atomic writes, JSON lines."""

from videopro.storage.atomic import write_atomically
from videopro.storage.control_characters import printable, without_commands
from videopro.storage.file_lock import lock_file, lock_soon, sole_writer
from videopro.storage.finite_weights import non_finite, non_finite_in
from videopro.storage.json_lines import read_json_lines
from videopro.storage.json_lines_log import JsonLinesLog
from videopro.storage.json_objects import (
    InvalidJson,
    parse_json,
    parse_json_at,
    parse_json_list,
    read_object,
)
from videopro.storage.set_aside import SetAside
from videopro.storage.storable import (
    DEPTH,
    DIGITS,
    LINE_BYTES,
    PROGRAM_BYTES,
    PROGRAM_DEPTH,
    PROGRAM_VALUES,
    is_storable,
    stored_number,
    stored_text,
)
from videopro.storage.surrogates import encodable

__all__ = [
    "DEPTH",
    "DIGITS",
    "LINE_BYTES",
    "PROGRAM_BYTES",
    "PROGRAM_DEPTH",
    "PROGRAM_VALUES",
    "InvalidJson",
    "SetAside",
    "JsonLinesLog",
    "encodable",
    "is_storable",
    "lock_file",
    "lock_soon",
    "non_finite",
    "non_finite_in",
    "parse_json",
    "parse_json_at",
    "parse_json_list",
    "printable",
    "read_object",
    "read_json_lines",
    "sole_writer",
    "stored_number",
    "stored_text",
    "without_commands",
    "write_atomically",
]
