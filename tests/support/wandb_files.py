"""Reads back what wandb wrote offline."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any


def history(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines that were logged, from an offline run's file: protocol buffers in LevelDB's log format
    (blocks of 32 KiB; each piece has a checksum, a length and a kind, where 1 is whole and 4 the last of
    several), after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            items = record.history.item
            if items:
                yield {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
