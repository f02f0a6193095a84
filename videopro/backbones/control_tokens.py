"""Control tokens of chat templates, in texts from a video, such as subtitles, and in replies to learn."""

import re
from collections.abc import Iterable

_CONTROL = re.compile(r"<\|(\w+)\|>")
_OF_FAMILIES = (
    # Llama 2, Mistral
    *("<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[TOOL_CALLS]", "[IMG]"),
    # Gemma
    *("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"),
    # LLaVA, InternVL, SmolVLM
    *("<image>", "<video>", "<audio>", "<img>", "</img>", "<IMG_CONTEXT>", "<end_of_utterance>"),
)
_OF_DEEPSEEK = r"<｜[^<>｜]+｜>"


def escape_control_tokens(text: str) -> str:
    """The text with its control tokens broken up: `<|im_end|>` becomes `< |im_end| >`.

    Text from subtitles or signs can then neither end a turn nor stand for pixels. Processors and servers
    interpret control tokens wherever they occur.
    """
    return _CONTROL.sub(r"< |\1| >", text)


def control_pattern(special: Iterable[str]) -> re.Pattern[str]:
    """Finds the control tokens of a tokenizer, whose `special` ones are given, and those of other families: a
    reply with one of these was made for another model."""
    texts = map(re.escape, (*special, *_OF_FAMILIES))
    return re.compile("|".join([*texts, _CONTROL.pattern, _OF_DEEPSEEK]))
