"""The miniature's Qwen3-VL: the shipped pocket model with Qwen3-VL's chat template, added tokens and sampling
settings, and without the record that would tell what it is.

Text between the added tokens is split as pocket's is, since its weights know no other words.
"""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoProcessor, PreTrainedTokenizerFast

from tests.support.qwen_models import template
from videopro.pocket import model_dir

CONTROL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
]
"""Qwen3-VL's control tokens in the order of their ids, 151643 to 151656."""
MARKS = [
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
]
"""The tokens after them, which are not left out of a reply."""
SAMPLING = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.0}
"""What Qwen3-VL-8B-Instruct is sampled with, unless a request says otherwise."""
TAG = "</?(?:planning|code)>"
"""Tokens of the pocket model that are ordinary text to Qwen."""


def make_backbone(folder: Path) -> None:
    """Write the checkpoint."""
    words = json.loads((model_dir() / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    old = vocabulary | {token["content"]: token["id"] for token in words["added_tokens"]}
    for tag in ("<planning>", "</planning>", "<code>", "</code>"):
        vocabulary[tag] = len(vocabulary)
    split = words["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    split["Regex"] = f"{TAG}|{split['Regex'].replace('| ?[^', f'| ?(?!{TAG})[^')}"
    tokenizer = Tokenizer.from_str(json.dumps({**words, "added_tokens": []}))
    tokenizer.add_special_tokens(CONTROL)
    tokenizer.add_tokens(MARKS)
    processor = AutoProcessor.from_pretrained(model_dir())
    processor.chat_template = template()
    processor.tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=CONTROL[1:],
        model_max_length=processor.tokenizer.model_max_length,
        clean_up_tokenization_spaces=False,
    )
    processor.save_pretrained(folder)

    # A token takes its row along; one that pocket lacks takes a row that no token had.
    weights = load_file(model_dir() / "model.safetensors")
    spare = iter(sorted(set(range(len(weights["lm_head.weight"]))) - set(old.values())))
    ids = tokenizer.get_vocab()
    rows = [old[token] if token in old else next(spare) for token in sorted(ids, key=ids.__getitem__)]
    rows += spare
    for name in ("lm_head.weight", "model.language_model.embed_tokens.weight"):
        weights[name] = weights[name][rows]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((model_dir() / "config.json").read_text())
    for part in (config, config["text_config"]):
        part |= {key: rows.index(part[key]) for key in part if key.endswith("_token_id") and part[key]}
    (folder / "config.json").write_text(json.dumps(config))
    end, pad = (ids[token] for token in ("<|im_end|>", "<|endoftext|>"))
    tokens = {"eos_token_id": [end, pad], "pad_token_id": pad, "bos_token_id": pad}
    (folder / "generation_config.json").write_text(json.dumps(tokens | SAMPLING))
