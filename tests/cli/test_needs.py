"""Everything that a command needs is checked before a model is loaded, and told at once."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from tests.support.adapting import adapted
from videopro.backbones import model_needs, read_spec
from videopro.cli import Need, check_needs, folder_problem, is_hub_name, needs, wandb_problem
from videopro.commands.ask.command import main as ask
from videopro.commands.compare import main as compare
from videopro.commands.index import main as index
from videopro.commands.infer import main as infer
from videopro.data_synthesis.run import main as synthesize
from videopro.errors import ConfigError
from videopro.methods import METHODS
from videopro.pocket import model_dir
from videopro.train.grpo import main as grpo
from videopro.train.rejection import main as rejection
from videopro.train.sft import main as sft

MODEL = "Qwen/Qwen3-VL-8B-Instruct"
PARTS = ("LanguageBind/LanguageBind_Video_FT", "BAAI/bge-m3", "IDEA-Research/grounding-dino-base")


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A plain install, an empty cache and no network; returns the names of what was loaded none the less."""
    loaded: list[str] = []
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(needs, "_refusal", lambda name, headers: "the hub cannot be reached (no network)")
    lacking = ("sentence_transformers", "wandb", "timm")
    monkeypatch.setattr(needs, "is_installed", lambda package: package not in lacking)
    monkeypatch.setattr(needs, "wandb_problem", lambda: "no key")
    monkeypatch.setattr("transformers.AutoModelForImageTextToText.from_pretrained", loaded.append)
    monkeypatch.setattr("videopro.modules.loading.ModuleModels._once", lambda *given: loaded.append("part"))
    return loaded


DOWNLOADS = "hf download " + " && hf download ".join((MODEL, *PARTS))
TRAINING = (
    "--train_data rows.jsonl --use_cpu true --bf16 false --output_dir run --adapter someone/adapter "
    f"--report_to wandb --model_name_or_path {MODEL}"
)


@pytest.mark.parametrize(
    ("command", "words", "lines"),
    [
        (
            infer,
            f"--benchmark pocket --method videopro --model {MODEL} --report-to wandb --output run",
            [
                "  report_to wandb: needs the package wandb; no key",
                f"  model {MODEL}: not on this machine",
                f"  clip encoder languagebind: {PARTS[0]} is not on this machine (from a",
                "  text encoder BAAI/bge-m3: not on this machine; needs the package sentence_transformers (",
                "the models cannot be downloaded: the hub cannot be reached (no network)",
                "install with pip install 'sentence-transformers>=5.1' 'timm>=1.0.20' 'wandb>=0.31'",
                DOWNLOADS,
            ],
        ),
        (
            compare,
            f"--benchmark pocket --methods native videopro videoagent --model {MODEL} --output run",
            [DOWNLOADS],
        ),
        # No video is made or opened before.
        (
            ask,
            f"pocket:test/long_021 What? --choices a b --model {MODEL} --method videopro",
            [f"hf download {MODEL} && hf download {PARTS[0]}"],
        ),
        (
            index,
            "video.mp4 --encoder pe_video",
            ["pe_video: facebook/pe-av-large is not on this machine", "needs the package timm"],
        ),
        (
            synthesize,
            f"--source pocket --teacher api:t@http://localhost:9/v1 --model {MODEL} --output run",
            [DOWNLOADS, "without it: --text-encoder none"],
        ),
        (
            sft,
            TRAINING,
            [
                f"hf download {MODEL} && hf download someone/adapter",
                "report_to wandb: needs the package wandb; no key",
            ],
        ),
        (
            grpo,
            f"{TRAINING} --per_device_train_batch_size 8",
            [
                DOWNLOADS.replace(MODEL, f"{MODEL} && hf download someone/adapter"),
                'without it: --modules \'{"text_encoder": "none"}\'',
            ],
        ),
        # What answers inside the programs.
        (
            rejection,
            f"--model pocket --adapter pocket-sft --answerer {MODEL} --data grpo.jsonl --output own.jsonl",
            [DOWNLOADS],
        ),
    ],
)
def test_a_command_names_all_that_is_missing_and_loads_nothing(
    nothing_here: list[str],
    command: Callable[[list[str]], int],
    words: str,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "video.mp4").write_bytes(b"")
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": turns, "id": "1", "kind": "text"}) + "\n")
    prompt = {"prompt": "Q", "video": "v.mp4", "id": "1", "kind": "plan"}
    question = {"question": "Q", "choices": ["a", "b"], "answer": "A"}
    (tmp_path / "grpo.jsonl").write_text(json.dumps({**prompt, **question}) + "\n")
    assert command(words.split()) == 2
    text = capsys.readouterr().err
    assert [line for line in lines if line not in text] == []
    assert text.count(f"model {MODEL}:") <= 1
    assert text.count("hf download") <= 5, "each once"
    assert nothing_here == []
    assert not (tmp_path / "run").exists()


def test_pocket_needs_nothing(nothing_here: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on a plain install, whatever the environment says about connections."""
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    model = read_spec("pocket", adapter="pocket-sft")
    options: dict[str, Any] = {"lvagent": {"agents": ("self", "pocket+pocket-lv-looks")}}
    for name in METHODS:
        check_needs([*model_needs(model), *adapted(name, options.get(name)).needs(model)])


def test_a_merged_planner_answers_with_what_its_base_has(nothing_here: list[str], tmp_path: Path) -> None:
    for base, wanted in (("pocket", []), (MODEL, list(PARTS))):
        (tmp_path / "videopro.json").write_text(json.dumps({"planner": {"base": base}}))
        required = adapted("videopro").needs(read_spec(str(tmp_path)))
        assert [need.hub for need in required if need.hub] == wanted


def test_servers_are_checked_without_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "a b")
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    with pytest.raises(ConfigError) as raised:
        check_needs([Need("model server:m", url="https://localhost:9/v1", key="MY_KEY")])
    assert "SSL_CERT_FILE is /missing.pem" in str(raised.value)
    assert "MY_KEY cannot be sent" in str(raised.value)


def test_what_the_hub_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://hub.invalid")
    statuses = {"a/here": 200, "a/renamed": 307, "a/gated": 401, "a/none": 404} | {
        f"mirror/{status}": status for status in (405, 429, 503)
    }

    class Session:
        def head(self, url: str, **settings: Any) -> Any:
            name = url.removeprefix("http://hub.invalid/api/models/")
            return type("Reply", (), {"status_code": statuses[name]})

    monkeypatch.setattr(huggingface_hub, "get_session", Session)
    told = needs.refusals(statuses)
    assert list(told) == ["a/gated", "a/none"]
    assert "license" in told["a/gated"]
    monkeypatch.setenv("HF_TOKEN", "schl\u00fcssel")
    assert "HF_TOKEN cannot be sent" in needs.refusals(["a/here"])["a/here"]
    monkeypatch.setenv("SSL_CERT_FILE", "/missing.pem")
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://hub.invalid")
    assert "SSL_CERT_FILE is /missing.pem" in needs.refusals(["a/here"])["a/here"]
    assert needs.refusals([str(model_dir())]) == {}


def test_names_of_the_hub() -> None:
    assert is_hub_name(MODEL)
    others = ("./runs/sft", "/runs/sft", "~/sft", "pocket", "a/b/c")
    assert [name for name in others if is_hub_name(name)] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    assert folder_problem(tmp_path / "a" / "b") == ""
    (tmp_path / "file").write_text("")
    assert folder_problem(tmp_path / "file" / "b").endswith(f"{tmp_path / 'file'} is not a folder")


# ---- wandb -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "no key"),
        ({"API_KEY": "0123456789"}, ""),
        *(({"MODE": mode}, "") for mode in ("offline", "disabled")),
        ({"DISABLED": "true"}, ""),
        ({"IDENTITY_TOKEN_FILE": "/token"}, ""),
        ({"MODE": "online", "API_KEY": "01234\n56789"}, "WANDB_API_KEY cannot be sent"),
    ],
)
def test_wandb_needs_a_key_unless_it_is_told_to_send_nothing(
    variables: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("API_KEY", "MODE", "DISABLED", "BASE_URL", "CONFIG_DIR", "IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(f"WANDB_{name}", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    assert problem in wandb_problem()
    assert bool(wandb_problem()) == bool(problem)
    if variables:
        return
    # After a login, to that server alone; or by its own settings.
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password 0123456789\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert wandb_problem() == ""
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert wandb_problem().startswith("no key")
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text("[default]\nmode = offline\n")
    assert wandb_problem() == ""


def test_models_of_the_cache_are_used_where_the_hub_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise every file of them is asked for, half a minute each: two to three minutes for a model."""
    where = tmp_path / "models--a--model"
    for part in ("refs", "snapshots/abc"):
        (where / part).mkdir(parents=True)
    (where / "refs" / "main").write_text("abc")
    for file in ("config.json", "model.safetensors"):
        (where / "snapshots" / "abc" / file).write_text("{}")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    need = Need("model a/model", hub="a/model")
    monkeypatch.setattr(needs, "_ask", lambda name, headers: 200)
    check_needs([need])
    assert (os.environ["HF_HUB_OFFLINE"], capsys.readouterr().err) == ("", "")
    monkeypatch.setattr(needs, "_ask", lambda name, headers: "no route")
    check_needs([Need("model", hub="")])
    assert os.environ["HF_HUB_OFFLINE"] == ""
    check_needs([need])
    assert huggingface_hub.constants.HF_HUB_OFFLINE is True
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert capsys.readouterr().err.endswith("(no route); using models from its cache\n")
