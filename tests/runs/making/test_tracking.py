"""--report-to: the numbers of the summary, read back from what each tracker wrote."""

import json
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.colours import finish, flags, load_fake, start
from tests.support.colours import root as root
from videopro.commands.infer import main
from videopro.runs.making import tracking
from videopro.runs.making.tracking import flat


def summary(output: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return content


def events(output: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads: (step, value)s by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(output / "work" / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {
        name: [(scalar.step, scalar.value) for scalar in accumulator.Scalars(name)]
        for name in accumulator.Tags()["scalars"]
    }


def check(numbers: dict[str, float], output: Path) -> None:
    """Two of three are right, of four videos; and all else equals the summary."""
    assert numbers["accuracy"] == pytest.approx(2 / 3)
    assert numbers["n"] == 12
    assert numbers["groups/family/odd/accuracy"] == 1.0
    summarized = summary(output)
    assert numbers["accuracy_ci95/0"] == pytest.approx(summarized["accuracy_ci95"][0])
    assert numbers["modes/native"] == summarized["modes"]["native"] == 1.0
    assert numbers["cost/tokens_in"] == pytest.approx(summarized["cost"]["tokens_in"])


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


def test_names_of_metrics() -> None:
    nested = {"a": {"b c": 1, "d": None}, "e": [0.5, {"f": 2}], "g": "text", "h": True, "i": 3.0}
    assert dict(flat(nested)) == {"a/b c": 1.0, "e/0": 0.5, "e/1/f": 2.0, "i": 3.0}


def test_tensorboard_gets_the_summary(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SECONDS", 0.0)
    output = tmp_path / "run"
    more = ("--report-to", "tensorboard", "--backbone", "delay=0.1")
    assert main(flags(root, output, *more), load=load_fake) == 0
    written = events(output)
    steps = [step for step, _ in written["accuracy"]]
    assert steps == sorted(steps)
    assert len(set(steps)) > 1, "also while the run went on"
    assert steps[-1] == 12
    check({name: values[-1][1] for name, values in written.items()}, output)
    assert yaml.safe_load((output / "config.yaml").read_text())["report_to"] == ["tensorboard"]


class _Failing(tracking._Wandb):
    def __init__(self, name: str, folder: Any, settings: Any) -> None:
        self.sent = 0

    def send(self, numbers: Any, step: int) -> None:
        raise OSError("no network")

    def close(self) -> None:
        pass


def _refuses(name: str, folder: Any, settings: Any) -> Any:
    raise ValueError("no account")


def test_a_tracker_that_fails_ends_no_run_but_one_that_cannot_start(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracking, "SECONDS", 0.0)
    words = flags(root, tmp_path / "run", "--report-to", "tensorboard")
    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", _refuses)
    assert main(words, load=load_fake) == 2
    assert "tensorboard cannot start (no account)" in capsys.readouterr().err
    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", _Failing)
    assert main(words, load=load_fake) == 0
    assert summary(tmp_path / "run")["n"] == 12
    assert capsys.readouterr().err.count("tensorboard failed and is no longer used (no network)") == 1


def test_wandb_offline_gets_the_summary(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    output = tmp_path / "run"
    process = start(root, output, "--report-to", "wandb", WANDB_MODE="offline", WANDB_SILENT="true")
    finish(process)
    (file,) = (output / "work" / "wandb").glob("offline-run-*/run-*.wandb")
    numbers = {name: value for line in history(file.read_bytes()) for name, value in line.items()}
    assert numbers.pop("_step") == 12
    check(numbers, output)


def test_trackio_gets_the_summary(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    output = tmp_path / "run"
    finish(start(root, output, "--report-to", "trackio", TRACKIO_DIR=str(tmp_path / "trackio")))
    with sqlite3.connect(tmp_path / "trackio" / "videopro.db") as database:
        rows = database.execute("select step, metrics from metrics order by id").fetchall()
    step, metrics = rows[-1]
    assert step == 12
    check(json.loads(metrics), output)
