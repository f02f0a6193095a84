"""A small text decoder over words, and the planner that writes its programs.

It reads what is new in a prompt (the API reference and the question; the instructions are the same in each)
and writes the whole reply. Its vocabulary has every word of its world; a name such as `grab_moss` is two
words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videopro.errors import ConfigError
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.pocket.vocabulary import (
    COLORS,
    COUNTS,
    DEEDS,
    LINE_DOES,
    LINE_KINDS,
    LINE_WHO,
    MOVES,
    NAMES,
    PLACES,
    SHAPES,
    SIGNS,
    THINGS,
    TOPICS,
    WEATHERS,
)
from videopro.simlib import operations
from videopro.simlib.operations import ARGUMENT_NAMES, LEADS, OPERATIONS
from videopro.simlib.routes import ROUTES
from videopro.simlib.story import PHRASES

SIZES: Mapping[str, tuple[int, int, int]] = {"0.5": (96, 4, 4), "2": (192, 4, 6), "8": (336, 6, 8)}
"""Width, layers and heads by millions of parameters."""
LONGEST = 48
"""Tokens of a reply at most."""
PAD, END, UNKNOWN = 0, 1, 2
_BLOCK_AT = 640
"""The position of a question, whatever the length of the reference before it."""
# Brackets, commas and line ends say nothing that other tokens do not.
_WORD = re.compile(r"- `|\)`: |->|Question: |\nChoices:\n|[A-D]\. |_?[A-Za-z]+|\d+|[^\s\w(),]")
_PLACEHOLDER = re.compile(r"\{\w+\}")
_ENTRY = "- `"
"""The token with which an entry of the reference begins."""
_ATTEMPTS = ("Buggy", "Existing")
"""What prompts call a program to refine."""
_PROGRAM = " program:\n<code>\n"
_REFERENCE = "Available functions\n\n"
_QUESTION = "\n\nQuestion: "


def words(text: str) -> list[str]:
    """The tokens of a text that is read; of a program, those of names and of what a question names."""
    return _WORD.findall(text)


@cache
def vocabulary() -> tuple[str, ...]:
    """Every token: words that are read, and the pieces of programs between names."""
    texts = [
        *(phrase for forms in PHRASES.values() for phrase in forms),
        *(text for operation in OPERATIONS.values() for text in (*operation.bodies, operation.returns)),
        *(name for forms in ARGUMENT_NAMES.values() for name in forms),
        *(*OPERATIONS, *operations.NAMES, *LEADS, *COLORS, *COUNTS, *DEEDS, *LINE_DOES, *LINE_KINDS),
        *(*LINE_WHO, *MOVES, *NAMES, *PLACES, *SHAPES, *SIGNS, *THINGS, *TOPICS, *WEATHERS),
        *("- `x(a, b=c)`: The. -> ''", "Question: ", "\nChoices:\n", "A. B. C. D. ", *_ATTEMPTS),
    ]
    pieces = {
        piece
        for routes in ROUTES.values()
        for route in routes
        for piece in _PLACEHOLDER.split(route.template)
    }
    return ("<pad>", "<end>", "<unknown>", *sorted({word for text in texts for word in words(text)} | pieces))


@cache
def _numbers() -> Mapping[str, int]:
    return {word: number for number, word in enumerate(vocabulary())}


def read_ids(text: str) -> list[int]:
    """The ids of a text that is read."""
    numbers = _numbers()
    return [numbers.get(word, UNKNOWN) for word in words(text)]


def reply_ids(parts: Sequence[str]) -> list[int]:
    """The ids of a reply in its parts (`Route.parts`), with the end."""
    numbers = _numbers()
    ids = [[numbers[part]] if at % 2 == 0 else read_ids(part) for at, part in enumerate(parts)]
    return [number for part in ids for number in part] + [END]


def text_of(ids: Sequence[int]) -> str:
    """The text of a reply."""
    text, before = "", ""
    for number in ids:
        word = vocabulary()[number]
        # Between the words of a line; a name's second word begins with "_", and pieces bring their own
        # spaces.
        is_word = word.isalnum()
        text += f" {word}" if is_word and before.isalnum() else word
        before = word
    return text


def split_prompt(prompt: str) -> tuple[list[list[int]], list[int]]:
    """The ids of each entry of a prompt's API reference, and those of its question and choices; of a program
    to refine, those of its words that the vocabulary has, such as names, and nothing of its log."""
    _, _, shown = prompt.rpartition(_REFERENCE)
    reference, mark, rest = shown.rpartition(_QUESTION)
    entries = [read_ids(_ENTRY + entry) for entry in reference.split(_ENTRY)[1:]]
    question, _, attempt = rest.partition(_PROGRAM)
    tried = [number for number in read_ids(attempt.partition("\n</code>")[0]) if number != UNKNOWN]
    return entries, [*read_ids(mark.lstrip() + question), *tried]


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])

    def heads_of(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> list[Tensor]:
        """Queries, scaled, keys and values (..., heads, tokens, width of a head), queries and keys turned."""
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k, v = (part.transpose(-2, -3) for part in parts)
        return [_turned(q, rotation) * q.shape[-1] ** -0.5, _turned(k, rotation), v]

    def rest(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = x + self.out(mixed.transpose(-2, -3).flatten(-2))
        y: Tensor = x + self.down(F.gelu(self.up(self.norms[1](x))))
        return y


def _weights(q: Tensor, keys: Sequence[Tensor], hidden: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """How much tokens (rows, questions, heads, tokens, width) look at those of their reference (rows, heads,
    tokens, width), which is one matrix for all questions of a row, and at those of their block."""
    flat = q.transpose(1, 2).flatten(2, 3) @ keys[0].transpose(-1, -2)
    of_reference = flat.unflatten(2, (q.shape[1], -1))
    own = q @ keys[1].transpose(-1, -2)
    both = torch.cat([of_reference.transpose(1, 2) + hidden[0], own + hidden[1]], -1).softmax(-1)
    seen, of_block = both.split([of_reference.shape[-1], own.shape[-1]], -1)
    return seen, of_block


def _mixed(seen: Tensor, values: Tensor) -> Tensor:
    mixed: Tensor = (seen.transpose(1, 2).flatten(2, 3) @ values).unflatten(2, (seen.shape[1], -1))
    return mixed.transpose(1, 2)


def _turned(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    # Half of each head is not turned: what a question is about is found wherever the reference says it.
    cos, sin = rotation
    a, b, rest = x.split([cos.shape[-1], cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


@dataclass(frozen=True)
class _Read:
    """References as their questions see them."""

    ids: Tensor
    keys: list[Tensor]
    """Of each layer, and of what is copied."""
    values: list[Tensor]


@dataclass(frozen=True)
class _Past:
    """What is kept of blocks that are being written."""

    ids: Tensor
    parts: list[Tensor]
    """Keys and values of each layer, and keys of what is copied."""


class Decoder(nn.Module):
    """A decoder in which several questions read one reference, each blind to the others: what a separate
    prompt for each would give."""

    def __init__(self, size: str) -> None:
        """`size`: a key of SIZES."""
        super().__init__()
        width, layers, heads = SIZES[size]
        self.size = size
        self.embedding = nn.Embedding(len(vocabulary()), width)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(width))
        # Each token also sees the one before it, which makes copying a matter of one layer.
        self.before = nn.Parameter(torch.full((width,), 0.5))
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            for last in (layer.out, layer.down):
                nn.init.normal_(last.weight, std=0.5 / math.sqrt(width * layers))
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.asks, self.is_asked = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.copies = nn.Linear(width, 1)
        turned = width // heads // 4
        turns = torch.arange(_BLOCK_AT + 256)[:, None] * 1000.0 ** (-torch.arange(turned) / turned)
        self.register_buffer("cos", turns.cos(), persistent=False)
        self.register_buffer("sin", turns.sin(), persistent=False)

    def forward(self, reference: Tensor, blocks: Tensor, wanted: Tensor) -> Tensor:
        """The log-probabilities (places, words) of what follows each place of `blocks` (rows, questions,
        tokens) where `wanted` is true, after `reference` (rows, entries, tokens). Both are padded at their
        ends."""
        return self.follow(self.read(reference), blocks, wanted, [])

    def read(self, reference: Tensor) -> _Read:
        """A reference as the questions about it see it: each entry by itself, wherever it stands, its tokens
        in both directions."""
        x, keys, values = self._embedded(reference), [], []
        at = self._rotation(torch.arange(reference.shape[-1]))
        # Not infinite: a row with fewer entries has some of padding alone.
        padding = torch.where(reference == PAD, -1e4, 0.0)[..., None, None, :]
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            q, k, v = layer.heads_of(x, at)
            keys.append(k.transpose(1, 2).flatten(2, 3))
            values.append(v.transpose(1, 2).flatten(2, 3))
            x = layer.rest(x, (q @ k.transpose(-1, -2) + padding).softmax(-1) @ v)
        named = self.is_asked(self.norms[0](x)).flatten(1, 2)[:, None]
        return _Read(reference.flatten(1), [*keys, named], values)

    def follow(self, read: _Read, blocks: Tensor, wanted: Tensor, past: list[_Past]) -> Tensor:
        """As `forward`, of a reference that is read. `past`: what an earlier call left there of the tokens
        before `blocks`, to which this one adds; padding may then stand before a block, too."""
        before = past.pop() if past else _Past(blocks[..., :0], [])
        ids = torch.cat([before.ids, blocks], -1)
        size, length = blocks.shape[-1], ids.shape[-1]
        places = (ids != PAD).cumsum(-1)[..., -size:, None].clamp_min(1) - 1 + _BLOCK_AT
        y = self._embedded(ids[..., -size - 1 :])[..., -size:, :]
        after = self._rotation(places.transpose(-1, -2))
        # A key that is padding is seen by nobody else.
        hidden = torch.where(read.ids == PAD, -1e4, 0.0)[:, None, None, None]
        later = torch.full((size, length), -1e4).triu(1 + length - size)
        own_hidden = later + torch.where(ids == PAD, -1e4, 0.0)[..., None, None, :]
        kept: list[Tensor] = []

        def joined(new: Tensor) -> Tensor:
            kept.append(torch.cat([before.parts[len(kept)], new], -2) if before.parts else new)
            return kept[-1]

        for layer, rk, rv in zip(self.layers, read.keys, read.values, strict=False):
            assert isinstance(layer, _Layer)
            q, k, v = layer.heads_of(y, after)
            seen, own = _weights(q, (rk, joined(k)), (hidden, own_hidden))
            y = layer.rest(y, _mixed(seen, rv) + own @ joined(v))
        y = self.norms[1](y)
        # What is copied: names of the reference, and words of the question (one head).
        q = self.asks(y)[:, :, None] * y.shape[-1] ** -0.5
        keys = read.keys[-1], joined(self.is_asked(y)[:, :, None])
        seen, own = (part[:, :, 0][wanted].float() for part in _weights(q, keys, (hidden, own_hidden)))
        past.append(_Past(ids, kept))
        row, question = wanted.nonzero()[:, :2].unbind(-1)
        y = y[wanted]
        written = (y @ self.embedding.weight.T).float().softmax(-1)
        copied = torch.zeros_like(written).scatter_add(1, read.ids[row], seen)
        copied = copied.scatter_add(1, ids[row, question], own)
        share = self.copies(y).float().sigmoid()
        return torch.log((1 - share) * written + share * copied + 1e-9)

    def _embedded(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids)
        return x + self.before * F.pad(x, (0, 0, 1, 0))[..., :-1, :]

    def _rotation(self, places: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.cos, Tensor)
        assert isinstance(self.sin, Tensor)
        return self.cos[places], self.sin[places]

    @torch.inference_mode()
    def write(
        self,
        reference: Sequence[Sequence[int]],
        questions: Sequence[Sequence[int]],
        generator: torch.Generator | None = None,
        barred: int = PAD,
    ) -> list[list[int]]:
        """The most likely reply to each question about one reference, without its end; with a `generator`,
        one that is drawn. `barred`: a token with which its first name does not begin."""
        read = self.read(padded(reference)[None])
        longest = max(map(len, questions))
        blocks = torch.tensor([[*[PAD] * (longest - len(ids)), *ids] for ids in questions])[None]
        past: list[_Past] = []
        last = torch.zeros(blocks.shape, dtype=torch.bool)
        last[..., -1] = True
        written: list[Tensor] = []
        ended = torch.zeros(len(questions), dtype=torch.bool)
        while not ended.all() and len(written) < LONGEST:
            scores = self.follow(read, blocks, last, past)
            # Padding is no word.
            scores[:, [PAD, barred if len(written) == 1 else PAD]] = -torch.inf
            chosen = (
                scores.argmax(-1)
                if generator is None
                else torch.multinomial(scores.exp(), 1, generator=generator)[:, 0]
            )
            written.append(chosen)
            ended |= chosen == END
            blocks, last = chosen[None, :, None], torch.ones(1, len(questions), 1, dtype=torch.bool)
        replies = torch.stack(written, -1).tolist()
        return [reply[: reply.index(END)] if END in reply else reply for reply in replies]

    def save(self, path: Path) -> None:
        """Write the weights, with the size and the vocabulary."""
        torch.save({"size": self.size, "words": vocabulary(), "weights": self.state_dict()}, path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises ConfigError for another vocabulary: the world's words have
        changed."""
        stored = torch.load(path, weights_only=True)
        if tuple(stored["words"]) != vocabulary():
            raise ConfigError(f"{path}: its vocabulary is not that of this version; train it again")
        decoder = cls(stored["size"])
        decoder.load_state_dict(stored["weights"])
        return decoder.eval()


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """The rows (rows, longest) with PAD at their ends."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def padded_groups(groups: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Groups of rows (groups, rows, longest), with rows of PAD where a group has fewer."""
    most = max(map(len, groups))
    filled = padded([row for rows in groups for row in [*rows, *[[]] * (most - len(rows))]])
    return filled.reshape(len(groups), most, -1)


class DecoderPlanner(Planner):
    """Plans with a decoder, which reads the API reference in its compact form."""

    name = "simlib"
    is_fine_tuned = True
    reference = "compact"
    plans_open_questions = False
    reads_any_prompt = False

    def __init__(self, decoder: Decoder, generator: torch.Generator | None = None, barred: int = PAD) -> None:
        """`generator`: draw replies with it; None: write the most likely ones. `barred`: as in `write`."""
        self._decoder, self._generator, self._barred = decoder.eval(), generator, barred

    def identity(self) -> dict[str, object]:
        weights = sum(float(part.detach().double().abs().sum()) for part in self._decoder.parameters())
        return {"planner": self.name, "size": self._decoder.size, "weights": round(weights, 6)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        replies: dict[int, PlannerReply] = {}
        for shown in dict.fromkeys(request.api_reference for request in requests):
            same = [at for at, request in enumerate(requests) if request.api_reference == shown]
            read = [split_prompt(requests[at].prompt) for at in same]
            entries = read[0][0]
            questions = [question for _, question in read]
            written = self._decoder.write(entries, questions, self._generator, self._barred)
            for at, (_, question), ids in zip(same, read, written, strict=True):
                n_read = sum(map(len, entries)) + len(question)
                replies[at] = PlannerReply(text_of(ids), n_read, len(ids), 1)
        return [replies[at] for at in range(len(requests))]
