"""Frames and prompts to the tensors of a Qwen vision-language model, through the model's own processor.

A prompt has two parts. The *head* runs from its first token to the end of the last visual part; the *tail* is
the rest: the question, and the header of the reply. A head is made once a video and shared; both parts
together are token for token what the official processor makes of the whole. Knows processors and frames; must
not know weights, caches or sampling.
"""

from __future__ import annotations

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

from videopro.backbones.control_tokens import escape_control_tokens
from videopro.errors import BackboneError

if TYPE_CHECKING:
    from videopro.video import Frame

# <|im_end|>, <|video_pad|> and the like, written in a question, a subtitle or a sign.
_SHORTEST_INTERVAL = 1e-3
"""Seconds between two frames at least, where a model takes one interval: frames of equal times have none."""


@dataclass(frozen=True)
class EncodedPrompt:
    """Tokens of a prompt or of a part of it, with the visual tensors that they stand for."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    """For each token 0 (text), 1 (image) or 2 (video)."""
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Of `pixel_values`, `image_grid_thw`, `pixel_values_videos`, `video_grid_thw` what there is."""
    intervals: tuple[float, ...] = ()
    """Qwen2.5-VL: seconds between temporal patches, one a video."""
    features: Mapping[str, Any] = field(default_factory=dict)
    """Of `image` and `video` what the vision tower made of the pixels, which are then left out; see
    `videopro.backbones.qwen.features`."""

    def append_text(self, tail: EncodedPrompt) -> EncodedPrompt:
        """This part followed by a part of text."""
        return replace(self, ids=self.ids + tail.ids, types=self.types + tail.types)


class QwenInputs:
    """Prompts for one processor. `frames` and `pixels` are the budgets of `BackboneConfig`; `device` is where
    pixels are normalised and laid out in patches."""

    def __init__(self, processor: ProcessorMixin, *, frames: int, pixels: int, device: torch.device) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.frames = frames
        self.pixels = pixels
        self._device = device
        self._video = processor.video_processor
        # Qwen3-VL and later write a time before every temporal patch and share one pixel budget among the
        # frames; Qwen2-VL and Qwen2.5-VL take one interval a video and a budget for each frame.
        if isinstance(self._video, Qwen3VLVideoProcessor):
            self.has_times = True
        elif isinstance(self._video, Qwen2VLVideoProcessor):
            self.has_times = False
        else:
            raise BackboneError(
                f"the video processor {type(self._video).__name__} is none that this version knows; "
                "use a Qwen2.5-VL, Qwen3-VL, Qwen3.5 or newer Qwen checkpoint of the same form"
            )
        self.patch: int = self._video.patch_size * self._video.merge_size
        """Pixels along the side of what becomes one token."""
        # A template that knows no thinking would have transformers warn of the setting at every prompt.
        template = str(processor.chat_template or processor.tokenizer.chat_template)
        self._thinking: dict[str, Any] = {"enable_thinking": False} if "enable_thinking" in template else {}
        self._ends = ("<|vision_end|>", "<|video_pad|>", "<|image_pad|>")
        for mark in self._ends:
            self.token_id(mark)

    # Tokens

    def token_id(self, token: str) -> int:
        """Id of a token that must be in the vocabulary."""
        known = self.tokenizer.get_vocab().get(token)
        if known is None:
            raise BackboneError(f"the tokenizer has no token {token!r}; a Qwen vision-language tokenizer has")
        return int(known)

    def visual_tokens(self) -> list[int]:
        """Ids that stand for pixels; a model must never write them."""
        names = ("<|video_pad|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>")
        vocabulary = self.tokenizer.get_vocab()
        return sorted(vocabulary[name] for name in names if name in vocabulary)

    def reply_tokens(self, replies: Sequence[str]) -> dict[str, int]:
        """The single token with which each reply starts, right after the header of the assistant's turn.

        Other tokens that hold the same letter (with a leading space, in another script) are other replies:
        only this one counts, since it is what the model writes when it answers with the letter alone.
        """
        header = self.tail("", one_token=True)
        found = {}
        for reply in replies:
            ids = self.tail("", one_token=True, reply=reply).ids
            if ids[:-1] != header.ids:
                raise BackboneError(
                    f"the tokenizer does not write {reply!r} as one token after the assistant's header; "
                    "one-letter answers need that"
                )
            found[reply] = ids[-1]
        return found

    # Text

    def render(self, messages: Sequence[Mapping[str, Any]], *, one_token: bool = False) -> str:
        """Chat messages as text, up to where the reply starts.

        Models that think are asked not to (`enable_thinking`); where a template opens a thinking block all
        the same and one token is wanted, the block is closed at once.
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

    def _last_mark(self, rendered: str) -> str:
        """The special token that closes the visual part of a rendered prompt.

        A template may leave the marks around a video to the processor: then its placeholder is the last.
        """
        return max(self._ends, key=rendered.rfind)

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def text(self, text: str, *, one_token: bool = False) -> EncodedPrompt:
        """A prompt without anything to look at."""
        ids = self._tokens(self.render(_user([], text), one_token=one_token))
        return EncodedPrompt(tuple(ids), (0,) * len(ids))

    def tail(self, text: str, *, one_token: bool = False, reply: str = "") -> EncodedPrompt:
        """What comes after the visual part: the prompt, the end of the user's turn, the assistant's
        header."""
        rendered = self.render(_user([{"type": "video"}], text), one_token=one_token)
        # Tokenised behind the token that ends the head, so that nothing is taken for the start of a text.
        after = rendered[rendered.rindex(self._last_mark(rendered)) :] + reply
        ids = self._tokens(after)[1:]
        return EncodedPrompt(tuple(ids), (0,) * len(ids))

    def reply(self, text: str) -> EncodedPrompt:
        """A whole reply with the token that ends its turn, as it follows a prompt: what a model that writes
        this reply writes. `BackboneError` for a reply that holds control tokens.

        Tokenised apart from the prompt, as it is written token by token behind the prompt's tokens.
        """
        if escape_control_tokens(text) != text:
            raise BackboneError(
                "a reply holds control tokens of the chat form, such as <|im_end|>; take them out"
            )
        ids = (*self._tokens(text), self._end_of_turn)
        return EncodedPrompt(ids, (0,) * len(ids))

    @cached_property
    def _end_of_turn(self) -> int:
        """The token behind a reply, which must be the one that generation stops at."""
        end = self.tokenizer.eos_token
        turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "Yes"}]
        turn = self.processor.apply_chat_template(turns, tokenize=False)
        if not end or not turn[turn.rindex("Yes") + len("Yes") :].startswith(end):
            raise BackboneError(
                f"the chat template does not end a reply with the tokenizer's end-of-sequence token {end!r}; "
                "a model trained so would not learn to stop: set the tokenizer's eos_token"
            )
        return self.token_id(end)

    # Frames

    def head(self, frames: Sequence[Frame]) -> EncodedPrompt:
        """The shared start of every prompt about these frames.

        Several frames of one size are one video: with their true times for Qwen3-VL and later; with the mean
        spacing for Qwen2.5-VL, which takes one interval a video, so scattered frames lose their own times
        there. An odd number is filled up by repeating the last frame, as the processor itself does. One frame
        is an image. Frames of several sizes (crops) are images, each after its time. Frames are never
        enlarged, unless crops are among them: then to nine tenths of the pixel budget at least, since
        enlarging is what one crops for.
        """
        self._check(frames)
        shapes = {frame.image.shape for frame in frames}
        floor = self.pixels * 9 // 10 if any(frame.box is not None for frame in frames) else 0
        if len(frames) > 1 and len(shapes) == 1:
            return self._encode(_user([{"type": "video"}], ""), video=self.as_video(frames), floor=floor)
        parts: list[dict[str, Any]] = []
        for frame in frames:
            if len(frames) > 1:
                parts.append({"type": "text", "text": f"<{frame.time:.1f} seconds>"})
            parts.append({"type": "image"})
        return self._encode(_user(parts, ""), images=[frame.image for frame in frames], floor=floor)

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
        """(height, width) that the processor gives each of `n_frames` whole frames of (height, width) pixels,
        with at most `pixels` (by default the budget) a frame."""
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
        # Filled up here: the processor would do so later, but computes an odd video's size from another
        # number of frames than it then makes patches of, and may enlarge frames that fit.
        filled = [*frames, *[frames[-1]] * (self._even(len(frames)) - len(frames))]
        # At one frame a second an index is a time; indices may be fractions.
        times: list[Any] = [frame.time for frame in filled]
        pixels = np.stack([frame.image for frame in filled])
        if self.has_times:
            metadata = VideoMetadata(total_num_frames=len(filled), fps=1.0, frames_indices=times)
        else:
            spacing = (max(times) - min(times)) / (len(frames) - 1)
            metadata = VideoMetadata(
                total_num_frames=len(filled),
                fps=1 / max(spacing, _SHORTEST_INTERVAL),
                frames_indices=list(range(len(filled))),
            )
        return SizedVideo(pixels, metadata)

    def _size(self, share: int, floor: int) -> dict[str, int]:
        """Pixel bounds that spend `pixels` on a frame, and no more, for a processor that bounds `share`
        frames."""
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
        """A rendered text with the videos and images of its placeholders, in order, through the processor.

        `size` None: videos and images already have sizes that the model takes, and keep them.
        """
        resizing = {"do_resize": False} if size is None else {"size": dict(size)}
        common = {"input_data_format": "channels_last", "device": str(self._device), **resizing}
        options: dict[str, Any] = {"text_kwargs": {"add_special_tokens": False}}
        if images:
            # Copies, since torch takes no arrays that are read-only.
            options["images"] = [np.array(image) for image in images]
            options["images_kwargs"] = common
        if videos:
            options["videos"] = [video.pixels for video in videos]
            options["videos_kwargs"] = {
                **common,
                "do_sample_frames": False,
                "return_metadata": True,
                "video_metadata": [video.metadata for video in videos],
            }
            # Some versions offer a cap of their own, with another floor, and are to lose it again.
            if "cap_pixels_per_frame" in type(self._video).valid_kwargs.__annotations__:
                options["videos_kwargs"]["cap_pixels_per_frame"] = False
        made = self.processor(text=[text], **options)
        names = ("pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")
        return EncodedPrompt(
            tuple(made["input_ids"][0]),
            tuple(made["mm_token_type_ids"][0]),
            {name: torch.as_tensor(made[name]) for name in names if name in made},
            tuple(float(seconds) for seconds in made.get("second_per_grid_ts", ())),
        )


@dataclass(frozen=True)
class SizedVideo:
    """Frames as the processor takes them."""

    pixels: np.ndarray
    """(frames, height, width, 3) uint8; as many frames as temporal patches hold."""
    metadata: VideoMetadata


def _user(parts: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [*parts, {"type": "text", "text": escape_control_tokens(text)}]}]
