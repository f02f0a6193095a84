"""Runs a row of a grpo.jsonl with a reply to its rewards, in the checkout that is first on the path."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from videopro import benchmarks
from videopro.backbones import MODELS, load_backbone
from videopro.modules import ModuleModels, ModuleSettings
from videopro.train.rewards import ROW, ProgramRewards
from videopro.train.rl import read_grpo_rows

# Opens the video, picks frames in the middle and asks about them.
REPLY = """<planning>One look at the middle is enough.</planning>
<code>
def execute_command(video, question, choices):
    frames = trim_frames(video, 1.0, 5.0, num_frames=4)
    return query_mc(frames, question, choices)
</code>"""


def rewarded(path: Path, backbone: Any, models: Any) -> list[list[float | None]]:
    """The rewards of the reply to each row of a file. What is run here is traced (sitecustomize.py)."""
    completions = [[{"role": "assistant", "content": REPLY}]]
    with ProgramRewards(backbone, modules=models) as rewards:
        columns = {ROW: read_grpo_rows(path).rows}
        return [function([None], completions, [list(range(40))], **columns) for function in rewards.functions]


def main() -> None:
    """One row about the first pocket question."""
    benchmark = benchmarks.load("pocket", split="test")
    (item,) = benchmark.select(limit=1)
    if benchmark.fetch is not None:
        benchmark.fetch([item])
    question = item.question
    row = {
        "id": "house/plan",
        "kind": "plan",
        "prompt": question.text,
        "video": str(item.video.absolute()),
        "question": question.text,
        "choices": list(question.choices),
        "answer": item.answer,
        "oracle_mode": "program",
    }
    backbone = load_backbone("pocket")
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "grpo.jsonl"
        path.write_text(json.dumps(row) + "\n")
        values = rewarded(path, backbone, ModuleModels(ModuleSettings(), answering=MODELS["pocket"]))
    backbone.close()
    if any(value != [1.0] for value in values[1:]):
        raise SystemExit(f"the reply was not run as a program: rewards {values}")


if __name__ == "__main__":
    main()
