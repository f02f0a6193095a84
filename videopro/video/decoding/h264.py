"""Reads from an H.264 packet whether other pictures need it, and whether decoding can start at it.

Follows ITU-T H.264, 7.3.1, 7.4.1 and D.1.8, for both ways in which containers store H.264.
"""

from __future__ import annotations

from collections.abc import Iterator

_SLICES = (1, 2, 5)  # nal_unit_type of a slice, of its first data partition, of an IDR slice
_IDR = 5
_SEI = 6
_RECOVERY_POINT = 6  # payloadType, D.1.8


def length_size(extradata: bytes | None) -> int:
    """Bytes of the length before each NAL unit (ISO/IEC 14496-15, 5.3.3.1); 0 for start codes (Annex B)."""
    if extradata and len(extradata) >= 7 and extradata[0] == 1:
        return (extradata[4] & 3) + 1
    return 0


def is_reference(packet: bytes, length: int) -> bool:
    """Whether other pictures may refer to this one: nal_ref_idc of its first slice is not 0.

    Also True if no slice is found: the decoder must then see the packet.
    """
    for at in _units(packet, length):
        if packet[at] & 0x1F in _SLICES:
            return packet[at] & 0x60 != 0
    return True


def is_clean_start(packet: bytes, length: int) -> bool:
    """Whether decoding can start at this key frame and is exact at once.

    False where a gradual refresh begins: a recovery point that lies some frames ahead.
    """
    for at in _units(packet, length):
        kind = packet[at] & 0x1F
        if kind == _IDR:
            return True
        # recovery_frame_cnt is the first field, in Exp-Golomb code: a leading one bit is 0.
        if kind == _SEI and packet[at + 1 : at + 2] == bytes([_RECOVERY_POINT]):
            return packet[at + 3 : at + 4] >= b"\x80"
    return True


def _units(packet: bytes, length: int) -> Iterator[int]:
    """Byte offset of each NAL unit, after its length or start code."""
    if length:
        at = 0
        while at + length < len(packet):
            yield at + length
            at += length + int.from_bytes(packet[at : at + length], "big")
    else:
        at = packet.find(b"\x00\x00\x01")
        while 0 <= at < len(packet) - 3:
            yield at + 3
            at = packet.find(b"\x00\x00\x01", at + 3)
