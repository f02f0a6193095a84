"""Rows of a training file: one that is damaged costs that row and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.errors import DatasetError
from videopro.storage import read_json_lines

ROWS = (
    *(b'{"a": 1}', b'{"a": "\xff"}', b"", b'{"a": ' + b"9" * 309 + b"}", b"[1]"),
    *(b'{"a": "\xe4"}', b'{"a": 2}'),
)


def test_the_other_rows_count_and_each_reason_is_known(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(ROWS))
    left_out: dict[int, str] = {}
    rows = [(number, row) for number, _, row in read_json_lines(path, "rows", left_out=left_out)]
    assert rows == [(1, {"a": 1}), (7, {"a": 2})]
    assert list(left_out) == [2, 4, 5, 6]
    assert "not UTF-8: invalid start byte at byte 7" in left_out[2]
    assert "309 digits" in left_out[4]
    assert left_out[5] == "must be an object, not list"


def test_without_a_place_for_reasons_the_first_one_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(ROWS))
    with pytest.raises(DatasetError, match=r"rows\.jsonl, line 2: is not JSON \(not UTF-8"):
        list(read_json_lines(path, "rows"))
