"""Trains the pocket encoder from scratch on two cores: LanguageBind_Video's architecture at pocket size.

A contrastive loss in both directions aligns clips and texts. Every clip of a batch that fits a text counts as
a positive, weighted by the share of its frames that fit. Writes `log.jsonl` and `model/`, the folder shipped
as `videopro/pocket/encoder`: bf16 weights, the tokenizer, and `training_record.json` with recall@3 on val and
test: how often the encoder finds the clip with a question's evidence, the question itself being the query.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from videopro.cli import counted
from videopro.modules.models.encoders import load_encoder
from videopro.modules.models.encoders.languagebind import to_pixels
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.modules.search import build_index
from videopro.pocket import world
from videopro.pocket.vocabulary import PHRASINGS
from videopro.traces.scoring import clustered_interval
from videopro.train.pocket.architecture import build_tokenizer, mixed_precision
from videopro.train.pocket.frames import HELD_OUT
from videopro.train.retrieval.training import RetrieverRecipe, append_log, contrastive_loss, train
from videopro.video import Video

CLIP_SECONDS = 10.0
# The share of clips that show the end of one scene and the beginning of another.
_CUT = 0.4

# The kinds of questions that name something visible, and the facts that they name besides the place.
_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "shape": ("actor",),
    "color": ("shape",),
    "move": ("shape",),
    "after": (),
    "before": (),
    "count": (),
    "sign": ("sign",),
}
# Queries as programs write them, and the facts that they name besides the place.
_QUERIES: Mapping[str, tuple[str, ...]] = {
    "{place}": (),
    "the {place}": (),
    "at the {place}": (),
    "a scene at the {place}": (),
    "the scene before and after the {place}": (),
    "{shape} at the {place}": ("shape",),
    "the {shape} at the {place}": ("shape",),
    "what the {shape} at the {place} does": ("shape",),
    "a {color} {shape} at the {place}": ("shape", "color"),
    "something at the {place}": ("actor",),
    "the sign at the {place}": ("sign",),
    "{place} sign": ("sign",),
}
_PLACELESS: Mapping[str, tuple[str, ...]] = {
    "{shape}": ("shape",),
    "the {shape}": ("shape",),
    "a {color} {shape}": ("shape", "color"),
    "the {color} {shape}": ("shape", "color"),
    "a sign": ("sign",),
    "the sign": ("sign",),
}
# The probabilities that a text is a question of the world, a query with a place, and one without.
_KINDS = (0.5, 0.4, 0.1)


def retriever_tokenizer() -> PreTrainedTokenizerFast:
    """The pocket model's tokenizer, which appends the end token, at which the embedding is taken."""
    tokenizer = build_tokenizer()
    tokenizer.chat_template = None
    end = str(tokenizer.eos_token)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, int(tokenizer.eos_token_id))]
    )
    return tokenizer


@dataclass(frozen=True)
class QueryText:
    """A text to search for, and the facts that a scene must have to fit it."""

    text: str
    needs: tuple[tuple[str, str | None], ...]
    """(fact, value); None: the fact must have some value."""

    def fits(self, attributes: Mapping[str, str | None]) -> bool:
        """Whether a scene with these facts fits the text."""
        return all(
            attributes[name] is not None and (value is None or attributes[name] == value)
            for name, value in self.needs
        )


def flatten_scene(scene: Mapping[str, Any]) -> dict[str, str | None]:
    """A scene's facts under the names that `QueryText.needs` uses."""
    actor = scene["actor"] or {}
    return {
        "place": scene["place"],
        "sign": scene["sign"],
        "actor": actor.get("shape"),
        "shape": actor.get("shape"),
        "color": actor.get("color"),
    }


def text_about(attributes: Mapping[str, str | None], rng: np.random.Generator) -> QueryText:
    """A text that fits a scene."""

    def possible(forms: Mapping[str, tuple[str, ...]]) -> list[str]:
        return [form for form, needs in forms.items() if all(attributes[need] is not None for need in needs)]

    kind = rng.choice(3, p=_KINDS)
    # A scene with neither actor nor sign has nothing to name but its place.
    if kind == 2 and not possible(_PLACELESS):
        kind = 1
    forms = (_QUESTIONS, _QUERIES, _PLACELESS)[kind]
    form = str(rng.choice(possible(forms)))
    needs = [(need, None if need in ("sign", "actor") else attributes[need]) for need in forms[form]]
    if kind < 2:
        needs.append(("place", attributes["place"]))
    phrase = str(rng.choice(PHRASINGS[form]["usual"])) if kind == 0 else form
    return QueryText(
        phrase.format(**{name: value for name, value in attributes.items() if value}), tuple(needs)
    )


@dataclass
class ClipTextBatch:
    """n clips and n texts, the i-th text about the i-th clip."""

    frames: np.ndarray
    """(n, clip_frames, height, width, 3) uint8."""
    texts: list[str]
    fit: np.ndarray
    """(n texts, n clips) float32: the share of a clip's frames that a text fits, 0 to 1."""


class ClipTextPairs:
    """Batches from a pool; the i-th batch is a pure function of (seed, i)."""

    def __init__(self, pool: Path, clip_frames: int, part: slice = slice(None)) -> None:
        """`part`: the scenes of the pool to use."""
        self.scenes = np.load(pool / "scenes.npy", mmap_mode="r")[part]
        annotations = json.loads((pool / "scenes.json").read_text())[part]
        self.seconds = [float(annotation["seconds"]) for annotation in annotations]
        self.attributes = [flatten_scene(annotation) for annotation in annotations]
        self.clip_frames = clip_frames

    def batch(self, size: int, seed: Sequence[int]) -> ClipTextBatch:
        """`size` clips and as many texts."""
        rng = np.random.default_rng(list(seed))
        clips, scenes_of_clips, texts = [], [], []
        for _ in range(size):
            frames, scenes = self._clip(rng)
            clips.append(frames)
            scenes_of_clips.append(scenes)
            texts.append(text_about(self.attributes[int(rng.choice(scenes))], rng))
        fit = [
            [
                float(np.mean([text.fits(self.attributes[scene]) for scene in scenes]))
                for scenes in scenes_of_clips
            ]
            for text in texts
        ]
        return ClipTextBatch(np.stack(clips), [text.text for text in texts], np.array(fit, dtype=np.float32))

    def _clip(self, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
        """The frames of a 10 s clip, and the scene of each."""
        first = second = int(rng.integers(len(self.attributes)))
        cut = self.clip_frames
        if rng.random() < _CUT:
            cut = int(rng.integers(1, self.clip_frames))
            # No place of the world follows itself.
            while self.attributes[second]["place"] == self.attributes[first]["place"]:
                second = int(rng.integers(len(self.attributes)))
        step = CLIP_SECONDS / self.clip_frames
        frames = []
        for scene, count, at_end in (
            (first, cut, cut < self.clip_frames),
            (second, self.clip_frames - cut, False),
        ):
            if not count:
                continue
            seconds, room = self.seconds[scene], max(0.0, self.seconds[scene] - count * step)
            # As around a real cut: the end of the first scene, and the beginning of the second.
            start = room if at_end else 0.0 if scene is not first else float(rng.uniform(0, room))
            # Just inside the scene: at its very end, the index would be one too many.
            times = [min(start + (k + 0.5) * step, seconds - 1e-6) for k in range(count)]
            frames += [self.scenes[scene][int(t / seconds * self.scenes.shape[1])] for t in times]
        return np.stack(frames), [first] * cut + [second] * (self.clip_frames - cut)


TOP = 3
# The families that clip retrieval should serve: the evidence is visible, in a part of the video, and the
# question names what to look for. For the others it is the whole video, or what the narrator says.
SERVED = ("attribute", "action", "order", "count", "sign")


def evidence_clips(clips: Sequence[tuple[float, float]], evidence: Sequence[Sequence[float]]) -> list[int]:
    """The indices of the clips that have the evidence, as defined above."""
    shared = [
        sum(max(0.0, min(end, to) - max(start, since)) for since, to in evidence) for start, end in clips
    ]
    indices = [i for i, (start, end) in enumerate(clips) if shared[i] >= (end - start) / 2]
    return indices or [max(range(len(clips)), key=shared.__getitem__)]


def recall(encoder: str, split: str, root: Path) -> dict[str, object]:
    """recall@3 by family, and over all families that retrieval serves, with 95 % intervals clustered by
    video.

    `encoder`: as in `load_encoder`. `root`: folder for the indexes.
    """
    model = load_encoder(encoder, "cpu")
    # The questions first: of the videos, only those that they name are made.
    folder = world.ensure(split, videos=())
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    by_video: dict[str, list[dict]] = defaultdict(list)
    for question in questions:
        if question["family"] in SERVED:
            by_video[question["video"]].append(question)
    world.ensure(split, videos={Path(name).stem for name in by_video})
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for name in counted(list(by_video), f"recall on {split}"):
        index = build_index(Video.open(folder / name), model, root=root)
        for question in by_video[name]:
            retrieved = {number for number, _ in index.search(question["question"], TOP)}
            # One clip of the evidence is enough: a program looks at what it finds.
            hit = not retrieved.isdisjoint(evidence_clips(index.clips, question["evidence"]))
            for group in (question["family"], "all", f"all, {question['length']}"):
                hits[group][name].append(hit)
    figures: dict[str, object] = {}
    for group, outcomes in sorted(hits.items()):
        every = [hit for video_hits in outcomes.values() for hit in video_hits]
        low, high = clustered_interval(outcomes)
        figures[group] = {
            "recall": round(sum(every) / len(every), 4),
            "ci95": [round(low, 4), round(high, 4)],
            "questions": len(every),
        }
    return figures


RECIPE = RetrieverRecipe()
MAX_BYTES = 4_000_000


def pocket_config(vocabulary: int) -> dict[str, object]:
    """config.json of the pocket encoder: 1.5 M weights, 4 frames of 96x96 per clip."""
    shared = {"num_attention_heads": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "projection_dim": 96}
    return {
        "model_type": "LanguageBindVideo",
        "projection_dim": 96,
        "vision_config": {
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "image_size": 96,
            "patch_size": 16,
            "num_frames": 4,
            "add_time_attn": True,
            **shared,
        },
        "text_config": {
            "vocab_size": -(-vocabulary // 64) * 64,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "max_position_embeddings": 64,
            **shared,
        },
    }


def new_model(config: LanguageBindConfig, seed: int) -> LanguageBindVideo:
    """A model with untrained weights."""
    torch.manual_seed(seed)
    model = LanguageBindVideo(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("_embedding.weight", "class_embedding", "temporal_embedding")):
                # The 768 values of a patch are mostly equal.
                weight.normal_(0.0, 0.02 if "patch" in name else config.vision.hidden_size**-0.5)
            elif weight.ndim == 2:
                last = name.endswith(("out_proj.weight", "fc2.weight"))
                # Two residual branches in each of four layers: their sum stays at the size of one.
                weight.normal_(0.0, (weight.shape[1] * (8 if last else 1)) ** -0.5)
    return model


def loss_of(model: LanguageBindVideo, batch: ClipTextBatch, tokenizer: object) -> torch.Tensor:
    """The contrastive loss of a batch."""
    assert callable(tokenizer)
    side = model.config.vision.image_size
    pixels = torch.stack([to_pixels(list(frames), side) for frames in batch.frames])
    tokens = tokenizer(batch.texts, padding=True, return_tensors="pt")
    with mixed_precision():
        clips = model.encode_video(pixels)
        texts = model.encode_text(tokens.input_ids, tokens.attention_mask)
    scores = model.logit_scale.exp().clamp(max=100.0) * texts.float() @ clips.float().T
    return contrastive_loss(scores, torch.from_numpy(batch.fit))


@torch.no_grad()
def held_out(
    model: LanguageBindVideo, pairs: ClipTextPairs, tokenizer: object, batches: int = 4
) -> dict[str, float]:
    """The loss on held-out scenes, and how often the clip that scores highest for a text fits it."""
    assert callable(tokenizer)
    model.eval()
    losses, hits = [], []
    for number in range(batches):
        # The same batches at each measurement.
        batch = pairs.batch(64, (777, number))
        losses.append(float(loss_of(model, batch, tokenizer)))
        side = model.config.vision.image_size
        clips = model.encode_video(torch.stack([to_pixels(list(f), side) for f in batch.frames]))
        tokens = tokenizer(batch.texts, padding=True, return_tensors="pt")
        best = (model.encode_text(tokens.input_ids, tokens.attention_mask) @ clips.T).argmax(1).numpy()
        hits += (batch.fit[np.arange(len(best)), best] > 0).tolist()
    model.train()
    return {"loss": round(float(np.mean(losses)), 4), "top1": round(float(np.mean(hits)), 4)}


def write(
    model: LanguageBindVideo, config: dict[str, object], folder: Path, record: dict[str, object]
) -> None:
    """Write the folder that `load_encoder` loads. Raises RuntimeError if it is too large to ship."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    retriever_tokenizer().save_pretrained(folder)
    (folder / "training_record.json").write_text(json.dumps(record, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MAX_BYTES:
        raise RuntimeError(f"{folder} has {size} bytes; at most {MAX_BYTES} are shipped")


def train_encoder(
    frames: Path,
    output: Path,
    recipe: RetrieverRecipe = RECIPE,
    splits: Sequence[str] = ("val", "test"),
) -> None:
    """Train on a pool of frames, measure recall on the splits, and write the encoder. Resumes from the last
    state."""
    torch.set_num_threads(2)
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = retriever_tokenizer()
    plain = pocket_config(len(tokenizer))
    config = LanguageBindConfig.read(plain)
    model = new_model(config, recipe.seed)
    pairs = ClipTextPairs(frames, config.vision.num_frames, slice(None, -HELD_OUT))
    unseen = ClipTextPairs(frames, config.vision.num_frames, slice(-HELD_OUT, None))
    seconds = train(
        model,
        recipe,
        output,
        lambda step: loss_of(model, pairs.batch(recipe.batch, (recipe.seed, step)), tokenizer),
        lambda: held_out(model, unseen, tokenizer),
    )
    record: dict[str, object] = {
        "recipe": asdict(recipe),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "pool": {"scenes": len(pairs.attributes), "held_out": len(unseen.attributes)},
        "seconds": round(seconds),
        "held_out": held_out(model, unseen, tokenizer),
    }
    write(model, plain, output / "model", record)
    for split in splits:
        record[f"recall@3 {split}"] = recall(f"languagebind:{output / 'model'}", split, output / "index")
        append_log(output, {split: record[f"recall@3 {split}"]})
        write(model, plain, output / "model", record)
