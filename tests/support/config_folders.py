"""The folder of configs that a command's --config looks into."""

CONFIGS = {
    "infer": "infer",
    "compare": "compare",
    "synthesize": "synthesis",
    "sft": "sft",
    "grpo": "grpo",
    "asp-clip": "retrieval",
    "reproduce": "reproduce",
}
