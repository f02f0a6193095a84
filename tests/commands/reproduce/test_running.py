"""Stages that are run, fail, are done before, or were done with other settings."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from videopro.commands.reproduce.running import Record, check_same, run_stages
from videopro.commands.reproduce.stages import Command, Stage, on_each_gpu
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
    (tmp_path / "stages.json").write_text('[{"name": "sft"')
    with pytest.raises(RunError, match=r"stages\.json: cannot be read .*; delete it"):
        Record(tmp_path)


def test_what_was_made_from_an_older_stage_is_made_again(tmp_path: Path) -> None:
    first = touches("sft", tmp_path)
    stages = [first, touches("grpo", tmp_path, after=("sft",)), touches("merge", tmp_path)]
    run_stages(stages, tmp_path)
    (tmp_path / "sft").unlink()
    run_stages(stages, tmp_path)
    # grpo ran once more, over its first output: its own command decides whether that can be resumed.
    assert [times(tmp_path, name) for name in ("sft", "grpo", "merge")] == [1, 2, 1]


def test_commands_of_a_stage_run_at_once_where_they_may(tmp_path: Path) -> None:
    # Each waits for what the other writes: one after the other, neither would end.
    code = (
        "import os, pathlib, time; os.chdir({folder!r}); pathlib.Path('{mine}').touch()\n"
        "while not pathlib.Path('{other}').exists(): time.sleep(0.01)"
    )
    # Of two benchmarks, whose commands on a GPU come one after the other.
    commands = tuple(
        Script("infer", (code.format(folder=str(tmp_path), mine=mine, other=other),), gpus=gpu)
        for mine, other, gpu in (("a", "b", "0"), ("b", "a", "1"), ("c", "d", "0"), ("d", "c", "1"))
    )
    run_stages([Stage("index", "", commands, in_parallel=True)], tmp_path)
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {f"index-{n}.log" for n in range(1, 5)}


def test_a_gpu_has_one_command_at_a_time(tmp_path: Path) -> None:
    # The second on the GPU sees that the first has ended.
    first = f"import time; time.sleep(0.5); open({str(tmp_path / 'a')!r}, 'w')"
    second = f"import os, sys; sys.exit(not os.path.exists({str(tmp_path / 'a')!r}))"
    commands = tuple(Script("infer", (code,), gpus="0") for code in (first, second))
    run_stages([Stage("index", "", commands, in_parallel=True)], tmp_path)


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
    run_stages([replace(made, commands=(command,))], tmp_path)
    assert file.read_text().splitlines()[1:] == ["model: pocket", "limit: 3"]
    assert file.read_text().startswith("# videopro infer ")


def test_a_full_disk_is_named_and_holds_no_command_up(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/sft.log").symlink_to("/dev/full")
    # More than a pipe holds: if nobody read on, the command would wait for ever.
    says_much = stage("sft", "print('x' * 1_000_000); open('sft', 'w').write('x')", tmp_path)
    with pytest.raises(RunError, match=r"sft\.log: cannot be written \(No space left on device\)"):
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
        Stage("synthesize", "", on_each_gpu(command, [str(gpu) for gpu in range(gpus)])).key
        for gpus in (1, 4, 8)
    }
    assert len(keys) == 1
    assert Stage("synthesize", "", (replace(command, settings={"limit": 4}),)).key not in keys


def test_every_benchmark_is_looked_at_and_incomplete_ones_can_be_gone_on_with(tmp_path: Path) -> None:
    fails, unpacks = "raise SystemExit(2)", f"open({str(tmp_path / 'unpacked')!r}, 'w')"
    codes = (fails, fails, unpacks)
    looks = Stage("check", "", tuple(Script("check", (code,)) for code in codes), runs_all=True)
    later = touches("transcribe", tmp_path)
    with pytest.raises(
        RunError, match=r"'check' failed .*check-1\.log(?s:.)*check-2\.log; .*--start transcribe$"
    ):
        run_stages([looks, later], tmp_path)
    assert (tmp_path / "unpacked").exists()
    assert not (tmp_path / "transcribe").exists()
    # A training that fails has nothing to go on with.
    training = stage("sft", fails, tmp_path)
    with pytest.raises(RunError, match=r"re-run the same command to resume$"):
        run_stages([training, later], tmp_path)
