"""What the miniature's stages have to leave, because of what went in.

    python -m tests.support.miniature.checks FOLDER

It says nothing about how good the answers are: the videos are drawn, and the training has a few steps. Every
expected value follows from the files that `tests.support.miniature` made, or from the config.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import av
import yaml
from safetensors.torch import load_file

from perf.transcripts import word_errors
from tests.support.miniature.__main__ import BENCHMARKS
from tests.support.miniature.videos import SEED
from videopro.benchmarks import load
from videopro.cli import CONFIGS, cache_root
from videopro.modules.models import Transcript, load_ocr, read_speech, transcribe_video
from videopro.question import LETTERS
from videopro.video import Video, load_subtitles

RUNS = {
    "native": ("lvbench", "videomme", "longvideobench", "mlvu"),
    "videopro": ("lvbench", "videomme", "longvideobench", "mlvu"),
    **dict.fromkeys(("program", "sft"), ("lvbench", "videomme")),
    **dict.fromkeys(("lengths-native", "lengths-videopro"), ("short", "medium")),
}
MOST_WORDS_WRONG = 0.35
"""Whisper's smallest model on a synthesizer's voice that reads invented stories: 9 % of plain sentences were
wrong in perf/transcripts.json. A transcript of another video, or with other times, is wrong in nearly all."""


Checks: TypeAlias = Iterator[tuple[str, bool]]


def checks(folder: Path) -> Checks:
    """Each thing that has to be so, and whether it is."""
    output = folder / "output"
    yield from _files(folder)
    yield from _transcript(folder)
    yield from _pilot(output)
    yield from _rows(folder, output)
    yield from _training(output)
    yield from _runs(output)
    yield from _planner_walk(folder)
    if (folder / "engine").exists():
        yield from _engine_walk(folder)


def _files(folder: Path) -> Checks:
    for name, split in (
        *(("cg_bench", "full"), ("lvbench", "test"), ("videomme", "long")),
        *(("longvideobench", "val"), ("mlvu", "test")),
    ):
        found = load(name, split=split, root=folder / "data" / name, protocol="videopro")
        # Every video has eleven questions; one of Video-MME's is long.
        questions = 11 * (1 if split == "long" else len(BENCHMARKS[name][1]))
        yield f"{name} has {questions} questions", len(found.items) == questions
        yield f"the videos of {name} are unpacked", all(item.video.is_file() for item in found.items)
    clues = folder / "data" / "cg_bench" / "cg_clue_videos"
    yield "clips of CG-Bench's clues, which nobody asks about, are not unpacked", not clues.exists()


def _transcript(folder: Path) -> Checks:
    """LVBench has no subtitles, so its video was heard; what is said in it is known."""
    (name,) = BENCHMARKS["lvbench"][1]
    lines = load_subtitles(folder / "videos" / f"{name}.srt").lines
    heard = _heard(folder / "data" / "lvbench" / "videos" / "lv0.mp4").lines
    wrong, words = word_errors(*(" ".join(line.text for line in said) for said in (lines, heard)))
    yield f"LVBench's video is transcribed: {wrong} of {words} words wrong", wrong / words < MOST_WORDS_WRONG


def _heard(video: Path) -> Transcript:
    """The stored transcript."""
    settings = yaml.safe_load((CONFIGS / "reproduce" / "miniature.yaml").read_text())

    def is_missing() -> Any:
        raise AssertionError(f"{video} was not transcribed")

    speech = read_speech(settings["modules"]["speech"])
    return transcribe_video(Video.open(video), speech, is_missing, cache_root() / "speech")


def _rows(folder: Path, output: Path) -> Checks:
    sft, grpo = (json_lines(output / "synthesis" / f"{name}.jsonl") for name in ("sft", "grpo"))
    held_out = json.loads((folder / "data" / "cg_bench" / "cgbench_mini.json").read_text())
    ids = {str(record["qid"]) for record in held_out}
    yield "both trainings have rows", bool(sft and grpo)
    yield "no row is of CG-Bench mini", not ids & {str(row["question_id"]) for row in [*sft, *grpo]}
    taught, reinforced = ({row["videos"][0] for row in rows} for rows in (sft, grpo))
    yield "SFT and GRPO share no video", not taught & reinforced
    gold = {
        str(record["qid"]): record["answer"]
        for record in json.loads((folder / "data" / "cg_bench" / "cgbench.json").read_text())
    }
    right = [row["choices"][LETTERS.index(row["answer"])] == gold[str(row["question_id"])] for row in grpo]
    yield "every prompt of GRPO has the right answer, however its options were shuffled", all(right)


def _pilot(output: Path) -> Checks:
    """Each stage but those for files was measured on a few rows, apart from what starting it takes."""
    measured = json.loads((output / "pilot/pilot.json").read_text())["stages"]
    done = {path.stem for path in (output / "done").iterdir()}
    files = {name for name in done if name.startswith(("download", "check"))}
    yield f"the pilot measured all {len(done - files)} stages", set(measured) == done - files
    asked = [measured[name]["work"] for name in ("infer-native", "infer-videopro")]
    yield "it asked two questions of each benchmark", asked == [[2, 2, 2, 2]] * 2
    took = [each for stage in measured.values() for each in stage["took"]]
    yield (
        "each command took time, and memory",
        all(each["seconds"] > 0 and each["memory"] > 1e8 for each in took),
    )
    working = {name for name, stage in measured.items() if any(t["working"] > 0 for t in stage["took"])}
    yield f"work is told from starting in {len(working)} stages", working == set(measured) - {"report"}
    yield "its teacher's tokens were counted", all(each > 0 for each in measured["synthesize"]["tokens"])


def _training(output: Path) -> Checks:
    settings = yaml.safe_load((output / "configs" / "grpo.yaml").read_text())
    sft = adapter(output / "sft")
    yield "SFT moved the adapter", any(tensor.any() for name, tensor in sft.items() if "lora_B" in name)
    yield from _moved(output, output / "grpo", "GRPO")
    replies = json_lines(output / "grpo" / "programs.jsonl")
    # Two steps of a group of four in each of two processes.
    expected = settings["max_steps"] * settings["per_device_train_batch_size"] * 2
    yield f"GRPO ran {expected} programs", len(replies) == expected
    for name in ("sft", "grpo"):
        state = json.loads((output / name / "trainer_state.json").read_text())
        steps = yaml.safe_load((output / "configs" / f"{name}.yaml").read_text())["max_steps"]
        yield f"{name} took {steps} steps", state["global_step"] == steps


def _moved(output: Path, grpo: Path, what: str) -> Checks:
    before, after = adapter(output / "sft"), adapter(grpo)
    yield f"{what} went on with SFT's adapter", before.keys() == after.keys()
    yield f"{what} moved it", any(not tensor.equal(before[name]) for name, tensor in after.items())


def _answered(folder: Path, what: str) -> Checks:
    summary = json.loads((folder / "summary.json").read_text())
    yield f"{what} answered 4 questions", summary["n"] == 4 and summary["coverage"] == 1
    yield f"{what} has no errors", not summary["errors"] and not summary["exceptions"]


def _runs(output: Path) -> Checks:
    for name, benchmarks in RUNS.items():
        for benchmark in benchmarks:
            yield from _answered(output / "runs" / name / benchmark, f"{name} on {benchmark}")
    calls = [
        call["fn"]
        for trace in json_lines(output / "runs" / "videopro" / "longvideobench" / "traces.jsonl")
        for answer in trace["rounds"]
        for call in (answer["execution"] or {}).get("calls", [])
    ]
    yield f"programs asked the modules: {', '.join(sorted(set(calls)))}", "query_mc" in calls
    report = (output / "report" / "report.md").read_text()
    for name in (*(f"Table {n}" for n in (1, 2, 4, 5)), *(f"Figure {n}" for n in (2, 4, 5))):
        yield f"the report has the paper's {name}", name in report


QUESTIONS = 8
"""Those that launch/miniature.sh has the planner asked."""


def _planner_walk(folder: Path) -> Checks:
    """The second walk: GRPO on the planner's own failures under DeepSpeed, and its merged planner."""
    walked = folder / "planner"
    yield from _prompts(folder / "output", walked / "prompts")
    (state,) = (walked / "grpo").glob("checkpoint-*/global_step*")
    shards = sorted(path.name for path in state.glob("zero_pp_rank_*_optim_states.pt"))
    expected = [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in (0, 1)]
    yield "GRPO's optimizer was spread over two ranks under DeepSpeed", shards == expected
    yield from _merged(folder, walked)
    yield from _signs(folder)


def _prompts(before: Path, made: Path) -> Checks:
    rows = json_lines(made / "grpo.jsonl")
    native, planned = (
        {trace["question_id"]: trace for trace in json_lines(made / name / "traces.jsonl")}
        for name in ("native", "planner")
    )
    plans = [row for row in rows if row["kind"] == "plan"]
    fixes = {row["question_id"] for row in rows if row["kind"] == "bug_fix"}
    yield f"{QUESTIONS} questions were asked", len(native) == len(planned) == QUESTIONS
    yield "each has a plan", sorted(row["question_id"] for row in plans) == sorted(planned)
    taught = {Path(row["videos"][0]).name for row in json_lines(before / "synthesis" / "sft.jsonl")}
    asked = {Path(row["videos"][0]).name for row in rows}
    yield "no prompt is about a video that the planner was fine-tuned on", not taught & asked
    # A reply without a program has nothing to fix.
    failed = {
        name
        for name, trace in planned.items()
        if trace["rounds"][0]["program"] and _execution(trace)["status"] == "failed"
    }
    yield f"each of {len(failed)} failed programs gives a bug fix", fixes == failed
    sure = {name for name, trace in native.items() if _is_right_and_sure(trace)}
    as_native = {row["question_id"] for row in plans if row["oracle_mode"] == "native"}
    yield f"the oracle mode is native for the {len(sure)} that are natively right and sure", as_native == sure
    identity = yaml.safe_load((made / "planner" / "config.yaml").read_text())["identity"]
    yield "the planner's modules had EasyOCR", identity["method"]["ocr"] == "easyocr:en"


def _execution(trace: Any) -> Any:
    return trace["rounds"][0]["execution"] or {"status": "failed"}


def _is_right_and_sure(trace: Any) -> bool:
    answer = _execution(trace)["answer"]
    return answer["letter"] == trace["gold"] and answer["confidence"] >= 0.75


def _merged(folder: Path, walked: Path) -> Checks:
    yield from _moved(folder / "output", walked / "grpo", "GRPO under DeepSpeed")
    grpo = adapter(walked / "grpo")
    (base,) = (folder / "hub" / "hub" / "models--Qwen--Qwen3-VL-8B-Instruct").glob("snapshots/*")
    plain, merged = (load_file(where / "model.safetensors") for where in (base, walked / "merged"))
    config = json.loads((walked / "grpo" / "adapter_config.json").read_text())
    name = next(name for name in sorted(grpo) if name.endswith("lora_A.weight"))
    place = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight") + ".weight"
    product = grpo[name.replace("lora_A", "lora_B")].float() @ grpo[name].float()
    expected = plain[place].float() + product * config["lora_alpha"] / config["r"]
    # The checkpoint is stored in bf16: eight bits of fraction.
    close = (merged[place].float() - expected).abs().max() <= expected.abs().max() / 2**8
    yield "the merged planner is base and adapter", bool(close)


def _signs(folder: Path) -> Checks:
    """EasyOCR's published weights read the videos' signs, whose words the questions name."""
    ocr = load_ocr("easyocr:en")
    read, asked = 0, 0
    for item in load("pocket", split="fresh", world_seed=SEED).items:
        video = folder / "videos" / f"{item.video.stem}.mp4"
        if "sign" not in item.question.text or not video.exists() or item.answer is None:
            continue
        middle = sum(item.evidence[0]) / 2
        with av.open(str(video)) as container:
            pictures = container.decode(video=0)
            picture = next(each for each in pictures if each.time is not None and each.time >= middle)
        texts = [region.text for region in ocr.read(picture.to_ndarray(format="rgb24"))]
        asked += 1
        read += item.question.choices[LETTERS.index(item.answer)] in texts
    # When this was written: 9 of 9.
    yield f"EasyOCR reads {read} of {asked} signs", asked > 0 and read >= asked * 2 / 3


RATIO_WITHIN = 0.02
"""How far the mean importance ratio of a step may be from 1: the engine and the trainer score the same reply
with the same weights, and differ by rounding."""


def _engine_walk(folder: Path) -> Checks:
    """The walk by a real engine: replies of each version of the policy, and answers."""
    walked = folder / "engine"
    yield from _rollouts(walked)
    yield from _answers(walked / "runs")
    yield from _moved(folder / "output", walked / "grpo", "GRPO with an engine")


def _rollouts(walked: Path) -> Checks:
    settings = yaml.safe_load((walked / "configs" / "grpo.yaml").read_text())
    versions = Counter(row["policy_version"] for row in json_lines(walked / "grpo" / "programs.jsonl"))
    # A group of four in each of two processes, by a policy that has had no update, then one, and so on.
    each = settings["per_device_train_batch_size"] * 2
    expected = dict.fromkeys(range(settings["max_steps"]), each)
    yield f"the engines wrote {each} replies with each version of the policy", versions == expected
    state = json.loads((walked / "grpo" / "trainer_state.json").read_text())
    ratio = "sampling/importance_sampling_ratio/mean"
    ratios = [line[ratio] for line in state["log_history"] if ratio in line]
    near = all(abs(each - 1) <= RATIO_WITHIN for each in ratios)
    yield (
        f"the importance ratio of {len(ratios)} steps is near 1: {ratios}",
        near and len(ratios) == settings["max_steps"],
    )


def _answers(runs: Path) -> Checks:
    for name in ("native", "videopro"):
        folder = runs / name / "lvbench"
        yield from _answered(folder, f"{name} with an engine")
        logs = [path.read_text() for path in folder.glob("work/logs/rank*-engine.log")]
        yield f"{name} had an engine for each process", len(logs) == 2 and all("vllm" in log for log in logs)


def adapter(folder: Path) -> dict[str, Any]:
    """The weights of an adapter."""
    return load_file(folder / "adapter_model.safetensors")


def json_lines(path: Path) -> list[Any]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def main(folder: Path) -> int:
    """Print every check. Returns 1 if one does not hold."""
    failed = 0
    for what, holds in checks(folder):
        print(f"{'ok    ' if holds else 'FAILED'} {what}")
        failed += not holds
    print(f"{failed} checks failed" if failed else "everything is as it has to be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
