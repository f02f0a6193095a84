"""An engine that is started, watched and stopped: a program in vLLM's place that has a child of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, engine_folder, stub_engine
from tests.support.cancelling import until
from tests.support.engine_folder import is_alive, make, names, processes
from videopro.engine.serving import AttachedEngine, EngineSettings, ServedModel, process, started
from videopro.engine.serving.attached import exempt_from_proxies
from videopro.errors import BackboneError, ConfigError

folder = engine_folder.folder


def test_it_serves_what_it_is_told_to_and_ends_with_all_its_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    # With the first, vLLM would refuse our requests; at the second, it would end.
    monkeypatch.setenv("VLLM_API_KEY", "of another server")
    monkeypatch.setenv("VLLM_PORT", "tcp://10.0.0.7:8000")
    said: list[str] = []
    with make(folder, said, flags="--swap-space 1") as engine:
        assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == "example.org,127.0.0.1"
        assert names(engine) == ["model"]
        engine.load_adapter("policy-v1", folder)
        assert names(engine) == ["model", "policy-v1"]
        engine.unload_adapter("policy-v1")
        assert names(engine) == ["model"]
        assert all(is_alive(pid) for pid in processes(folder))
    (start,) = stub_engine.starts(folder)
    assert start["arguments"][:2] == ["serve", "some/model"]
    pairs = dict(pairwise(start["arguments"]))
    # 20 is between two ranks that vLLM has kernels for. Without a GPU: float32, and a slot that stays empty.
    assert (pairs["--max-lora-rank"], pairs["--max-loras"], pairs["--dtype"]) == ("32", "16", "float32")
    assert (pairs["--logprobs-mode"], pairs["--host"]) == ("processed_logprobs", "127.0.0.1")
    assert json.loads(pairs["--limit-mm-per-prompt"]) == {"video": 1, "image": 16}
    assert pairs["--swap-space"] == "1"
    environment = start["environment"]
    assert environment.pop("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "1"
    assert [name for name in environment if environment[name] and name != "CUDA_VISIBLE_DEVICES"] == []
    assert "INFO the stub starts" in engine.log.read_text()
    assert any("starting vLLM with model" in line for line in said)


def test_a_killed_engine_is_started_again_with_its_adapters_at_the_same_address(folder: Path) -> None:
    said: list[str] = []
    with make(folder, said) as engine:
        engine.load_adapter("policy-v1", folder)
        engine.load_adapter("policy-v2", folder)
        engine.unload_adapter("policy-v1")
        url = engine.url
        # The server, and then the guard around it.
        for number, pid in enumerate((stub_engine.starts(folder)[0]["pid"], None), 1):
            os.kill(pid or engine._process.pid, signal.SIGKILL)
            until(lambda: len(stub_engine.starts(folder)) == number + 1)  # noqa: B023
            engine.wait()
            assert names(engine) == ["model", "policy-v2"]
            assert not is_alive(stub_engine.starts(folder)[number - 1]["child"])
            # Where the guard lives, what the server left could free what it held.
            assert (folder / "freed").exists()
        assert (engine.url, engine.starts) == (url, 3)
        assert sum("starting it again" in line for line in said) == 2


@pytest.mark.parametrize(("device", "starts"), [(None, 2), ("0", 1)])
def test_the_cpu_build_is_started_again_before_an_adapter_takes_the_last_of_its_16_slots(
    folder: Path, device: str | None, starts: int
) -> None:
    said: list[str] = []
    with make(folder, said, device=device) as engine:
        for version in range(17):
            engine.load_adapter(f"policy-v{version}", folder)
            if version > 0:
                engine.unload_adapter(f"policy-v{version - 1}")
        assert names(engine) == ["model", "policy-v16"]
        assert engine.starts == starts
    assert any("would mistake one for the base" in line for line in said) == (starts > 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, ("127.0.0.1", "127.0.0.1")),
        # Python's clients would read the new no_proxy alone.
        ({"NO_PROXY": "intern,10.0.0.0/8"}, ("intern,10.0.0.0/8,127.0.0.1", "intern,10.0.0.0/8,127.0.0.1")),
        ({"no_proxy": "one", "NO_PROXY": "two"}, ("one,127.0.0.1", "two,127.0.0.1")),
        ({"no_proxy": "*"}, ("*", None)),
    ],
)
def test_a_proxy_is_not_asked_for_engines_and_what_it_was_not_asked_for(
    before: dict[str, str], after: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        # So that both are as they were at the end.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, hosts in before.items():
        monkeypatch.setenv(name, hosts)
    for _ in range(2):
        exempt_from_proxies()
        assert (os.environ.get("no_proxy"), os.environ.get("NO_PROXY")) == after


def test_a_refusal_of_one_that_is_dying_is_asked_of_the_next(folder: Path) -> None:
    stub_engine.behave(folder, dies=True)
    with make(folder, []) as engine:
        engine.load_adapter("policy-v1", folder)
        assert engine.starts == 2
        assert names(engine) == ["model", "policy-v1"]


@pytest.mark.long
def test_one_that_was_told_to_end_and_lingers_is_started_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard has 20 s of patience with it."""
    monkeypatch.setattr(process, "_WATCH_SECONDS", 0.1)
    stub_engine.behave(folder, lingers=True)
    with make(folder, []) as engine:
        stub_engine.behave(folder)
        os.kill(stub_engine.starts(folder)[0]["pid"], signal.SIGTERM)
        until(lambda: engine.starts == 2)
        engine.wait()
        assert names(engine) == ["model"]


def test_one_that_does_not_come_back_is_given_up_when_a_first_start_would_be(folder: Path) -> None:
    """Other processes of a training wait for this one so long, and no longer. Its port stays its own."""
    with make(folder, []) as engine:
        port = int(engine.url.split(":")[2].removesuffix("/v1"))
        stub_engine.behave(folder, slow=60)
        engine._settings = replace(engine._settings, start_seconds=1)
        os.kill(stub_engine.starts(folder)[0]["pid"], signal.SIGKILL)
        until(lambda: engine.starts == 2)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(BackboneError, match=r"cannot serve .*it died 2 times in a row, and was away"):
            engine.wait()
        assert engine.starts == 2


@pytest.mark.parametrize("stable", [60.0, 0.0])
def test_one_that_keeps_dying_is_given_up(
    stable: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that had served for long. Another process that asks it reads why, without what earlier engines
    printed."""
    monkeypatch.setattr(process, "_STABLE_SECONDS", stable)
    (folder / "run").mkdir()
    (folder / "run" / "engine.log").write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    said: list[str] = []
    failure = folder / "failed"
    failure.write_text("of an earlier run")
    with make(folder, said, failure=failure) as engine:
        attached = AttachedEngine(engine.url, failure)
        attached.check()
        assert attached.answers()
        stub_engine.behave(folder, fails="ValueError: max seq len (32768) is larger than the cache")
        os.kill(stub_engine.starts(folder)[0]["pid"], signal.SIGKILL)
        until(lambda: len(stub_engine.starts(folder)) == 4)
        with pytest.raises(BackboneError, match=r"(?s)died 4 times.*max_model_len=N.*larger than the cache"):
            engine.wait()
        with pytest.raises(BackboneError, match="died 4 times"):
            engine.load_adapter("policy-v1", folder)
        assert engine.starts == 4
        with pytest.raises(BackboneError, match=r"(?s)died 4 times.*larger than the cache"):
            attached.check()
        assert not attached.answers()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (
            {"fails": "torch.OutOfMemoryError: CUDA out of memory."},
            r"(?s)cannot serve some/model: it ended; change --vllm memory .*CUDA out of memory",
        ),
        ({"slow": 60}, "did not respond within 1 s"),
        (
            {"fails": "vllm serve: error: unrecognized arguments: --trust-request-mm-kwargs"},
            r"(?s)it ended; use vLLM 0.31 or newer.*arguments: --trust-request-mm-kwargs",
        ),
    ],
)
def test_one_that_does_not_start_shows_the_end_of_its_log(
    folder: Path, behaviour: dict[str, Any], message: str
) -> None:
    stub_engine.behave(folder, **behaviour)
    with pytest.raises(BackboneError, match=message):
        make(folder, [], start_seconds=1 if "slow" in behaviour else 600).start()


def test_one_of_several_that_does_not_start_ends_the_others_at_once(folder: Path) -> None:
    stub_engine.behave(folder, slow=60, fails="torch.OutOfMemoryError: CUDA out of memory.", fails_on="1")
    said: list[str] = []
    engines = [make(folder, said, device=device) for device in ("0", "1")]
    with pytest.raises(BackboneError, match="it ended; change --vllm memory"), started(engines):
        pass
    assert not any("vLLM is ready" in line for line in said)


def test_a_refused_adapter_is_an_error_and_is_not_loaded_after_a_restart(folder: Path) -> None:
    stub_engine.behave(folder, refuses="modules_to_save is not supported")
    with make(folder, []) as engine:
        with pytest.raises(BackboneError, match=r"'policy-v1' \(status 400\): modules_to_save"):
            engine.load_adapter("policy-v1", folder)
        assert engine._adapters == {}


PARENT = """
import sys, time
from pathlib import Path
from tests.support.engine_folder import make
engine = make(Path(sys.argv[1]), [])
engine.start()
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_however_that_ends(folder: Path, number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout.readline() == b"up\n"
    assert all(is_alive(pid) for pid in processes(folder))
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    until(lambda: not any(map(is_alive, processes(folder))))


def test_vllm_is_found_in_path_or_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="vLLM is not in PATH"):
        EngineSettings().command()
    with pytest.raises(ConfigError, match="program '/no/such' not found"):
        EngineSettings(program="/no/such").command()
    with pytest.raises(ConfigError, match="vllm: flags"):
        EngineSettings(flags="'").command()
    program = stub_engine.install(tmp_path)
    assert EngineSettings().command() == [str(program), "serve"]
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    module = ["-m", "vllm.entrypoints.openai.api_server", "--model"]
    assert EngineSettings(program=str(tmp_path)).command() == [str(python), *module]


def test_the_longest_prompt_is_the_models_own(tmp_path: Path) -> None:
    from videopro.engine.serving.settings import serve_flags

    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"max_position_embeddings": 8192}}))
    flags = serve_flags(EngineSettings(), ServedModel(str(tmp_path), "m", images=1), 1, on_gpu=True)
    pairs = dict(pairwise(flags))
    assert pairs["--max-model-len"] == "8192"
    assert (pairs["--gpu-memory-utilization"], pairs["--tensor-parallel-size"]) == ("0.85", "1")
    assert "--enable-lora" not in flags
