"""Turns frames and prompts into the tensors of a Qwen vision-language model, with the model's own processor.

A prompt has two parts. The *head* runs from its first token to the end of the last visual part; the *tail* is
the rest: the question and the header of the reply. A head is encoded once per video and shared; head and tail
together equal, token for token, what the official processor gives for the whole prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as image_resize
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize as video_resize
from transformers.processing_utils import ProcessorMixin
from transformers.video_utils import VideoMetadata

from videopro.backbones.base import Interleaved, Stills
from videopro.backbones.texts import control_pattern, escape_control_tokens
from videopro.errors import BackboneError
from videopro.question import is_thinking
from videopro.video import pad_picture, padded_size, size_to_decode

if TYPE_CHECKING:
    from videopro.video import Frame

_SHORTEST_INTERVAL = 1e-3
"""Minimum seconds between two frames, for models that take one interval: frames may have equal times."""


@dataclass(frozen=True)
class EncodedPrompt:
    """Tokens of a prompt, or of a part of it, with its visual tensors."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    """The type of each token: 0 (text), 1 (image) or 2 (video)."""
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Any of `pixel_values`, `image_grid_thw`, `pixel_values_videos`, `video_grid_thw`."""
    intervals: tuple[float, ...] = ()
    """Qwen2.5-VL only: seconds between temporal patches, one per video."""
    features: Mapping[str, Any] = field(default_factory=dict)
    """The vision tower's output by `image` and `video`, if computed; it replaces the pixels in `tensors`. See
    `videopro.backbones.qwen.features`."""

    def append_text(self, tail: EncodedPrompt) -> EncodedPrompt:
        """This prompt followed by a text-only part."""
        return replace(self, ids=self.ids + tail.ids, types=self.types + tail.types)


class QwenInputs:
    """Encodes prompts with one processor. `frames` and `pixels` are the budgets of `BackboneConfig`; pixels
    are normalised and split into patches on `device`."""

    def __init__(self, processor: ProcessorMixin, *, frames: int, pixels: int, device: torch.device) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.frames = frames
        self.pixels = pixels
        self._device = device
        self._video = processor.video_processor
        # Qwen3-VL and newer write a time before every temporal patch and share one pixel budget among the
        # frames; Qwen2-VL and Qwen2.5-VL take one interval per video and one budget per frame.
        if isinstance(self._video, Qwen3VLVideoProcessor):
            self.has_times = True
        elif isinstance(self._video, Qwen2VLVideoProcessor):
            self.has_times = False
        else:
            raise BackboneError(
                f"the video processor {type(self._video).__name__} is not supported; use a Qwen2.5-VL, "
                "Qwen3-VL, Qwen3.5 or newer Qwen checkpoint of the same family"
            )
        self.patch: int = self._video.patch_size * self._video.merge_size
        """Side in pixels of the square that becomes one token."""
        # Transformers warns at every prompt if the template does not use the setting.
        template = str(processor.chat_template or processor.tokenizer.chat_template)
        self._thinking: dict[str, Any] = {"enable_thinking": False} if "enable_thinking" in template else {}
        self._ends = ("<|vision_end|>", "<|video_pad|>", "<|image_pad|>")
        for mark in self._ends:
            self.token_id(mark)

    # Tokens

    def token_id(self, token: str) -> int:
        """The id of a token. Raises `BackboneError` if it is not in the vocabulary."""
        token_index = self.tokenizer.get_vocab().get(token)
        if token_index is None:
            raise BackboneError(
                f"the tokenizer has no token {token!r}, so it is not a Qwen vision-language tokenizer"
            )
        return int(token_index)

    def visual_tokens(self) -> list[int]:
        """Ids of tokens that stand for pixels; a model must never generate them."""
        names = ("<|video_pad|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>")
        vocabulary = self.tokenizer.get_vocab()
        return sorted(vocabulary[name] for name in names if name in vocabulary)

    def reply_tokens(self, replies: Sequence[str]) -> dict[str, int]:
        """The id of each reply as a single token right after the header of the assistant's turn.

        Other tokens with the same letter (with a leading space, in another script) are other replies: only
        this one counts, because the model writes it when it answers with the letter alone. Raises
        `BackboneError` for a reply that is not a single token.
        """
        header = self.tail("", one_token=True)
        tokens = {}
        for reply in replies:
            ids = self.tail("", one_token=True, reply=reply).ids
            if ids[:-1] != header.ids:
                raise BackboneError(
                    f"the tokenizer does not encode {reply!r} as one token after the assistant's header, as "
                    "one-letter answers need"
                )
            tokens[reply] = ids[-1]
        return tokens

    # Text

    def render(self, messages: Sequence[Mapping[str, Any]], *, one_token: bool = False) -> str:
        """Chat messages as text, up to where the reply starts.

        Thinking is turned off (`enable_thinking`). If the template opens a thinking block anyway and a
        one-token reply is wanted, the block is closed at once.
        """
        text = self.processor.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            **self._thinking,
        )
        if one_token and text.endswith("<think>\n"):
            text += "\n</think>\n\n"
        return text

    @cached_property
    def opens_thoughts(self) -> bool:
        """Whether a prompt ends inside a thought, so that a reply begins there."""
        return is_thinking(self.render(_user([], "?")))

    def _last_mark(self, rendered: str) -> str:
        """The special token that ends the visual part of a rendered prompt.

        Some templates leave the markers around a video to the processor; then it is the placeholder.
        """
        return max(self._ends, key=rendered.rfind)

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def text(
        self, text: str, *, one_token: bool = False, system: str | None = None, reply: str = ""
    ) -> EncodedPrompt:
        """A text-only prompt. `system`: the system turn before it; None: the chat template's own, if any.
        `reply`: the beginning of the reply."""
        rendered = self.render(_user([], text, system), one_token=one_token or bool(reply))
        ids = self._tokens(rendered + escape_control_tokens(reply))
        return EncodedPrompt(tuple(ids), (0,) * len(ids))

    def tail(self, text: str, *, one_token: bool = False, reply: str = "") -> EncodedPrompt:
        """The part after the visual part: the text, the end of the user's turn, the assistant's header and
        the beginning of the reply."""
        rendered = self.render(_user([{"type": "video"}], text), one_token=one_token or bool(reply))
        # Tokenised with the head's last token in front, since a tokenizer may treat the start of a text
        # differently.
        after = rendered[rendered.rindex(self._last_mark(rendered)) :] + escape_control_tokens(reply)
        ids = self._tokens(after)[1:]
        return EncodedPrompt(tuple(ids), (0,) * len(ids))

    def reply(self, text: str) -> EncodedPrompt:
        """A whole reply with the token that ends its turn, as a model would generate it after a prompt.
        Raises `BackboneError` for a reply with control tokens.

        It is tokenised separately from the prompt, because generation never merges tokens with the prompt's.
        """
        found = self._control_tokens.search(text)
        if found is not None:
            raise BackboneError(
                f"the reply contains {found[0]!r}, one of the control tokens of chat templates; remove it"
            )
        ids = (*self._tokens(text), self._end_of_turn)
        return EncodedPrompt(ids, (0,) * len(ids))

    @cached_property
    def _control_tokens(self) -> re.Pattern[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        return control_pattern(token.content for token in added if token.special)

    @cached_property
    def _end_of_turn(self) -> int:
        """The token that ends a reply; it must be the one at which generation stops."""
        end = self.tokenizer.eos_token
        turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Yes"}]
        turn = self.processor.apply_chat_template(turns, tokenize=False)
        if not end or not turn[turn.rindex("Yes") + len("Yes") :].startswith(end):
            raise BackboneError(
                f"the chat template does not end a reply with the tokenizer's end-of-sequence token {end!r}; "
                "a model trained this way would not learn to stop; set the tokenizer's eos_token"
            )
        return self.token_id(end)

    # Frames

    def head(self, frames: Sequence[Frame], *, system: str | None = None, before: str = "") -> EncodedPrompt:
        """The shared start of every prompt about these frames: all up to the end of the visual part. `system`
        is the system turn (None: the chat template's own, if any) and `before` the user's text that precedes
        the frames; prompts that differ in them have different heads.

        Several frames of one size are sent as a video: with their true times for Qwen3-VL and newer; with the
        mean spacing for Qwen2.5-VL, which takes one interval per video, so uneven times are lost there. An
        odd number is padded by repeating the last frame, as the processor does. A single frame is an image.
        `Stills` and frames of several sizes (crops) are images, each after its time, and after the text that
        stands before it if they are `Interleaved`. Frames are never enlarged, unless there are crops among
        them: then to at least nine tenths of the pixel budget, since a crop is meant to show more detail.
        Raises `BackboneError` for no frames or more than the budget.
        """
        self._check(frames)
        shapes = {frame.image.shape for frame in frames}
        # A crop is meant to show more detail, so it may be enlarged; nine tenths leave room for rounding to
        # patches.
        floor = self.pixels * 9 // 10 if any(frame.box is not None for frame in frames) else 0
        parts: list[dict[str, Any]] = [_text(before)] if before else []
        if len(frames) > 1 and len(shapes) == 1 and not isinstance(frames, Stills):
            messages = _user([*parts, {"type": "video"}], "", system)
            return self._encode(messages, video=self.as_video(frames), floor=floor)
        texts = frames.texts if isinstance(frames, Interleaved) else ("",) * len(frames)
        for frame, text in zip(frames, texts, strict=True):
            # As Qwen3-VL's own processor writes the times of a video's frames.
            time = f"<{frame.time:.1f} seconds>" if len(frames) > 1 else ""
            if text or time:
                parts.append({"type": "text", "text": escape_control_tokens(text) + time})
            parts.append({"type": "image"})
        images = [frame.image for frame in frames]
        return self._encode(_user(parts, "", system), images=images, floor=floor)

    def _check(self, frames: Sequence[Frame]) -> None:
        if not frames:
            raise BackboneError("no frames to look at; pass None for a prompt of text only")
        if len(frames) > self.frames:
            raise BackboneError(
                f"{len(frames)} frames are more than the budget of {self.frames} a call; sample fewer or "
                "raise 'frames'"
            )

    def frame_size(
        self, height: int, width: int, n_frames: int, *, pixels: int | None = None
    ) -> tuple[int, int]:
        """(height, width) at which `n_frames` whole frames of (height, width) pixels are decoded: as
        `model_size`, unless they need a margin (`videopro.video.shapes`)."""
        return size_to_decode(height, width, self.model_size(height, width, n_frames, pixels=pixels))

    def model_size(
        self, height: int, width: int, n_frames: int, *, pixels: int | None = None
    ) -> tuple[int, int]:
        """(height, width) to which the processor resizes each of `n_frames` whole frames of (height, width)
        pixels, with their margin if they need one, and at most `pixels` (default: the budget) per frame."""
        height, width = padded_size(height, width)
        low, high = self.patch**2, pixels or self.pixels
        if n_frames < 2 or not self.has_times:
            size = image_resize(height, width, self.patch, min_pixels=low, max_pixels=max(low, high))
        else:
            even = self._even(n_frames)
            size = video_resize(
                even,
                height,
                width,
                temporal_factor=self._video.temporal_patch_size,
                factor=self.patch,
                min_pixels=low * even,
                max_pixels=max(low, high) * even,
            )
        return int(size[0]), int(size[1])

    def _even(self, n_frames: int) -> int:
        step: int = self._video.temporal_patch_size
        return -(-n_frames // step) * step

    def as_video(self, frames: Sequence[Frame]) -> SizedVideo:
        """Several frames of one size as one video with their times."""
        # Padded here: the processor pads too, but computes an odd video's size before it does so, and may
        # enlarge frames that fit.
        padded = [*frames, *[frames[-1]] * (self._even(len(frames)) - len(frames))]
        # At one frame per second an index is a time; indices may be fractions.
        times: list[Any] = [frame.time for frame in padded]
        pixels = np.stack([pad_picture(frame.image) for frame in padded])
        if self.has_times:
            metadata = VideoMetadata(total_num_frames=len(padded), fps=1.0, frames_indices=times)
        else:
            spacing = (max(times) - min(times)) / (len(frames) - 1)
            metadata = VideoMetadata(
                total_num_frames=len(padded),
                fps=1 / max(spacing, _SHORTEST_INTERVAL),
                frames_indices=list(range(len(padded))),
            )
        return SizedVideo(pixels, metadata)

    def _size(self, share: int, floor: int) -> dict[str, int]:
        """The processor's size limits that give each frame at most `pixels`; the processor applies them to
        `share` frames together."""
        low = max(self.patch**2, floor)
        return {"shortest_edge": low * share, "longest_edge": max(low, self.pixels) * share}

    def _encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        video: SizedVideo | None = None,
        images: Sequence[np.ndarray] = (),
        floor: int = 0,
    ) -> EncodedPrompt:
        rendered = self.render(messages)
        mark = self._last_mark(rendered)
        text = rendered[: rendered.rindex(mark) + len(mark)]
        if video is not None:
            share = len(video.pixels) if self.has_times else 1
            return self.encode(text, videos=[video], size=self._size(share, floor))
        return self.encode(text, images=images, size=self._size(1, floor))

    def encode(
        self,
        text: str,
        *,
        videos: Sequence[SizedVideo] = (),
        images: Sequence[np.ndarray] = (),
        size: Mapping[str, int] | None = None,
    ) -> EncodedPrompt:
        """Encode a rendered text with the videos and images for its placeholders, in order.

        `size` None: videos and images keep their sizes, which must already suit the model.
        """
        resizing = {"do_resize": False} if size is None else {"size": dict(size)}
        common = {"input_data_format": "channels_last", "device": str(self._device), **resizing}
        options: dict[str, Any] = {"text_kwargs": {"add_special_tokens": False}}
        if images:
            # Copies, because torch does not accept read-only arrays.
            options["images"] = [np.array(pad_picture(image)) for image in images]
            options["images_kwargs"] = common
        if videos:
            options["videos"] = [video.pixels for video in videos]
            options["videos_kwargs"] = {
                **common,
                "do_sample_frames": False,
                "return_metadata": True,
                "video_metadata": [video.metadata for video in videos],
            }
            # Some transformers versions cap the pixels of a frame themselves, with another minimum.
            if "cap_pixels_per_frame" in type(self._video).valid_kwargs.__annotations__:
                options["videos_kwargs"]["cap_pixels_per_frame"] = False
        output = self.processor(text=[text], **options)
        names = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")
        return EncodedPrompt(
            tuple(output["input_ids"][0]),
            tuple(output["mm_token_type_ids"][0]),
            {name: torch.as_tensor(output[name]) for name in names if name in output},
            tuple(float(seconds) for seconds in output.get("second_per_grid_ts", ())),
        )


@dataclass(frozen=True)
class SizedVideo:
    """A video in the processor's format."""

    pixels: np.ndarray
    """(frames, height, width, 3) uint8; the number of frames is a multiple of the temporal patch size."""
    metadata: VideoMetadata


def _user(parts: Sequence[Mapping[str, Any]], text: str, system: str | None = None) -> list[dict[str, Any]]:
    first = [] if system is None else [{"role": "system", "content": [_text(system)]}]
    return [*first, {"role": "user", "content": [*parts, _text(text)]}]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": escape_control_tokens(text)}
