"""Stages that are run, fail, are done before, or were done with other settings."""

import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from videopro.cli import TIMES
from videopro.commands.reproduce.running import Record, check_same, run_stages, write_settings
from videopro.commands.reproduce.stages import Command, Stage
from videopro.errors import RunError


@dataclass(frozen=True)
class Script(Command):
    """Python code in place of a command of videopro."""

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-c", *self.arguments]


def stage(name: str, code: str, folder: Path, *, after: tuple[str, ...] = ()) -> Stage:
    """A stage whose code runs in `folder` and that writes a file of its name."""
    code = f"import os; os.chdir({str(folder)!r}); {code}"
    return Stage(name, f"does {name}", (Script("infer", (code,)),), after, (folder / name,))


def touches(name: str, folder: Path, *, after: tuple[str, ...] = (), more: str = "") -> Stage:
    return stage(name, f"open({name!r}, 'a').write('x'); print('said {name}'){more}", folder, after=after)


def times(folder: Path, name: str) -> int:
    return len((folder / name).read_text())


def test_stages_run_in_their_order_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [touches("sft", tmp_path), touches("grpo", tmp_path, after=("sft",))]
    run_stages(stages, tmp_path)
    run_stages(stages, tmp_path)
    assert (times(tmp_path, "sft"), times(tmp_path, "grpo")) == (1, 1)
    assert (tmp_path / "logs/sft.log").read_text() == "said sft\n"
    assert "[2/2] grpo: does grpo: already done" in capsys.readouterr().out


def test_a_stage_that_fails_stops_the_others_and_is_gone_on_with(tmp_path: Path) -> None:
    fails = stage("grpo", "print('out of memory'); raise SystemExit(2)", tmp_path, after=("sft",))
    stages = [touches("sft", tmp_path), fails, touches("report", tmp_path, after=("grpo",))]
    with pytest.raises(RunError, match=r"'grpo' failed \(status 2\); see its output in .*grpo\.log"):
        run_stages(stages, tmp_path)
    assert "out of memory" in (tmp_path / "logs/grpo.log").read_text()
    assert not (tmp_path / "report").exists()
    run_stages([stages[0], touches("grpo", tmp_path), stages[2]], tmp_path)
    assert (times(tmp_path, "sft"), times(tmp_path, "report")) == (1, 1)


def test_what_a_stage_says_it_writes_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"ended without an error, but .*sft is missing"):
        run_stages([stage("sft", "pass", tmp_path)], tmp_path)


def test_other_settings_are_refused_until_the_output_is_gone(tmp_path: Path) -> None:
    run_stages([touches("sft", tmp_path)], tmp_path)
    other = touches("sft", tmp_path, more="; print('more')")
    with pytest.raises(RunError, match="'sft' was finished with other settings"):
        run_stages([other], tmp_path)
    (tmp_path / "sft").unlink()
    run_stages([other], tmp_path)
    check_same([other], Record(tmp_path))
    (tmp_path / "done/sft.json").write_text('[{"name": "sft"')
    with pytest.raises(RunError, match=r"done/sft\.json: cannot be read .*; delete it"):
        Record(tmp_path).of(other)


def test_what_was_made_from_an_older_stage_is_made_again(tmp_path: Path) -> None:
    first = touches("sft", tmp_path)
    stages = [first, touches("grpo", tmp_path, after=("sft",)), touches("merge", tmp_path)]
    run_stages(stages, tmp_path)
    (tmp_path / "sft").unlink()
    run_stages(stages, tmp_path)
    # grpo ran once more, over its first output: its own command decides whether that can be resumed.
    assert [times(tmp_path, name) for name in ("sft", "grpo", "merge")] == [1, 2, 1]


def test_a_command_runs_on_each_gpu_at_once(tmp_path: Path) -> None:
    # Each waits for what the other writes: one after the other, neither would end.
    code = (
        f"import os, pathlib, time; os.chdir({str(tmp_path)!r}); gpu = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "pathlib.Path(gpu).touch(); print(f'on {gpu}\\n', end='')\n"
        "while not (pathlib.Path('4').exists() and pathlib.Path('5').exists()): time.sleep(0.01)"
    )
    shared = Script("index", (code,), gpus=("4", "5"))
    run_stages([Stage("index", "", (shared,))], tmp_path)
    assert sorted((tmp_path / "logs/index.log").read_text().splitlines()) == ["on 4", "on 5"]
    assert str(shared).startswith("CUDA_VISIBLE_DEVICES=4 videopro index ")
    assert str(shared).endswith("  # and on 1 other GPUs")


def test_the_memory_of_gpus_is_what_the_fullest_had_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends when two GPUs have said twice what they use; one that cannot say so counts nothing."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        f"#!/bin/sh\nprintf '512\\n[N/A]\\n'; printf '2048\\n[N/A]\\n'; touch {tmp_path}/used; sleep 60\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    trains = stage(
        "sft", "import time\nwhile not os.path.exists('used'): time.sleep(0.01)\nopen('sft', 'w')", tmp_path
    )
    run_stages([trains], tmp_path)
    done = Record(tmp_path).of(trains)
    assert done is not None
    assert done["took"][0]["gpu_memory"] == 2 * 1024**3
    assert re.search(r"sft took 0\.\d min, [\d.]+ [MG]B of memory, 2\.1 GB of a GPU", capsys.readouterr().out)


def test_it_is_recorded_what_a_command_took(tmp_path: Path) -> None:
    """Two processes mark what is done, and the one that worked longest counts, from its first mark on.
    Answers: six seconds for four later parts, so 10.5 s for all seven; the marks' rates of 1, 1 and 2 s have
    a mean of 1.333 and a deviation of 0.577, and two errors of the mean are half of it. A training prepares
    its rows first: five seconds for three later steps, 6.67 for four; the rates are 1 and 2 s."""
    rows = [
        [7, 50, 0],
        [7, 53, 3],
        [8, 50, 0],
        [7, 100, 0],
        [7, 101, 1],
        [8, 51, 1],
        [7, 102, 2],
        [7, 106, 4],
    ]
    code = f"import os, json; file = open(os.environ[{TIMES!r}], 'w')\n"
    code += f"for row in {rows}: file.write(json.dumps(row) + chr(10))\nfile.close(); open('{{name}}', 'w')"
    for name, working, spread in (("sft", 6.667, 0.667), ("infer", 10.5, 0.5)):
        written = stage(name, code.format(name=name), tmp_path)
        run_stages([written], tmp_path)
        (took,) = (Record(tmp_path).of(written) or {})["took"]
        assert took["working"] == pytest.approx(working, abs=0.001)
        assert took["seconds"] > 0
        assert took["memory"] > 5e6
        assert took["cpu_seconds"] > 0
        assert took["spread"] == pytest.approx(spread, abs=0.001)


def test_what_an_earlier_attempt_did_took_as_long(tmp_path: Path) -> None:
    """Eight of ten answers were there. The first of the others takes 5 s, as it loads what it uses, and the
    second 2 s: ten take 20. A training goes on from step 6 of 8, after it has prepared its rows: the first
    step takes 4 s, the second 1 s, and so 8 in all."""
    marks = {
        "infer": ([[7, 50, 8], [7, 55, 9], [7, 57, 10]], 20.0),
        "sft": ([[7, 40, 0], [7, 41, 16], [7, 50, 6], [7, 54, 7], [7, 55, 8]], 8.0),
    }
    for name, (rows, working) in marks.items():
        code = f"import os, json; file = open(os.environ[{TIMES!r}], 'w')\n"
        code += f"for row in {rows}: file.write(json.dumps(row) + chr(10))\nfile.close(); open('{name}', 'w')"
        written = stage(name, code, tmp_path)
        run_stages([written], tmp_path)
        assert (Record(tmp_path).of(written) or {})["took"][0]["working"] == pytest.approx(working)


def test_what_only_prepares_is_done_again_with_other_settings(tmp_path: Path) -> None:
    made = [replace(touches(name, tmp_path), writes=()) for name in ("check", "index")]
    run_stages(made, tmp_path)
    run_stages([made[0], replace(touches("index", tmp_path, more="; print('more')"), writes=())], tmp_path)
    assert (times(tmp_path, "check"), times(tmp_path, "index")) == (1, 2)


def test_data_that_is_gone_is_fetched_again(tmp_path: Path) -> None:
    fetched = touches("data", tmp_path)
    fetched = replace(fetched, name="download", writes=(), fetches=(tmp_path / "data",))
    run_stages([fetched], tmp_path)
    run_stages([fetched], tmp_path)
    assert times(tmp_path, "data") == 1
    (tmp_path / "data").unlink()
    run_stages([fetched], tmp_path)
    assert times(tmp_path, "data") == 1
    # Whatever other settings would bring beside it, it stays.
    run_stages([replace(fetched, commands=touches("data", tmp_path, more="; 1").commands)], tmp_path)
    assert times(tmp_path, "data") == 2


def test_settings_are_written_with_their_command(tmp_path: Path) -> None:
    file = tmp_path / "configs/sft.yaml"
    made = touches("sft", tmp_path)
    command = replace(made.commands[0], settings={"model": "pocket", "limit": 3}, file=file)
    write_settings([replace(made, commands=(command,))])
    assert file.read_text().splitlines()[1:] == ["model: pocket", "limit: 3"]
    assert file.read_text().startswith("# videopro infer ")


def test_a_full_disk_is_named_and_holds_no_command_up(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/sft.log").symlink_to("/dev/full")
    # More than a pipe holds: if nobody read on, the command would wait for ever.
    says_much = stage("sft", "print('x' * 1_000_000); open('sft', 'w').write('x')", tmp_path)
    with pytest.raises(RunError, match=r"sft\.log: cannot be written"):
        run_stages([says_much], tmp_path)
    assert times(tmp_path, "sft") == 1


def test_a_signal_ends_the_stage_too(tmp_path: Path) -> None:
    # The road is in a process of its own, as a command is. Its stage starts another process, as accelerate's
    # launcher starts a training, which writes its id and sleeps.
    sleeps = f"import os, time; open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleeps!r}]).wait()"
    road = (
        "import sys; from pathlib import Path; from videopro.cli import exit_status\n"
        "from videopro.commands.reproduce.running import run_stages\n"
        "from videopro.commands.reproduce.stages import Command, Stage\n"
        f"Command.argv = property(lambda command: [sys.executable, '-c', {code!r}])\n"
        f"sleeps = Stage('sft', '', (Command('sft'),))\n"
        f"with exit_status() as status: run_stages([sleeps], Path({str(tmp_path)!r}))\n"
        "raise SystemExit(status.code)"
    )
    process = subprocess.Popen([sys.executable, "-c", road], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    child = int((tmp_path / "id").read_text())
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert (process.returncode, said.strip()) == (143, "stopped; re-run the same command to resume")
    # Init may not have waited for it.
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_the_work_of_eight_gpus_is_gone_on_with_on_four(tmp_path: Path) -> None:
    command = Command("synthesize", settings={"limit": 3})
    keys = {
        str(Stage("synthesize", "", (replace(command, gpus=tuple("01234567"[:gpus])),)).key)
        for gpus in (1, 4, 8)
    }
    assert len(keys) == 1
    assert str(Stage("synthesize", "", (replace(command, settings={"limit": 4}),)).key) not in keys


def test_every_benchmark_is_looked_at_and_incomplete_ones_can_be_gone_on_with(tmp_path: Path) -> None:
    fails, unpacks = "raise SystemExit(2)", f"open({str(tmp_path / 'unpacked')!r}, 'w')"
    codes = (fails, fails, unpacks)
    looks = Stage("check", "", tuple(Script("check", (code,)) for code in codes))
    later = touches("transcribe", tmp_path)
    with pytest.raises(RunError, match=r"check-1\.log(?s:.)*1 more of its commands failed; .*--skip check$"):
        run_stages([looks, later], tmp_path)
    assert (tmp_path / "unpacked").exists()
    assert not (tmp_path / "transcribe").exists()
    # A training that fails has nothing to go on with.
    training = stage("sft", fails, tmp_path)
    with pytest.raises(RunError, match=r"re-run the same command to resume$"):
        run_stages([training, later], tmp_path)
