"""The interfaces of embedding models: `VideoTextEncoder` for clips and texts, `TextEncoder` for texts only;
the precisions in which they compute, and where their checkpoints are. Imports no model library.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videopro.backbones import folder_fingerprint
from videopro.errors import ConfigError, acquired, check_cancelled
from videopro.modules.errors import ModelError
from videopro.modules.models.hub import device_of
from videopro.video import pad_picture, uniform_times

if TYPE_CHECKING:
    import torch

    from videopro.video import Frame

BATCH_SIZE = 16
"""Clips or texts per forward pass."""


class StagedClips(list[Sequence["Frame"]]):
    """Clips whose pixels are ready to be copied to an encoder's device."""

    def __init__(self, clips: Sequence[Sequence[Frame]], pixels: torch.Tensor) -> None:
        super().__init__(clips)
        self.pixels = pixels


class VideoTextEncoder(ABC):
    """Embeds clips and texts in one space, where the cosine is their similarity.

    Embeddings are float32 unit rows. Most encoders give a clip one row, and the similarity is the dot
    product. An encoder that pools a clip by the text gives it several (`clip_shape`) and overrides
    `similarities`. Thread-safe: calls run one at a time.
    """

    name: str
    """The `spec` given to `load_encoder`."""
    clip_frames: int
    """Frames per clip."""
    in_flight = 1
    """Batches of `encode_stream` that are given to the device before the first of them is waited for."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Fast tokenizers cannot be used by two threads at once.
        self._lock = threading.Lock()

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What embeddings depend on (kind, weights' fingerprint, frames, precision), as JSON-serializable
        data."""

    @cached_property
    def width(self) -> int:
        """d, the length of an embedding."""
        return int(self.encode_texts(["0"]).shape[1])

    @property
    def clip_shape(self) -> tuple[int, ...]:
        """The shape of a clip's embedding: (d,), or (rows, d) if it has several rows."""
        return (self.width,)

    @abstractmethod
    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) in pixels to which frames of a (height, width) video are decoded."""

    @abstractmethod
    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        """(n, *clip_shape) embeddings, not normalized, of at most `BATCH_SIZE` clips of (height, width, 3)
        uint8 pictures."""

    @abstractmethod
    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) embeddings, not normalized, of at most `BATCH_SIZE` texts."""

    def stage_clips(self, clips: Sequence[Sequence[Frame]]) -> Sequence[Sequence[Frame]]:
        """The same clips for `encode_clips`, with what can be done on another thread while the device works
        on earlier ones."""
        return clips

    def _embed_pixels(self, pixels: torch.Tensor) -> torch.Tensor:
        """As `_embed_clips`, of pixels that `stage_clips` made."""
        raise NotImplementedError

    def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        """(n, *clip_shape) embeddings of n clips, each of `clip_frames` frames sorted by time, all of one
        size; frames of an odd shape get a margin (`videopro.video.shapes`). Raises ValueError for no clips or
        another number of frames."""
        return self._begin_clips(clips)()

    def encode_stream(self, batches: Iterable[Sequence[Sequence[Frame]]]) -> Iterator[np.ndarray]:
        """`encode_clips` of each batch, in order. A device that works by itself has the next batch before
        the caller gets the rows of the one before, so that it does not wait for what is done with them."""
        if self.in_flight == 1:
            yield from map(self.encode_clips, batches)
            return
        begun: deque[Callable[[], np.ndarray]] = deque()
        for clips in batches:
            begun.append(self._begin_clips(clips))
            if len(begun) == self.in_flight:
                yield begun.popleft()()
        yield from (wait() for wait in begun)

    def _begin_clips(self, clips: Sequence[Sequence[Frame]]) -> Callable[[], np.ndarray]:
        """Give clips to the device. Returns what waits for their rows."""
        for frames in clips:
            if len(frames) != self.clip_frames:
                raise ValueError(
                    f"{self.name}: the clip has {len(frames)} frames, but this encoder takes "
                    f"{self.clip_frames}"
                )
        if isinstance(clips, StagedClips):
            return self._begin(self._embed_pixels, clips.pixels, BATCH_SIZE)
        pictures = [[pad_picture(frame.image) for frame in frames] for frames in clips]
        # Before an encoder cuts out its square, a picture with a margin takes many times that memory.
        is_odd = any(
            picture is not frame.image
            for frames, padded in zip(clips, pictures, strict=True)
            for frame, picture in zip(frames, padded, strict=True)
        )
        return self._begin(self._embed_clips, pictures, 1 if is_odd else BATCH_SIZE)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) embeddings of n texts, truncated to the model's maximum length. Raises ValueError if there
        are none."""
        return self._begin(self._embed_texts, texts, BATCH_SIZE)()

    def similarities(self, texts: np.ndarray, clips: np.ndarray) -> np.ndarray:
        """(n_texts, n_clips) float32 cosine similarities of (n_texts, d) embeddings of texts with
        (n_clips, *clip_shape) embeddings of clips."""
        scores: np.ndarray = texts @ clips.T
        return scores

    def score_clips(self, texts: Sequence[str], clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        """(n_texts, n_clips) float32 cosine similarities of texts with clips, each of `clip_frames` frames at
        the `clip_times` of its span. Raises ValueError as `encode_texts` and `encode_clips` do.

        To search the same clips again, keep their embeddings and call `similarities`.
        """
        return self.similarities(self.encode_texts(texts), self.encode_clips(clips))

    def for_frames(self) -> VideoTextEncoder:
        """This encoder with clips of one frame, if it embeds frames one by one; else itself, whose shortest
        clips still have `clip_frames` frames."""
        return self

    def clip_times(self, start: float, end: float) -> list[float]:
        """Seconds at which a clip's frames are taken: the midpoints of `clip_frames` equal parts."""
        return uniform_times(start, end, self.clip_frames)

    def _begin(
        self, embed: Callable[[Any], torch.Tensor], items: Sequence[Any] | torch.Tensor, batch: int
    ) -> Callable[[], np.ndarray]:
        import torch
        from torch.nn.functional import normalize

        if len(items) == 0:
            raise ValueError(f"{self.name}: nothing to embed")
        rows: list[torch.Tensor] = []
        with acquired(self._lock), torch.inference_mode():
            for at in range(0, len(items), batch):
                check_cancelled()
                rows.append(embed(items[at : at + batch]))
            # In float32, whatever the encoder computes in: half precision is too coarse for unit length.
            vectors = normalize(torch.cat(rows).float(), dim=-1)
            if not vectors.is_cuda:
                return vectors.cpu().numpy
            # Copied behind its own batch: a later copy would wait for the batches that follow, too.
            here, is_there = vectors.to("cpu", non_blocking=True), torch.cuda.Event()
            is_there.record()

        def wait() -> np.ndarray:
            is_there.synchronize()
            return here.numpy()

        return wait


class CheckpointEncoder(VideoTextEncoder):
    """An encoder that is one checkpoint, in a folder or on the hub."""

    def __init__(self, kind: str, source: str, name: str, device: str | None, dtype: str) -> None:
        """`kind`: what its identity says that it is. Raises ModelError for a source that is neither."""
        super().__init__(name or f"{kind}:{source}")
        self._kind, self._device, self._dtype = kind, device_of(device), dtype
        self._folder = checkpoint_folder(source)
        if self._device.startswith("cuda"):
            self.in_flight = 2

    def _check_kind(self, model: Any, kinds: Sequence[str]) -> None:
        """Raise ModelError if the loaded model is not one of these kinds of transformers."""
        if model.config.model_type not in kinds:
            raise ModelError(
                f"{self.name}: {self._folder} contains a {model.config.model_type!r} model, not one for "
                f"{self._kind!r}"
            )

    def _place(self, model: Any) -> None:
        """Put the loaded model where it computes."""
        import torch

        model.to(self._device, getattr(torch, self._dtype)).eval()
        # Of what was loaded just now: a later command may overwrite the folder.
        self._fingerprint = folder_fingerprint(self._folder)

    def identity(self) -> dict[str, object]:
        return {
            "encoder": self._kind,
            "weights": self._fingerprint,
            "frames": self.clip_frames,
            "dtype": self._dtype,
        }


class TextEncoder(ABC):
    """Embeds texts and queries in one space, as float32 unit rows. Thread-safe."""

    name: str

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What embeddings depend on, as JSON-serializable data."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) embeddings of n texts to search in."""

    @abstractmethod
    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """(n, d) embeddings of n queries, with the model's query prompt if it has one."""


def short_side(height: int, width: int, side: int) -> tuple[int, int]:
    """(height, width) scaled so that the shorter side is `side` pixels; the other is rounded down."""
    if width < height:
        return int(height / width * side), side
    return side, int(width / height * side)


DTYPES = ("float32", "bfloat16", "float16")
"""The precisions in which encoders compute."""
AUTO_DTYPE = "auto"
"""The setting that leaves the precision to the machine."""
# Names in /dev of what PyTorch's GPUs are reached through (NVIDIA, its boards, Windows' subsystem, AMD).
_DEVICE_FILES = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")


def check_dtype(setting: str, dtype: str) -> None:
    """Raise ConfigError, naming the `setting`, for a precision that encoders do not have."""
    if dtype not in (AUTO_DTYPE, *DTYPES):
        raise ConfigError(
            f"{setting} is {dtype!r}; it must be {', '.join((AUTO_DTYPE, *DTYPES[:-1]))} or {DTYPES[-1]}"
        )


def resolve_dtype(dtype: str, device: str | None = None) -> str:
    """The precision, or what "auto" stands for on `device` (None: the machine's first GPU, if it has one):
    bfloat16 on a GPU, where float32 takes several times as long, and float32 on a CPU."""
    if dtype != AUTO_DTYPE:
        return dtype
    is_gpu = _has_gpu() if device is None else device.startswith("cuda")
    return "bfloat16" if is_gpu else "float32"


def _has_gpu() -> bool:
    # Commands ask before their workers start. To import PyTorch would take longer than all else that they do.
    if not any(True for name in _DEVICE_FILES for _ in Path("/dev").glob(name)):
        return False
    import torch

    # Unlike `is_available`, it does not open the device, after which no forked process could.
    return torch.cuda.device_count() > 0


_ALWAYS = ("*.json", "*.txt", "*.model")


def checkpoint_folder(source: str) -> Path:
    """The local directory of a checkpoint. `source`: a directory or a hub name; ModelError if it is neither.

    Only one format of the weights is downloaded: safetensors if there are any, else PyTorch's.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        # Repositories hold the same weights in up to four formats, of gigabytes each.
        folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "*.safetensors"]))
        if not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(source, allow_patterns=[*_ALWAYS, "pytorch_model*.bin"]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0][:300]
        raise ModelError(
            f"{source!r} is neither a directory nor a checkpoint that can be downloaded ({reason}); pass the "
            "directory of a checkpoint, or its hub name"
        ) from error
    return folder
