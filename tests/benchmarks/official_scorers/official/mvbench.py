"""MVBench."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.official_scorers import data_contributed
from tests.benchmarks.official_scorers.official.script import Script
from tests.benchmarks.official_scorers.ours import Scores

MVBENCH = Script("OpenGVLab/Ask-Anything", "video_chat2/mvbench.ipynb", "71ac7a2")


def mvbench(repositories: Path, scratch: Path) -> Scores:
    """The notebook from its loop over the questions on, with its questions, its treatment of a reply and its
    scores, in percent."""
    world = data_contributed.mvbench()
    current: dict[str, Any] = {}
    names = ("data_list", "MVBench_dataset", "infer_mvbench", "check_ans")
    script = MVBENCH.names(
        repositories, *names,
        Dataset=object, EasyDict=lambda given: SimpleNamespace(**given),
        torch=SimpleNamespace(no_grad=contextlib.nullcontext),
        model=SimpleNamespace(encode_img=lambda video, text: (None, None)), ask=lambda text, conv: None,
        answer=lambda **given: (current["reply"], None),
    )  # fmt: skip
    titles = {Path(entry[0]).stem: title for title, entry in script.data_list.items()}
    by_id = dict(zip(world.ids, world.asked, strict=True))
    order: list[str] = []

    def examples() -> Any:
        for file, records in world.files.items():
            for number, record in enumerate(records, start=1):
                task = Path(file).stem
                order.append(f"{task}/{number}")
                current["reply"] = by_id[order[-1]].reply
                question, answer = script.MVBench_dataset.qa_template(None, record)
                video = SimpleNamespace(shape=(3, 1, 1), reshape=lambda *shape: SimpleNamespace(to=str))
                yield {"video": video, "question": question, "answer": answer, "task_type": titles[task]}

    source = MVBENCH.source(repositories)
    loop = source[source.index("save_path = ") :]
    space = {**vars(script), "tqdm": iter, "dataset": examples(), "json": json}
    with contextlib.chdir(scratch), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(loop, MVBENCH.file, "exec"), space)
    right = {
        key: script.check_ans(pred=result["pred"], gt=result["gt"])
        for key, result in zip(order, space["res_list"], strict=True)
    }
    tasks = {title: task for task, title in titles.items()}
    numbers = {tasks.get(title, title): round(share, 10) for title, share in space["final_res"].items()}
    return Scores("".join(str(int(right[key])) for key in world.ids), numbers)
