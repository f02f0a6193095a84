"""videopro doctor: what it shows of a machine, and what it never shows."""

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from videopro.commands import doctor
from videopro.commands.doctor import main
from videopro.errors import BackboneError
from videopro.pocket import model_dir


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing in its caches and nothing in its environment."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def findings(capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, dict[str, Any]]:
    assert main(["--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (status == 0)
    return {each["name"]: each for each in found["findings"]}


def cached(folder: Path, name: str, **files: str) -> None:
    where = folder / f"models--{name.replace('/', '--')}"
    for part in ("refs", "snapshots/abc", "blobs"):
        (where / part).mkdir(parents=True)
    (where / "refs" / "main").write_text("abc")
    for file, content in files.items():
        (where / "blobs" / file).write_text(content)
        (where / "snapshots" / "abc" / file.replace("_", ".")).symlink_to(where / "blobs" / file)


def test_what_is_here_and_what_is_missing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cached(home / "hub", "BAAI/bge-m3", config_json="{}", model_safetensors="x" * 3_000_000)
    cached(home / "hub", "Qwen/Qwen3-VL-2B-Instruct", config_json="{}")
    cached(home / "hub", "someone/else", config_json="{}", model_safetensors="x")
    (home / "cache").mkdir()
    (home / "cache" / "index").write_bytes(b"x" * 8_000_000)
    found = findings(capsys)
    shipped = sum(file.stat().st_size for file in model_dir().rglob("*") if file.is_file())
    assert found["pocket"]["state"] == "ok"
    assert abs(int(found["pocket"]["text"].split()[-2]) - shipped / 1e6) <= 1
    assert (found["BAAI/bge-m3"]["state"], found["BAAI/bge-m3"]["text"]) == (
        "ok",
        "text_encoder: downloaded, 3 MB",
    )
    assert found["Qwen/Qwen3-VL-2B-Instruct"]["state"] == "wrong"
    assert "incomplete" in found["Qwen/Qwen3-VL-2B-Instruct"]["text"]
    assert found["Qwen/Qwen3-VL-8B-Instruct"]["state"] == "missing"
    assert "hf download Qwen/Qwen3-VL-8B-Instruct" in found["Qwen/Qwen3-VL-8B-Instruct"]["text"]
    assert found["someone/else"]["state"] == "ok"
    assert found["VIDEOPRO_CACHE"]["text"].startswith(f"{home / 'cache'}: 8 MB, ")
    assert found["proxy"]["text"] == "none"
    assert found["sandbox"]["state"] == "ok"


def test_keys_are_shown_by_name_only(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_TEACHER_API_KEY", "sk-geheim")
    monkeypatch.setenv("HF_TOKEN", "hf-geheim auch")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:geheim@proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "ftp://me:geheim@proxy")
    monkeypatch.setenv("HF_ENDPOINT", "https://me:geheim@mirror.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    for words in (["--json"], []):
        assert main(words) == 0  # No run of the pocket model needs any of these.
        out = capsys.readouterr()
        assert "geheim" not in out.out + out.err
    found = findings(capsys)
    assert (found["MY_TEACHER_API_KEY"]["state"], found["MY_TEACHER_API_KEY"]["text"]) == ("ok", "set")
    assert found["HF_TOKEN"]["state"] == "wrong"
    assert (found["HTTPS_PROXY"]["state"], found["HTTPS_PROXY"]["text"]) == ("ok", "http://proxy:3128")
    assert found["HTTP_PROXY"]["state"] == "wrong"
    assert found["SSL_CERT_FILE"]["state"] == "wrong"


def test_what_every_run_needs_is_status_2(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_model() -> Path:
        raise BackboneError("the pocket model is not there")

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("videopro.pocket.model.model_dir", no_model)
    monkeypatch.setattr(doctor, "sandbox_problem", lambda: "this kernel has no seccomp filters.")
    monkeypatch.setattr(doctor, "_required", lambda: ["no-such-package>=1", "wandb; extra == 'tracking'"])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1))
    found = findings(capsys, status=2)
    broken = {name for name, each in found.items() if each["state"] == "broken"}
    assert broken == {"pocket", "sandbox", "videopro", "VIDEOPRO_CACHE"}
    (home / "file").write_text("")
    monkeypatch.setenv("VIDEOPRO_CACHE", str(home / "file" / "cache"))
    assert "is not a folder" in findings(capsys, status=2)["VIDEOPRO_CACHE"]["text"]
    assert main([]) == 2
    assert "broken: sandbox: this kernel has no seccomp filters." in capsys.readouterr().err


def test_gpus_by_their_drivers_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB, 80994 MiB'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    versions: dict[str, str] = {}
    monkeypatch.setattr(doctor.metadata, "version", versions.get)
    for build, state in (("2.14.1+cpu", "wrong"), ("2.14.1+cu130", "ok")):
        versions["torch"] = build
        (found,) = (each for each in doctor._gpus() if each.name == "GPU")
        assert found.state == state
        assert found.text.startswith("NVIDIA H100 80GB HBM3, 81559 MiB, 80994 MiB free")
    for value, shown in ((None, []), ("1", ["1"]), ("", ["empty; no GPU is used"])):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if value is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert [each.text for each in doctor._gpus() if each.name != "GPU"] == shown


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        (None, ["0", "1", "2", "3"]),
        ("2, 3", ["2", "3"]),
        ("GPU-8932f937", ["GPU-8932f937"]),
        # CUDA's rule: what follows a name that is none does not count.
        ("1,-1,2", ["1"]),
        ("1,4,2", ["1"]),
        ("", []),
    ],
)
def test_gpus_that_a_variable_hides_do_not_count(
    value: str | None, visible: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "nvidia_gpus", lambda: ["H100"] * 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert doctor.visible_gpus() == visible
