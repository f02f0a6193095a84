"""JSON from outside: plain data or one error, whatever the text."""

import json
import time

import pytest

from videopro.cli import read_yaml
from videopro.errors import BenchmarkError, ConfigError, RunError
from videopro.storage import InvalidJson, encodable, parse_json, read_object
from videopro.storage.storable import DEPTH
from videopro.traces import Trace


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
        ("1e999", "1e999 is too large a number"),
        ("[-1e999]", "too large a number"),
        ("9" * 400, "400 digits"),
        ("9" * 5000, "5000 digits"),
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'"\xff"', "not UTF-8"),
        ("[1]".encode("utf-16"), "not UTF-8"),
        ("[" * 101 + "]" * 101, f"more than {DEPTH} deep"),
        ("[" * 200_000 + "]" * 200_000, f"more than {DEPTH} deep"),
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
    for text in ("", "plain", "\u00e9\U0001f600\ufeff"):
        assert encodable(text) == text


@pytest.mark.parametrize("line", ["[" * 5000, "9" * 5000, '{"a": NaN}', "[1]"])
def test_a_line_that_is_not_an_object_is_named(line: str) -> None:
    with pytest.raises(BenchmarkError, match=r"q\.jsonl, line 3"):
        read_object(line, "q.jsonl, line 3", BenchmarkError)


@pytest.mark.parametrize("line", [b"[" * 5000, b'{"schema": ' + b"9" * 5000 + b"}", b'{"a": NaN}', b"\xff"])
def test_an_invalid_trace_line_is_a_run_error(line: bytes) -> None:
    with pytest.raises(RunError, match="not JSON"):
        Trace.from_line(line)


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "a: " + "9" * 5000, "a: 2026-99-99", "a: [", "a: \0"])
def test_settings_that_are_not_yaml_are_a_config_error(text: str, tmp_path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"run\.yaml: is not valid YAML"):
        read_yaml(path)
