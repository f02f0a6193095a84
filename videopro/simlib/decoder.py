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
from videopro.question import prompts
from videopro.simlib import operations
from videopro.simlib.operations import ARGUMENT_NAMES, LEADS, OPERATIONS
from videopro.simlib.routes import ROUTES
from videopro.simlib.story import PHRASES
from videopro.traces import PLAN_KINDS

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
        *("- `x(a, b=c)`: The. -> ''", "Question: ", "\nChoices:\n", "A. B. C. D. "),
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


def split_prompt(prompt: str) -> tuple[list[int], list[int]]:
    """The ids of a prompt's API reference, and those of its question and choices."""
    _, _, shown = prompt.rpartition(_REFERENCE)
    reference, mark, question = shown.rpartition(_QUESTION)
    return read_ids(reference), read_ids(mark.lstrip() + question)


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


def _attention(q: Tensor, rk: Tensor, k: Tensor, hidden: Tensor, later: Tensor) -> tuple[Tensor, Tensor]:
    """How much the tokens of blocks look at those of their reference (rows, heads, questions, tokens, keys),
    and at those before them in the block (rows, questions, heads, tokens, tokens)."""
    # All questions at once against the reference, which is one matrix for all of them.
    flat = q.transpose(1, 2).flatten(2, 3)
    of_reference = (flat @ rk.transpose(-1, -2)).unflatten(2, (-1, q.shape[-2])) + hidden
    own = (q @ k.transpose(-1, -2)).transpose(1, 2) + later
    weights = torch.cat([of_reference, own], -1).softmax(-1)
    return weights[..., : rk.shape[-2]], weights[..., rk.shape[-2] :].transpose(1, 2)


def _of_reference(weights: Tensor, values: Tensor, size: int) -> Tensor:
    mixed: Tensor = (weights.flatten(2, 3) @ values).unflatten(2, (-1, size)).transpose(1, 2)
    return mixed


def _turned(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    # Half of each head is not turned: what a question is about is found wherever the reference says it.
    cos, sin = rotation
    a, b, rest = x.split([cos.shape[-1], cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


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

    def forward(self, reference: Tensor, blocks: Tensor) -> Tensor:
        """The log-probabilities (rows, questions, tokens, words) of what follows each token of `blocks`
        (rows, questions, tokens), which read `reference` (rows, tokens); both padded at their ends."""
        x, y = self._embedded(reference), self._embedded(blocks)
        length, size = reference.shape[-1], blocks.shape[-1]
        # An entry of the reference is read by itself, wherever it stands: its tokens see each other, both
        # ways.
        entries = (reference == _numbers()[_ENTRY]).cumsum(-1) * (reference != PAD)
        places = torch.arange(length).expand_as(reference)
        starts = torch.where(entries.diff(dim=-1, prepend=entries[:, :1]) > 0, places, 0).cummax(-1).values
        at, after = self._rotation((places - starts)[:, None]), self._rotation(torch.arange(size) + _BLOCK_AT)
        apart = torch.where(entries[:, None, :, None] == entries[:, None, None, :], 0.0, -torch.inf)
        # A key that is padding is seen by nobody else.
        hidden = torch.where(reference == PAD, -torch.inf, 0.0)[:, None, None, None, :]
        later = torch.full((size, size), -torch.inf).triu(1)
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            q, k, v = layer.heads_of(y, after)
            rq, rk, rv = layer.heads_of(x, at)
            seen, own = _attention(q, rk, k, hidden, later)
            mixed = _of_reference(seen, rv, size) + own @ v
            y = layer.rest(y, mixed)
            among = F.scaled_dot_product_attention(rq, rk, rv, attn_mask=apart, scale=1.0)
            x = layer.rest(x, among)
        x, y = self.norms[0](x), self.norms[1](y)
        written = (y @ self.embedding.weight.T).float().softmax(-1)
        # What is copied: names of the reference, and words of the question (one head).
        q, rk, k = self.asks(y)[:, :, None], self.is_asked(x)[:, None], self.is_asked(y)[:, :, None]
        seen, own = _attention(q * y.shape[-1] ** -0.5, rk, k, hidden, later)
        one_of = torch.eye(len(vocabulary()), dtype=seen.dtype)
        copied = _of_reference(seen, one_of[reference][:, None], size) + own @ one_of[blocks][:, :, None]
        share = self.copies(y).float().sigmoid()
        return torch.log((1 - share) * written + share * copied[:, :, 0].float() + 1e-9)

    def _embedded(self, ids: Tensor) -> Tensor:
        x: Tensor = self.embedding(ids)
        return x + self.before * F.pad(x, (0, 0, 1, 0))[..., :-1, :]

    def _rotation(self, places: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.cos, Tensor)
        assert isinstance(self.sin, Tensor)
        return self.cos[places], self.sin[places]

    @torch.inference_mode()
    def write(self, reference: Sequence[int], questions: Sequence[Sequence[int]]) -> list[list[int]]:
        """The most likely reply to each question about one reference, without its end."""
        read = torch.tensor([list(reference)])
        replies: list[list[int]] = [[] for _ in questions]
        going = list(range(len(questions)))
        for _ in range(LONGEST):
            blocks = padded([[*questions[at], *replies[at]] for at in going])
            last = torch.tensor([len(questions[at]) + len(replies[at]) - 1 for at in going])
            chosen = self(read, blocks[None])[0, torch.arange(len(going)), last].argmax(-1).tolist()
            for at, number in zip(going, chosen, strict=True):
                replies[at].append(number)
            going = [at for at in going if replies[at][-1] != END]
            if not going:
                break
        return [[number for number in reply if number != END] for reply in replies]

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


@dataclass(frozen=True)
class _Read:
    reference: tuple[int, ...]
    question: tuple[int, ...]


class DecoderPlanner(Planner):
    """Plans with a decoder. It reads the API reference in its compact form, and cannot refine: a second
    request gets the same plan."""

    name = "simlib"
    is_fine_tuned = True
    reference = "compact"
    plans_open_questions = False
    reads_any_prompt = False

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder.eval()

    def identity(self) -> dict[str, object]:
        weights = sum(float(part.detach().double().abs().sum()) for part in self._decoder.parameters())
        return {"planner": self.name, "size": self._decoder.size, "weights": round(weights, 6)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        read = [_Read(*map(tuple, split_prompt(self._prompt(request)))) for request in requests]
        replies: dict[_Read, list[int]] = {}
        for reference in dict.fromkeys(each.reference for each in read):
            same = [each for each in dict.fromkeys(read) if each.reference == reference]
            written = self._decoder.write(reference, [each.question for each in same])
            replies |= dict(zip(same, written, strict=True))
        return [
            PlannerReply(
                text_of(replies[each]), len(each.reference) + len(each.question), len(replies[each]), 1
            )
            for each in read
        ]

    def _prompt(self, request: PlanRequest) -> str:
        if request.kind in PLAN_KINDS:
            return request.prompt
        return prompts.plan(request.question, adaptive=True, reference=request.api_reference, examples=False)
