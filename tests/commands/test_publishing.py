"""videopro push and pull, by the hub's real client, against a hub on this machine."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import ModelCard, constants
from safetensors.torch import save_file

from tests.support.benchmark_runs import coloured, in_this_process, infer  # noqa: F401
from tests.support.colours import make_video
from tests.support.hub import Hub, connected, running_hub
from videopro.backbones import folder_fingerprint
from videopro.commands.publishing.portable import portable, video_folders
from videopro.commands.publishing.pull import main as pull
from videopro.commands.publishing.push import main as push
from videopro.commands.view import main as view
from videopro.runs import RunFolder
from videopro.train.rl import read_grpo_rows

QWEN = "Qwen/Qwen3-VL-8B-Instruct"
MACHINE = "/scratch/mina/video-lm"
"""A folder of the machine that made them."""


def adapter(folder: Path, *, base: str = f"{MACHINE}/models/Qwen3-VL-8B") -> Path:
    """An adapter of `videopro sft`, with checkpoints, trained on `base`."""
    folder.mkdir(parents=True)
    save_file({"layer.lora_A.weight": torch.arange(6.0)}, folder / "adapter_model.safetensors")
    _json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 8, "base_model_name_or_path": base})
    record = {"frames": 64, "pixels": 50176, "base": {"name": base, "weights": "0" * 16}, "planner": {}}
    _json(folder / "videopro.json", {**record, "versions": {"torch": "2.14.1"}})
    run = {"seed": 3, "learning_rate": 2e-5, "data": "5214788663f4ef55", "frames": 64, "pixels": 50176}
    dropped = {"q7": f"{MACHINE}/videos/q7.mp4: is damaged"}
    history = [{"step": 10, "loss": 2.5}, {"step": 20, "loss": 1.25}]
    training = {"run": run, "rows": 41, "kinds": {"plan_program": 30, "native": 11}, "dropped": dropped}
    training["videos"] = {"sft": ["0a", "0b", "0c"]}
    _json(folder / "training_record.json", {**training, "versions": {"torch": "2.14.1"}, "history": history})
    (folder / "README.md").write_text("# Model Card for Model ID\n")
    (folder / "training_args.bin").write_bytes(b"\x80pickle of " + MACHINE.encode())
    (folder / "checkpoint-20").mkdir()
    (folder / "checkpoint-20" / "optimizer.pt").write_bytes(b"states")
    return folder


def planner(folder: Path) -> Path:
    """A merged planner in two files of weights."""
    folder.mkdir(parents=True)
    weights = {"model-00001-of-00002.safetensors": "a", "model-00002-of-00002.safetensors": "b"}
    for name, tensor in weights.items():
        save_file({tensor: torch.full((3,), float(ord(tensor)))}, folder / name)
    _json(folder / "model.safetensors.index.json", {"weight_map": {t: n for n, t in weights.items()}})
    _json(folder / "config.json", {"model_type": "qwen3_vl"})
    record = {"base": "Qwen/Qwen3-VL-8B-Instruct", "weights": "1" * 16}
    _json(folder / "videopro.json", {"frames": 64, "pixels": 50176, "planner": record, "versions": {}})
    return folder


def dataset(folder: Path, videos: Path) -> Path:
    """A dataset about a video in `videos` and one in a folder below it."""
    folder.mkdir(parents=True)
    grpo = [_prompt(1, videos / "a.mp4", str(videos / "a.srt")), _prompt(2, videos / "long" / "b.mp4")]
    turns = [{"role": "user", "content": "<video>Q"}, {"role": "assistant", "content": "A"}]
    sft = [{"messages": turns, "videos": [str(videos / "a.mp4")], "id": "1/native"}]
    texts = {
        f"{name}.jsonl": "".join(json.dumps(row) + "\n" for row in rows)
        for name, rows in (("sft", sft), ("grpo", grpo))
    }
    (folder / "held_out.jsonl").write_text("{}\n")
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    asked = {"not asked": {"no known answer": 3}}
    _json(folder / "card.json", {"about": {"source": "jsonl"}, "questions": asked, "sha256": digests})
    listed = "; ".join(f"{name} `{digest}`" for name, digest in digests.items())
    (folder / "CARD.md").write_text(f"# Data card: jsonl\n\nSHA-256: {listed}.\n")
    config = {"source": "jsonl", "root": str(videos.parent), "output": str(folder), "run_key": "abc"}
    model = {"model": "server:qwen@http://gpu17:8000/v1", "identity": {"synthesis": {"source": "jsonl"}}}
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, **model}))
    return folder


def _prompt(number: int, video: Path, subtitles: str | None = None) -> dict[str, Any]:
    asked = {"question": "Which?", "choices": ["red", "blue"], "answer": "A", "subtitles": subtitles}
    prompt = {"kind": "plan", "prompt": "Write a program.", "oracle_mode": "program"}
    about = {"id": f"{number}/plan", "question_id": str(number), "video": str(video), "videos": [str(video)]}
    return {**about, **asked, **prompt}


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


# ---- the hub -----------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with running_hub() as server, connected(server, monkeypatch, tmp_path / "cache"):
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of method native on three questions about two videos, one of which is missing."""
    coloured(tmp_path / "lvb")
    flags = ["--benchmark", "longvideobench", "--method", "native", "--limit", "3"]
    assert infer(tmp_path / "lvb", tmp_path / "run", *flags) == 0
    return tmp_path / "run"


Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that has to fail; the one line of its error."""

    def line(command: Callable[[list[str]], int], *words: object) -> str:
        assert command([str(word) for word in words]) == 2
        (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
        return error

    return line


def files_of(hub: Hub) -> dict[str, bytes]:
    """Those of the planner on the hub."""
    return hub.repositories["model", "mina/planner"].files


def card_of(hub: Hub) -> ModelCard:
    return ModelCard(files_of(hub)["README.md"].decode())


# ---- adapters and planners ---------------------------------------------------------------------------------


def test_an_adapter_goes_up_without_its_machine_and_comes_back(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = adapter(tmp_path / "sft")
    assert push([str(folder), "mina/planner"]) == 0
    out, err = capsys.readouterr()
    assert "hub name is unknown; pass --base OWNER/NAME" in err
    assert "not pushed (not part of the adapter): README.md, checkpoint-20/, training_args.bin" in out
    repository = hub.repositories["model", "mina/planner"]
    assert repository.private
    records = {"adapter_config.json", "adapter_model.safetensors", "videopro.json", "training_record.json"}
    assert set(repository.files) == {".gitattributes", "README.md", *records}
    for name, content in repository.files.items():
        assert b"/scratch" not in content, name
        assert b"q7.mp4" in content or name != "training_record.json"
    card = card_of(hub)
    assert card.data.to_dict() == {
        "library_name": "peft",
        "pipeline_tag": "video-text-to-text",
        "tags": ["videopro", "sft"],
    }
    for text in (
        "Base: `Qwen3-VL-8B`, a folder on the machine that trained it",
        "- 41 rows: 11 native, 30 plan_program",
        "- 1 dropped rows",
        "- 3 videos of stage sft",
        "| 20 | 1.25 |",
        "- no benchmark\n",
        "- no seed other than 3",
        "64 frames of at most 50,176 pixels",
    ):
        assert text in card.text

    assert pull(["mina/planner", str(tmp_path / "pulled")]) == 0
    assert "--model BASE --backbone adapter=" + str(tmp_path / "pulled") in capsys.readouterr().out
    for name in records:
        assert (tmp_path / "pulled" / name).read_bytes() == repository.files[name]
    weights = (folder / "adapter_model.safetensors").read_bytes()
    assert repository.files["adapter_model.safetensors"] == weights


@pytest.mark.parametrize(
    ("recorded", "named", "known"),
    [
        (QWEN, None, QWEN),
        (f"{MACHINE}/hub/models--Qwen--Qwen3-VL-8B-Instruct/snapshots/0f3a", None, QWEN),
        (f"{MACHINE}/models/Qwen3-VL-8B", QWEN, QWEN),
        ("pocket", None, ""),
    ],
)
def test_the_card_names_the_base(
    hub: Hub, tmp_path: Path, recorded: str, named: str | None, known: str
) -> None:
    folder = adapter(tmp_path / "sft", base=recorded)
    assert push([str(folder), "mina/planner", *(["--base", named] if named else [])]) == 0
    files, card = files_of(hub), card_of(hub)
    assert (card.data.base_model or "") == known
    assert card.data.get("base_model_relation") == ("adapter" if known else None)
    base = known or "pocket"
    assert f"--model {base} --backbone adapter=mina/planner" in card.text
    assert json.loads(files["videopro.json"])["base"] == {"name": base, "weights": "0" * 16}
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == base


def test_a_dry_run_connects_to_nothing(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: Refused,
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    folder = adapter(tmp_path / "sft", base=QWEN)
    another = ["--base", "Qwen/Qwen2.5-VL-7B-Instruct", "--dry-run"]
    contradicts = refused(push, folder, "mina/planner", *another)
    assert f"says that it was trained on {QWEN}; leave out --base" in contradicts
    assert push([str(planner(tmp_path / "merged")), "mina/planner", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "planner" in out
    assert "model-00002-of-00002.safetensors" in out
    assert f"base_model: {QWEN}" in out
    assert "base_model_relation: finetune" in out
    assert hub.requests == []


def test_what_the_owner_wrote_stays(hub: Hub, tmp_path: Path) -> None:
    folder = adapter(tmp_path / "sft", base=QWEN)
    assert push([str(folder), "mina/planner"]) == 0
    repository = hub.repositories["model", "mina/planner"]
    written = repository.files["README.md"].decode()
    edited = written.replace("\n# planner\n", "\n# Mina's planner\n\nMind the step.\n") + "\nThanks to all.\n"
    edited = edited.replace("library_name: peft", "library_name: peft\nlicense: mit\nlanguage: en")
    edited = edited.replace("41 rows", "a million rows").replace("- sft\n", "- sft\n- mine\n")
    repository.commit({**repository.files, "README.md": edited.encode()})
    assert push([str(folder), "mina/planner"]) == 0
    card = card_of(hub)
    assert card.text.startswith("\n# Mina's planner\n\nMind the step.\n")
    assert card.text.endswith("\nThanks to all.\n")
    assert "- 41 rows:" in card.text
    assert "million" not in card.text
    assert card.text.count("## Trained on") == 1
    kept = {"license": "mit", "language": "en", "tags": ["videopro", "sft", "mine"], "base_model": QWEN}
    assert card.data.to_dict().items() >= kept.items()

    # Without a mark, nobody can tell what is whose.
    broken = edited.replace("<!-- videopro: end of that part -->", "")
    repository.commit({**repository.files, "README.md": broken.encode()})
    assert push([str(folder), "mina/planner"]) == 2
    assert repository.files["README.md"].decode() == broken


def test_a_card_that_was_there_before_is_continued(hub: Hub, tmp_path: Path) -> None:
    text = "---\nlicense: mit\n---\n# By hand\n"
    hub.add("model", "mina/planner", {"README.md": text.encode()}, private=True)
    assert push([str(adapter(tmp_path / "sft")), "mina/planner"]) == 0
    card = card_of(hub)
    assert card.text.startswith("# By hand\n")
    assert "## Trained on" in card.text
    assert card.data.license == "mit"


def test_results_are_those_of_runs_with_this_model(
    hub: Hub, tmp_path: Path, run: Path, refused: Refused
) -> None:
    folder = adapter(tmp_path / "sft", base=QWEN)
    flags = [str(folder), "mina/planner", "--results", str(run)]
    assert f"--results {run}: was made with another adapter" in refused(push, *flags)
    assert hub.requests == []
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["identity"]["model"] = {"kind": "qwen", "adapter": folder_fingerprint(folder)}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert push(flags) == 0
    card = card_of(hub)
    # The colours of both readable videos are answered right; the third question has no video.
    (accuracy,) = [each for each in card.data.eval_results if each.metric_type == "accuracy"]
    found = (accuracy.dataset_type, accuracy.dataset_split, accuracy.metric_value)
    assert found == ("longvideobench", "val", 100.0)
    assert "| all | 2 | 2 | 100.0 |" in card.text
    assert "- no benchmark other than longvideobench val" in card.text
    assert "ended in an error: 1 VideoError" in card.text
    assert push(flags[:2]) == 0
    assert card_of(hub).data.eval_results is None


def test_a_stopped_push_sends_the_rest(hub: Hub, tmp_path: Path, refused: Refused) -> None:
    folder = planner(tmp_path / "merged")
    second = hashlib.sha256((folder / "model-00002-of-00002.safetensors").read_bytes()).hexdigest()
    hub.refused = f"PUT /large/{second}"
    assert "re-run the same command" in refused(push, folder, "mina/planner")
    assert len(hub.large) == 1
    assert set(files_of(hub)) == {".gitattributes"}
    hub.refused = None
    hub.requests.clear()
    assert push([str(folder), "mina/planner"]) == 0
    assert [request for request in hub.requests if request.startswith("PUT")] == [f"PUT /large/{second}"]
    assert "model-00002-of-00002.safetensors" in files_of(hub)


# ---- datasets and runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("xet", [False, True], ids=["one commit", "the client's pipeline"])
def test_a_dataset_finds_its_videos_on_another_machine(
    hub: Hub, tmp_path: Path, xet: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", not xet)
    shared = tmp_path / "videos"
    folder = dataset(tmp_path / "synth", shared)
    assert push([str(folder), "mina/programs"]) == 0
    repository = hub.repositories["dataset", "mina/programs"]
    for name, content in repository.files.items():
        assert str(tmp_path).encode() not in content, name
        assert b"gpu17" not in content, name
    assert repository.files["held_out.jsonl"] == b"{}\n"
    videos = [json.loads(line)["video"] for line in repository.files["grpo.jsonl"].splitlines()]
    assert videos == ["videos/a.mp4", "videos/long/b.mp4"]
    for name in ("sft.jsonl", "grpo.jsonl"):
        digest = hashlib.sha256(repository.files[name]).hexdigest()
        assert json.loads(repository.files["card.json"])["sha256"][name] == digest
        assert digest in repository.files["CARD.md"].decode()
    card = repository.files["README.md"].decode()
    assert yaml.safe_load(card.split("---")[1])["configs"] == [
        {"config_name": "sft", "data_files": "sft.jsonl", "default": True},
        {"config_name": "grpo", "data_files": "grpo.jsonl", "default": False},
    ]
    assert "- questions not asked: 3 no known answer" in card

    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "long").mkdir(parents=True)
    make_video(elsewhere / "a.mp4", "red", 0.5)
    (elsewhere / "a.srt").write_text("")
    capsys.readouterr()
    pulled = tmp_path / "pulled"
    assert pull(["mina/programs", str(pulled), "--videos", str(elsewhere)]) == 0
    out, err = capsys.readouterr()
    assert f"1 of 3 videos and subtitles are missing in {pulled / 'videos'}, such as long/b.mp4" in err
    assert f"videopro grpo --model_name_or_path MODEL --train_data {pulled / 'grpo.jsonl'}" in out
    rows = read_grpo_rows(pulled / "grpo.jsonl").rows
    assert rows[0].video.samefile(elsewhere / "a.mp4")
    # What was pulled is pushed as it is.
    assert push([str(pulled), "mina/again"]) == 0
    again = hub.repositories["dataset", "mina/again"].files
    assert again["grpo.jsonl"] == repository.files["grpo.jsonl"]


def test_a_run_is_viewed_where_it_was_pulled_to(
    hub: Hub, tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push([str(run), "mina/answers"]) == 0
    files = hub.repositories["dataset", "mina/answers"].files
    assert set(files) == {".gitattributes", "README.md", "config.yaml", "summary.json", "traces.jsonl"}
    assert not any(str(tmp_path).encode() in content for content in files.values())
    assert "| all | 2 | 2 | 100.0 |" in files["README.md"].decode()
    assert "- ended in an error: 1 VideoError" in files["README.md"].decode()
    pulled = tmp_path / "pulled"
    assert pull(["mina/answers", str(pulled), "--videos", str(tmp_path / "lvb")]) == 0
    first, other = RunFolder(pulled).read(), RunFolder(run).read()
    assert {Path(trace.video.path).name for trace in first} == {"vid1.mp4", "vid2.mp4", "vid3.mp4"}
    assert [trace.final for trace in first] == [trace.final for trace in other]
    capsys.readouterr()
    assert view([str(pulled)]) == 0
    # A sheet of pictures of each video that is there.
    assert len(list((pulled / "view" / "pictures").glob("*.jpg"))) == 2


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        # Folders that the videos share are this machine's; those below are the dataset's.
        (["/ssd/mlvu/video/1/a.mp4", "/ssd/mlvu/video/2/b.mp4"], ["videos/1/a.mp4", "videos/2/b.mp4"]),
        (["/ssd/größe/a.mp4"], ["videos/a.mp4"]),
        # Nothing but the root in common: no folder's name goes up.
        (["/ssd1/mina/a.mp4", "/ssd2/omar/b.mp4"], ["videos/a.mp4", "videos/b.mp4"]),
        (["/ssd1/mina/a.mp4", "/ssd2/omar/a.mp4"], ["videos/0/a.mp4", "videos/1/a.mp4"]),
    ],
)
def test_names_of_videos(paths: list[str], shown: list[str]) -> None:
    names = video_folders(paths)
    for escaped in (True, False):
        line = json.dumps({"videos": paths, "log": f"{paths[0]}: no such file"}, ensure_ascii=escaped)
        row = json.loads(portable(line, names))
        assert row == {"videos": shown, "log": f"{shown[0]}: no such file"}


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ('File "/home/mina/video-lm/train/sft.py", line 3', 'File "sft.py", line 3'),
        ("server:qwen@http://gpu17:8000/v1", "server:qwen@http://localhost:8000/v1"),
        ("http://10.0.0.7:8000 http://[fd00::7]/v1", "http://localhost:8000 http://localhost/v1"),
        ("https://api.openai.com/v1 http://127.0.0.1:8000", ""),
        ("1/2 of /r/AskReddit and/or https://a.org/home/x/y", ""),
    ],
)
def test_texts_without_their_machine(text: str, public: str) -> None:
    """Empty: they stay as they are."""
    assert portable(text, {}) == (public or text)


_SECRETS = [
    ("hf_" + "Zz9" * 11, "a hub token"),
    ("sk-proj-" + "a1B2" * 6, "an API key"),
    ("http://mina:pa55word@gpu17:8000/v1", "an address with a password"),
    ("correct-horse-battery", "the value of ACME_API_KEY"),
    ("'Authorization': 'Bearer 0123456789'", "an Authorization header"),
]


@pytest.mark.parametrize(
    ("line", "kind", "secret"),
    [
        *((json.dumps({"prompt": f"asked with {secret}"}), kind, secret) for secret, kind in _SECRETS),
        *((line, "", "no secret") for line in ("not json", "[1]", '{"id": 1')),
    ],
)
def test_neither_secrets_nor_rows_that_nobody_could_read_go_up(
    hub: Hub,
    tmp_path: Path,
    line: str,
    kind: str,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    refused: Refused,
) -> None:
    monkeypatch.setenv("ACME_API_KEY", "correct-horse-battery")
    folder = dataset(tmp_path / "synth", tmp_path / "videos")
    with (folder / "grpo.jsonl").open("a") as file:
        file.write(f"{line}\n\n")
    error = refused(push, folder, "mina/programs")
    assert f"{folder / 'grpo.jsonl'}, line 3: {kind}" in error
    assert secret not in error
    assert hub.requests == []


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        (["adapter_model.safetensors"], "adapter_model.safetensors is missing"),
        (["videopro.json", "training_record.json"], "has no videopro.json or training_record.json"),
        ([], "is public, so anyone"),
    ],
)
def test_what_is_not_pushed(
    hub: Hub, tmp_path: Path, lacking: list[str], named: str, refused: Refused
) -> None:
    folder = adapter(tmp_path / "sft")
    for name in lacking:
        (folder / name).unlink()
    repository = hub.add("model", "mina/planner", {"a": b""}, private=bool(lacking))
    assert named in refused(push, folder, "mina/planner")
    assert len(repository.commits) == 1


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("HF_HUB_OFFLINE", True, "HF_HUB_OFFLINE is set"),
        ("ENDPOINT", "http://127.0.0.1:9", "mina/planner: 127.0.0.1:9: "),
        ("HF_TOKEN", "", "no hub token found"),
        ("HF_TOKEN", "hf_" + "x" * 30, "the hub rejected the token"),
    ],
)
def test_without_the_hub(
    hub: Hub,
    tmp_path: Path,
    name: str,
    value: Any,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    refused: Refused,
) -> None:
    if name == "HF_TOKEN":
        monkeypatch.setenv(name, value)
    else:
        monkeypatch.setattr(constants, name, value)
    assert named in refused(push, adapter(tmp_path / "sft"), "mina/planner")


# ---- pull --------------------------------------------------------------------------------------------------


@pytest.fixture
def pushed(hub: Hub, tmp_path: Path) -> None:
    assert push([str(adapter(tmp_path / "sft", base=QWEN)), "mina/planner"]) == 0


def test_an_older_revision(hub: Hub, pushed: None, tmp_path: Path) -> None:
    repository = hub.repositories["model", "mina/planner"]
    commit = repository.head
    repository.commit({**repository.files, "README.md": b"newer"})
    assert pull([f"mina/planner@{commit}", str(tmp_path / "old")]) == 0
    assert (tmp_path / "old" / "README.md").read_text() != "newer"
    # The same folder takes the newer one.
    assert pull(["mina/planner", str(tmp_path / "old")]) == 0
    assert (tmp_path / "old" / "README.md").read_text() == "newer"


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("mina/other", "mina/other does not exist on the hub or is private"),
        ("mina/planner@v9", "mina/planner has no revision 'v9'"),
        ("mina/gated", "mina/gated is gated"),
        ("mina/both", "a model and a dataset mina/both; set --repo-type"),
        ("mina/text", "is not an adapter (adapter_config.json), planner"),
        ("mina/planner", "mina/planner does not exist on the hub or is private"),
    ],
)
def test_what_is_not_pulled(
    hub: Hub,
    pushed: None,
    tmp_path: Path,
    name: str,
    named: str,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planner: private, and asked for without a token."""
    hub.add("model", "mina/gated", {"config.json": b"{}"})
    hub.gated.add("mina/gated")
    for kind in ("model", "dataset"):
        hub.add(kind, "mina/both", {"config.json": b"{}"})
    hub.add("model", "mina/text", {"README.md": b"nothing else"})
    if name == "mina/planner":
        monkeypatch.delenv("HF_TOKEN")
    assert named in refused(pull, name, tmp_path / "pulled")


def test_a_damaged_file_is_named(hub: Hub, pushed: None, tmp_path: Path, refused: Refused) -> None:
    content = files_of(hub)["adapter_model.safetensors"]
    hub.damage["adapter_model.safetensors"] = content[:-1] + bytes([content[-1] ^ 1])
    error = refused(pull, "mina/planner", tmp_path / "pulled")
    assert "differs from mina/planner: adapter_model.safetensors; delete" in error


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("traces.jsonl", b'{"schema": 999}\n', "written by a later version of videopro (schema 999;"),
        ("videopro.json", b'{"frames": 4, "colours": 3}', "colours: Unexpected keyword argument"),
    ],
)
def test_what_this_version_cannot_read(
    hub: Hub, tmp_path: Path, run: Path, name: str, content: bytes, named: str, refused: Refused
) -> None:
    folder = run if name == "traces.jsonl" else adapter(tmp_path / "sft")
    assert push([str(folder), "mina/new"]) == 0
    repository = next(iter(hub.repositories.values()))
    repository.commit({**repository.files, name: content})
    assert named in refused(pull, "mina/new", tmp_path / "pulled")
