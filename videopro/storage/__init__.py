"""File storage that survives kills, full disks and malformed text: logs, atomic writes, JSON lines."""

from videopro.storage.files import lock_file as lock_file
from videopro.storage.files import lock_soon as lock_soon
from videopro.storage.files import sole_writer as sole_writer
from videopro.storage.files import write_atomically as write_atomically
from videopro.storage.finite_weights import non_finite as non_finite
from videopro.storage.finite_weights import non_finite_in as non_finite_in
from videopro.storage.json_lines import JsonLinesLog as JsonLinesLog
from videopro.storage.json_lines import SetAside as SetAside
from videopro.storage.json_lines import read_json_lines as read_json_lines
from videopro.storage.json_objects import InvalidJson as InvalidJson
from videopro.storage.json_objects import parse_json as parse_json
from videopro.storage.json_objects import parse_json_at as parse_json_at
from videopro.storage.json_objects import parse_json_list as parse_json_list
from videopro.storage.json_objects import read_object as read_object
from videopro.storage.storable import DEPTH as DEPTH
from videopro.storage.storable import DIGITS as DIGITS
from videopro.storage.storable import LINE_BYTES as LINE_BYTES
from videopro.storage.storable import PROGRAM_BYTES as PROGRAM_BYTES
from videopro.storage.storable import PROGRAM_DEPTH as PROGRAM_DEPTH
from videopro.storage.storable import PROGRAM_VALUES as PROGRAM_VALUES
from videopro.storage.storable import encodable as encodable
from videopro.storage.storable import is_storable as is_storable
from videopro.storage.storable import printable as printable
from videopro.storage.storable import stored_number as stored_number
from videopro.storage.storable import stored_text as stored_text
from videopro.storage.storable import without_commands as without_commands
