"""JSON from outside: plain data or one error, whatever the text."""

import json
import time
from pathlib import Path

import pytest

from videopro.cli import read_yaml
from videopro.errors import BenchmarkError, ConfigError, DatasetError
from videopro.storage import InvalidJson, encodable, parse_json, read_json_lines, read_object
from videopro.storage.storable import DEPTH


@pytest.mark.parametrize(
    "text",
    [
        "0",
        '{"a": [1, 2.5, -3e4, true, null, "\u00e9 \\u0041"]}',
        '"\\\\ud800"',
        "[" * 100 + "]" * 100,
        "9" * 308,
    ],
)
def test_json_that_others_read_is_read_alike(text: str) -> None:
    assert parse_json(text) == json.loads(text)
    assert parse_json(b"\xef\xbb\xbf" + text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("1 2", "Extra data"),
        ("[-1e999]", "-1e999 is too large a number"),
        ("9" * 309, "309 digits"),
        ("9" * 5000, "5000 digits"),
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'"\xff"', "not UTF-8"),
        ("[1]".encode("utf-16"), "not UTF-8"),
        ("[" * 101 + "]" * 101, f"more than {DEPTH} deep"),
        ('{"a":' * 200_000, f"more than {DEPTH} deep"),
    ],
)
def test_invalid_json_is_one_error_with_a_reason(text: str | bytes, says: str) -> None:
    start = time.process_time()
    with pytest.raises(InvalidJson, match=says):
        parse_json(text)
    assert time.process_time() - start < 2


def test_many_keys_with_a_duplicate_are_read_quickly() -> None:
    text = json.dumps({str(n): n for n in range(200_000)})[:-1] + ', "199999": 0}'
    start = time.process_time()
    with pytest.raises(InvalidJson, match="'199999' twice"):
        parse_json(text)
    assert time.process_time() - start < 2


def test_lone_surrogates_are_replaced_and_pairs_kept() -> None:
    assert parse_json(r'{"\ud83d": ["a\udc00b", "\ud83d\ude00"]}') == {"\ufffd": ["a\ufffdb", "\U0001f600"]}
    assert encodable("a\ud800b \udc00\ud83d\ude00") == "a\ufffdb \ufffd\U0001f600"
    for text in ("", "plain, naïve", "\u00e9\U0001f600\ufeff"):
        assert encodable(text) == text


def test_a_line_that_is_not_an_object_is_named() -> None:
    for line in ("[" * 5000, "9" * 5000, '{"a": NaN}', "[1]"):
        with pytest.raises(BenchmarkError, match=r"q\.jsonl, line 3"):
            read_object(line, "q.jsonl, line 3", BenchmarkError)


@pytest.mark.parametrize("text", ["a: " + "[" * 1500, "a: " + "9" * 5000, "a: 2026-99-99", "a: [", "a: \0"])
def test_settings_that_are_not_yaml_are_a_config_error(text: str, tmp_path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"run\.yaml: is not valid YAML"):
        read_yaml(path)


ROWS = (
    *(b'{"a": 1}', b'{"a": "\xff"}', b"", b'{"a": ' + b"9" * 309 + b"}", b"[1]"),
    *(b'{"a": "\xe4"}', b'{"a": 2}'),
)


def test_a_damaged_row_of_a_training_file_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(ROWS))
    left_out: dict[int, str] = {}
    rows = [(number, row) for number, _, row in read_json_lines(path, "rows", left_out=left_out)]
    assert rows == [(1, {"a": 1}), (7, {"a": 2})]
    assert list(left_out) == [2, 4, 5, 6]
    assert "not UTF-8: invalid start byte at byte 7" in left_out[2]
    assert "309 digits" in left_out[4]
    assert left_out[5] == "must be an object, not list"
    # Without a place for reasons the first one is raised.
    with pytest.raises(DatasetError, match=r"rows\.jsonl, line 2: invalid JSON \(not UTF-8"):
        list(read_json_lines(path, "rows"))
