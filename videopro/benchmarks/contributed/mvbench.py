"""MVBench: 20 tasks about change over time, 200 questions each, on videos of other datasets.

    json/action_sequence.json ...          the questions: one file per task (or hf:OpenGVLab/MVBench)
    video/star/Charades_segment/... ...    the videos, cut to the questions' parts

Format, prompt and scorer: video_chat2/mvbench.ipynb of github.com/OpenGVLab/Ask-Anything, commit 71ac7a2. The
folders are as in lmms_eval/tasks/mvbench/utils.py of EvolvingLMMs-Lab/lmms-eval (commit 75571cf) and in
revision `video` of OpenGVLab/MVBench on the hub, whose videos are cut to the questions' parts.
"""

from pathlib import Path

from videopro.benchmarks import (
    AnswerPrompt,
    BenchmarkSpec,
    Item,
    Metric,
    Protocol,
    each_row,
    file_name,
    text,
    texts,
)
from videopro.errors import BenchmarkError
from videopro.question import Question

FOLDERS = {
    "action_sequence": "star/Charades_segment",
    "action_prediction": "star/Charades_segment",
    "action_antonym": "ssv2_video_mp4",
    "fine_grained_action": "Moments_in_Time_Raw/videos",
    "unexpected_action": "FunQA_test/test",
    "object_existence": "clevrer/video_validation",
    "object_interaction": "star/Charades_segment",
    "object_shuffle": "perception/videos",
    "moving_direction": "clevrer/video_validation",
    "action_localization": "sta/sta_video_segment",
    "scene_transition": "scene_qa/video",
    "action_count": "perception/videos",
    "moving_count": "clevrer/video_validation",
    "moving_attribute": "clevrer/video_validation",
    "state_change": "perception/videos",
    "fine_grained_pose": "nturgbd_convert",
    "character_order": "perception/videos",
    "egocentric_navigation": "vlnqa",
    "episodic_reasoning": "tvqa/video_fps3_hq_segment",
    "counterfactual_inference": "clevrer/video_validation",
}


def rows(source, split):
    # --annotations names the file of one task, or a dataset with a configuration for each.
    one = source.annotations and not source.on_hub
    for task in [Path(source.annotations).stem] if one else FOLDERS:
        records = source.rows(f"json/{task}.json", f"{task}.json", hub=(task, "train"))
        for number, (where, record) in enumerate(records, start=1):
            yield where, {**record, "id": f"{task}/{number}", "task": task}


def item(record, source, split):
    task, video = record["task"], file_name(record, "video")
    question = Question(text(record, "question"), tuple(texts(record, "candidates")))
    # The last of equal options, as in the notebook.
    positions = [
        position for position, choice in enumerate(question.choices) if choice == record.get("answer")
    ]
    if not positions:
        raise BenchmarkError(f"field 'answer' is {record.get('answer')!r}; it must be one of the candidates")
    folders = [source.root / folder / FOLDERS[task] / video for folder in ("video", "")]
    return Item(
        id=record["id"],
        video=next((path for path in folders if path.exists()), folders[0]),
        video_key=f"{FOLDERS[task]}/{video}",
        question=question,
        answer=question.letters[positions[-1]],
        groups={"task": task},
    )


def read_option(reply, question):
    """The notebook's `check_ans`: the first word of the reply's first line, whose bracket the prompt opened,
    names every option whose label "(a)" contains it, or is contained in it."""
    word = ("(" + reply.strip().split("\n")[0]).lower().split(" ")[0]
    named = [
        letter
        for letter in question.letters
        if word.replace(".", "") in f"({letter})".lower() or f"({letter})".lower() in word
    ]
    return " | ".join(named) or None


PROTOCOL = Protocol(
    "mvbench",
    name="official",
    answer_prompt=AnswerPrompt(
        source="OpenGVLab/Ask-Anything, video_chat2/mvbench.ipynb (infer_mvbench), commit 71ac7a2",
        text="Carefully watch the video and pay attention to the cause and sequence of events, the detail "
        "and movement of objects, and the action and pose of persons. Based on your observations, select the "
        "best option that accurately addresses the question.\n"
        "Question: {question}\nOptions:\n{options}\nOnly give the best option.",
        option="({letter}) {text}",
        prefill="Best option:(",
    ),
    reply="text",
    reply_tokens=100,
    subtitles="none",
    groups=("task",),
    metrics=(Metric("Avg", kind="macro", over="task"),),
)
BENCHMARK = BenchmarkSpec(
    "mvbench",
    ("test",),
    (PROTOCOL,),
    each_row(rows, item),
    "json/ and video/",
    parsers={"mvbench": read_option},
)
