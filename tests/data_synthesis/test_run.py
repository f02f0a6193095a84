"""Synthesis as a whole: from questions to datasets and their card, and what goes wrong."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.colours import ColourBackbone
from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis import (
    BROKEN,
    KEY,
    LIKE_NATIVE,
    NO_FORM,
    RIGHT,
    Made,
    answered,
    crashed,
    datasets,
    flags,
    load_moody,
    make_questions,
    native,
    program,
    record,
    rows,
    usual,
)
from videopro.benchmarks import load
from videopro.data_synthesis.datasets import Datasets, assemble
from videopro.data_synthesis.decontamination import EvaluationVideos
from videopro.data_synthesis.run import main
from videopro.executor import parse_program
from videopro.question import Question, prompts
from videopro.traces import Trace, VideoRef, read_traces
from videopro.train.rl import read_grpo_rows
from videopro.video import Video


def test_from_questions_to_datasets(made: Made) -> None:
    """The rows of every question follow from what the backbone and the teacher do by construction: native is
    right and sure of question 0, unsure of 1, wrong about 2; programs that look at two frames are right."""
    sft = rows(made.folder, "sft.jsonl")
    records = {trace.question_id: trace for trace in read_traces(made.folder / "records.jsonl")}
    assert len(records) == 9
    found = Counter((row["question_id"], row["kind"]) for row in sft)
    for name, trace in records.items():
        first = [turn.raw for turn in trace.rounds if turn.prompt_kind == "plan_program"]
        assert len(first) == 4
        mood = name[-1]
        expected = Counter({(name, "native"): 1} if mood == "0" else {})
        if (RIGHT in first and mood != "0") or (LIKE_NATIVE in first and mood == "1"):
            expected[name, "program"] = 1
        if mood != "0":
            expected[name, "native_refinement"] = 1
        if BROKEN in first:
            expected[name, "bug_fix"] = 1
        if LIKE_NATIVE in first and mood != "0":
            expected[name, "program_refinement"] = 1
        assert Counter({key: n for key, n in found.items() if key[0] == name}) == expected, name
    kinds = {row["kind"] for row in sft}
    assert kinds == {"native", "program", "bug_fix", "native_refinement", "program_refinement"}, "too small"
    for row in sft:
        target = parse_program(row["messages"][1]["content"])
        assert target.well_formed
        assert target.mode == row["mode"] == ("native" if row["kind"] == "native" else "program")
        family = "odd" if int(row["question_id"][-1]) % 2 else "even"
        assert (row["source"], row["family"]) == ("jsonl", family)
    assert "9 questions, 0 without a result" in made.printed


def test_rows_have_the_form_that_trainers_read(made: Made) -> None:
    """As ms-swift reads: `messages` with roles, one `<video>` for each file of `videos`, before the text.
    GRPO rows have no reply, which is sampled; they carry the right letter and what the native answer was."""
    sft, grpo = rows(made.folder, "sft.jsonl"), rows(made.folder, "grpo.jsonl")
    for row in sft:
        user, assistant = row["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        assert set(user) == set(assistant) == {"role", "content"}
        assert user["content"].count("<video>") == len(row["videos"]) == 1
        assert user["content"].startswith("<video>There is" if row["mode"] == "native" else "<video>")
        assert "<video>" not in assistant["content"]
        assert Video.open(Path(row["videos"][0])).duration == pytest.approx(2.0)
        assert "Available functions" not in user["content"], "the short form, as at inference"
    records = {trace.question_id: trace for trace in read_traces(made.folder / "records.jsonl")}
    prompt_of = {
        "plan": lambda q, row: prompts.plan(q, adaptive=True),
        "bug_fix": lambda q, row: prompts.bug_fix(q, row["program"], row["log"]),
        "native_refinement": lambda q, row: prompts.native_refinement(q, prompts.NATIVE_PROGRAM),
        "program_refinement": lambda q, row: prompts.program_refinement(q, row["program"]),
    }
    for row in grpo:
        trace = records[row["question_id"]]
        asked = (trace.question, list(trace.choices), trace.gold)
        assert (row["question"], row["choices"], row["answer"]) == asked
        mood = row["question_id"][-1]
        assert row["native_confidence"] == {"0": 0.9, "1": 0.4, "2": 0.8}[mood]
        assert (row["native_answer"] == row["answer"]) == (mood != "2")
        assert row["oracle_mode"] == ("native" if mood == "0" else "program")
        question = Question(row["question"], tuple(row["choices"]))
        assert row["prompt"] == prompt_of[row["kind"]](question, row)
        assert row["messages"] == [{"role": "user", "content": f"<video>{row['prompt']}"}]
        assert (row["videos"], row["solution"]) == ([row["video"]], row["answer"])
        assert (row["log"] is not None) == (row["kind"] == "bug_fix")
        assert row["subtitles"] is None
    for dataset in (sft, grpo):
        assert len({row["id"] for row in dataset}) == len(dataset)


def test_our_own_rows_in_the_ms_swift_form_are_the_same_prompts(made: Made, tmp_path: Path) -> None:
    kept = ("id", "kind", "oracle_mode", "messages", "videos", "solution")
    lines = [json.dumps({name: row[name] for name in kept}) for row in rows(made.folder, "grpo.jsonl")]
    (tmp_path / "swift.jsonl").write_text("\n".join(lines))
    # The question, its choices and the right letter are read from the prompt and the solution.
    own = read_grpo_rows(made.folder / "grpo.jsonl").rows
    assert read_grpo_rows(tmp_path / "swift.jsonl").rows == own


def test_rows_have_prompts_of_their_own(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    refinements = {
        "bug_fix": "fix {question} {choices} {program} {log}",
        "native_refinement": "closer {question} {choices}",
        "program_refinement": "better {question} {choices} {program} {answer} {confidence}",
    }
    planner = {"plan": "plan {question} {choices}", **refinements}
    (tmp_path / "planner.yaml").write_text(yaml.safe_dump(planner))
    out = tmp_path / "out"
    words = flags(root, out, stub, "--prompts", str(tmp_path / "planner.yaml"))
    assert main(words, load=load_moody) == 0
    words_of = {kind: text.partition(" ")[0] for kind, text in planner.items()}
    grpo = rows(out, "grpo.jsonl")
    for row in grpo:
        assert row["prompt"].startswith(f"{words_of[row['kind']]} {row['question']} A. ")
    for row in rows(out, "sft.jsonl"):
        kind = row["kind"] if row["kind"] in words_of else "plan"
        assert row["messages"][0]["content"].startswith(f"<video>{words_of[kind]} ")
    # Rows are written again with ours from the same records.
    again = [word for word in words if word not in ("--prompts", str(tmp_path / "planner.yaml"))]
    assert main(again, load=load_moody) == 0
    assert all("plan Which" not in row["prompt"] for row in rows(out, "grpo.jsonl"))
    (tmp_path / "planner.yaml").write_text(yaml.safe_dump({**planner, "plan": "{question}{choices}{api}"}))
    assert main(words, load=load_moody) == 2
    assert "plan uses {api}, but a row does not know the modules of a video" in capsys.readouterr().err


def test_videos_below_the_folder_are_named_from_it(tmp_path: Path) -> None:
    trace = record(native("A", 0.9), video=VideoRef(str(tmp_path / "data" / "v.mp4"), "v", "content", 60.0))
    for folder, path in ((tmp_path, "data/v.mp4"), (tmp_path / "other", str(tmp_path / "data" / "v.mp4"))):
        assert assembled(folder, trace).sft[0]["videos"] == [path]


def test_the_teacher_sees_only_the_question_and_draws_each_program_apart(made: Made, root: Path) -> None:
    assert len(made.chats) > 36
    seeds: dict[str, list[int]] = {}
    for body in made.chats:
        (message,) = body["messages"]
        assert set(message) == {"role", "content"}
        text = message["content"]
        assert isinstance(text, str), "text alone: no frames"
        ids = [item.id for item in load("jsonl", root=root).items]
        for secret in (*ids, ".mp4", str(root), '"odd"', '"even"', "native_answer"):
            assert secret not in text, secret
        if "program:\n<code>" not in text:
            assert "Available functions" in text
            assert "Do not call query_native" in text
            seeds.setdefault(text, []).append(body["seed"])
    assert [len(set(own)) for own in seeds.values()] == [4] * 9


def test_further_fields_reach_the_teacher(root: Path, tmp_path: Path, stub: StubServer) -> None:
    def load_model(model: str, *, api_body: Any, **settings: Any) -> ColourBackbone:
        return load_moody(model, **settings)

    fields = ["--backbone", 'api_body={"reasoning_effort": "low"}', "--limit", "1", "--programs", "1"]
    assert main(flags(root, tmp_path / "out", stub, *fields), load=load_model) == 0
    assert {body.get("reasoning_effort") for body in stub.chats} == {"low"}


def test_text_that_a_trainer_would_take_for_media_is_left_out(tmp_path: Path) -> None:
    """A placeholder in a question, a program or a log would shift which video belongs where."""
    fix = program(answered("A", 0.9), 7, kind="bug_fix", refines=1)
    clean = record(native("A", 0.9), program(crashed()), fix)
    made = assembled(tmp_path, clean)
    assert [row["kind"] for row in made.sft] == ["native", "bug_fix"]
    assert [row["kind"] for row in made.grpo] == ["plan", "bug_fix"]
    for tag in ("<video>", "<image>", "<|im_end|>"):
        asked = assembled(tmp_path, replace(clean, question=f"What does {tag} mean?"))
        assert (asked.sft, asked.grpo) == ([], [])
        assert asked.rejected == {"question: holds a media placeholder or a control token": 1}
        logged = replace(clean, rounds=(clean.rounds[0], program(crashed(f"Bad: {tag}")), clean.rounds[2]))
        made = assembled(tmp_path, logged)
        assert [row["kind"] for row in made.sft] == ["native"]
        assert [row["kind"] for row in made.grpo] == ["plan"]
        assert made.rejected == {"bug_fix: holds a media placeholder or a control token": 1}


def test_the_same_example_in_two_questions_is_written_once(tmp_path: Path) -> None:
    """The same words about the same video: once; about another video: twice."""
    first = record(native("A", 0.9))
    video = VideoRef("/videos/w.mp4", "w", "other content", 60.0)
    twin, other = replace(first, question_id="q2"), replace(first, question_id="q3", video=video)
    made = assembled(tmp_path, other, twin, first)
    assert [row["question_id"] for row in made.sft] == ["q1", "q3"]
    assert made.rejected == {"native: the same example in another question": 1}


def assembled(folder: Path, *traces: Trace) -> Datasets:
    return assemble(traces, tau=0.75, source="s", folder=folder, excluded=EvaluationVideos(), seeds={})


def test_the_card_counts_the_rows(made: Made, root: Path) -> None:
    card, sft = json.loads((made.folder / "card.json").read_text()), rows(made.folder, "sft.jsonl")
    assert (card["plan"]["questions"], card["plan"]["recorded"], card["questions"]["recorded"]) == (9, 0, 9)
    assert card["sft"]["rows"] == len(sft)
    for field in ("kind", "mode"):
        counted = Counter(row[field] for row in sft)
        assert card["sft"][f"by {field}"] == dict(sorted(counted.items()))
    assert list(card["sft"]["by family and kind"]) == ["even", "odd"]
    letters = card["questions"]["right letters"]
    assert sorted(letters.values()) == [2, 2, 2, 3], "balanced"
    assert card["grpo"]["right letters"] == letters
    sure = {"right and confident": 3, "wrong and confident": 3, "wrong and unsure": 0, "no letter": 0}
    assert card["native"] == {"right and unsure": 3, **sure}
    first = Counter(
        turn.raw
        for trace in read_traces(made.folder / "records.jsonl")
        for turn in trace.rounds
        if turn.prompt_kind == "plan_program"
    )
    programs = card["programs"]["first"]
    assert (programs["replies"], programs["failure classes"]) == (36, {"NameError": first[BROKEN]})
    assert programs["no program"] == programs["not well-formed"] == first[NO_FORM]
    requests = len(made.chats)
    assert (card["teacher"]["requests"], card["about"]["teacher"]["model"]) == (requests, "served")
    assert card["teacher"]["cost"] == pytest.approx(requests * (100 * 2.5 + 10 * 10) / 1e6, abs=1e-4)
    assert "| questions | 9 | 9 |" in (made.folder / "CARD.md").read_text()
    for path in (made.folder / "card.json", made.folder / "CARD.md"):
        for secret in (str(made.folder.parent), str(root), "127.0.0.1"):
            assert secret not in path.read_text()
    files = [path for path in made.folder.rglob("*") if path.is_file()]
    assert len(files) > 6
    assert not [path for path in files if KEY.encode() in path.read_bytes()], "the key is in no file"


def test_a_teacher_that_dies_loses_no_work(
    root: Path, tmp_path: Path, stub: StubServer, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    stub.reply = lambda body: StubFault(401, {}) if len(stub.chats) > 25 else usual(body)
    assert main(flags(root, out, stub, "--videos", "1"), load=load_moody) == 2
    error = capsys.readouterr().err
    assert "refused the key in the environment variable TEACHER_KEY" in error
    assert KEY not in error
    assert rows(out, "records.jsonl")
    stub.reply = usual
    sent = len(stub.chats)
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(made.folder)
    assert len(stub.chats) - sent == len(made.chats) - 25, "what was answered before is not asked again"


def test_a_broken_video_and_a_refused_question_are_counted_and_can_be_asked_about_again(
    tmp_path: Path, stub: StubServer
) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=2, questions=2)
    video = b / "videos" / "v0.mp4"
    whole = video.read_bytes()
    video.write_bytes(b"no video" * 100)
    refused = StubFault(400, {"error": {"message": "too long"}})
    stub.reply = lambda body: refused if "(1)" in text_of(body) else usual(body)
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"VideoError": 2, "BackboneError": 1}
    assert card["rejected"]["question: VideoError"] == 2
    assert card["teacher"]["refused"] >= 4
    assert {row["question_id"] for row in rows(out, "sft.jsonl")} == {"v1q0"}
    video.write_bytes(whole)
    stub.reply = usual
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert {row["question_id"] for row in rows(out, "grpo.jsonl")} == {"v0q0", "v0q1", "v1q0", "v1q1"}


def test_an_unrelated_folder_is_refused(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert main(flags(root, out, stub), load=load_moody) == 2
    assert "contains 'thesis.txt'" in capsys.readouterr().err
    (out / "thesis.txt").unlink()
    (out / "config.yaml").write_text(yaml.safe_dump({"identity": {"method": "native"}}))
    assert main(flags(root, out, stub, "--assemble-only"), load=load_moody) == 2
