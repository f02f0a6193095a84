"""Synthesis as a whole: from questions to datasets and their card, read back by a plain reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fake_backbone import confident_answer
from tests.support.stub_server import StubServer, text_of
from tests.support.synthesis_runs import KEY, datasets, flags, rows
from tests.support.synthesis_runs import own_world as own_world
from tests.support.synthesis_runs import root as root
from tests.support.synthesis_runs import stub as stub
from tests.support.synthesis_world import (
    BROKEN,
    LIKE_NATIVE,
    NO_FORM,
    NO_MODELS,
    RIGHT,
    MoodyBackbone,
    answered,
    crashed,
    load_moody,
    make_questions,
    native,
    program,
    record,
)
from videopro.backbones.base import ChoiceRequest
from videopro.benchmarks import load
from videopro.data_synthesis.datasets import Datasets, assemble
from videopro.data_synthesis.decontamination import EvaluationVideos
from videopro.data_synthesis.run import main
from videopro.executor import parse_program
from videopro.question import Answer, Question, prompts
from videopro.traces import Trace, VideoRef, read_traces
from videopro.train.rl import read_grpo_rows
from videopro.video import Frame, Video

# ---- what is made ------------------------------------------------------------------------------------------


def test_from_questions_to_datasets(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of every question follow from what the backbone and the teacher do by construction: native is
    right and sure of question 0, unsure of 1, wrong about 2; programs that look at two frames are right."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    sft = rows(out, "sft.jsonl")
    records = {trace.question_id: trace for trace in read_traces(out / "records.jsonl")}
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
    assert {"native", "program", "bug_fix", "native_refinement", "program_refinement"} == {
        row["kind"] for row in sft
    }, "the world is too small to show every kind"
    for row in sft:
        target = parse_program(row["messages"][1]["content"])
        assert target.well_formed
        assert target.mode == row["mode"] == ("native" if row["kind"] == "native" else "program")
        assert (row["source"], row["family"]) == (
            "jsonl",
            "odd" if int(row["question_id"][-1]) % 2 else "even",
        )
    captured = capsys.readouterr()
    assert "9 questions, 0 without a result" in captured.out
    assert str(out) in captured.out


def test_the_datasets_agree_with_what_happened(root: Path, tmp_path: Path, stub: StubServer) -> None:
    """Every SFT target, run again by hand, is right; GRPO rows carry what the native answer was."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    records = {trace.question_id: trace for trace in read_traces(out / "records.jsonl")}
    for row in rows(out, "grpo.jsonl"):
        trace = records[row["question_id"]]
        question = Question(row["question"], tuple(row["choices"]))
        assert (row["question"], row["choices"], row["answer"]) == (
            *(trace.question, list(trace.choices)),
            trace.gold,
        )
        mood = row["question_id"][-1]
        assert row["native_confidence"] == {"0": 0.9, "1": 0.4, "2": 0.8}[mood]
        assert (row["native_answer"] == row["answer"]) == (mood != "2")
        assert row["oracle_mode"] == ("native" if mood == "0" else "program")
        expected = {
            "plan": lambda q, row: prompts.plan(q, adaptive=True),
            "bug_fix": lambda q, row: prompts.bug_fix(q, row["program"], row["log"]),
            "native_refinement": lambda q, row: prompts.native_refinement(q, prompts.NATIVE_PROGRAM),
            "program_refinement": lambda q, row: prompts.program_refinement(q, row["program"]),
        }[row["kind"]]
        assert row["prompt"] == expected(question, row)
        assert (row["log"] is not None) == (row["kind"] == "bug_fix")
        assert row["subtitles"] is None
    names = [row["id"] for name in ("sft.jsonl", "grpo.jsonl") for row in rows(out, name)]
    assert len(set(rows(out, "sft.jsonl")[0])) == 9
    assert len(names) == len(set(names)) + sum(
        row["id"] in {sft_row["id"] for sft_row in rows(out, "sft.jsonl")} for row in rows(out, "grpo.jsonl")
    )


def test_a_plain_reader_of_the_ms_swift_form_reads_it(root: Path, tmp_path: Path, stub: StubServer) -> None:
    """As ms-swift reads: `messages` with roles, one `<video>` for each file of `videos`, before the text."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    for row in rows(out, "sft.jsonl"):
        user, assistant = row["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        assert set(user) == set(assistant) == {"role", "content"}
        assert user["content"].count("<video>") == len(row["videos"]) == 1
        assert user["content"].startswith("<video>There is" if row["mode"] == "native" else "<video>")
        assert "<video>" not in assistant["content"]
        path = Path(row["videos"][0])
        assert Video.open(path if path.is_absolute() else out / path).duration == pytest.approx(2.0)
        assert "Available functions" not in user["content"], "the short form, as at inference"
    for row in rows(out, "grpo.jsonl"):
        # No reply: ms-swift samples it, and hands `solution` to its reward functions.
        assert row["messages"] == [{"role": "user", "content": f"<video>{row['prompt']}"}]
        assert row["videos"] == [row["video"]]
        assert row["solution"] == row["answer"]


def test_our_own_rows_in_the_ms_swift_form_are_the_same_prompts(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    own = read_grpo_rows(out / "grpo.jsonl").rows
    kept = ("id", "kind", "oracle_mode", "messages", "videos", "solution")
    lines = [json.dumps({name: row[name] for name in kept}) for row in rows(out, "grpo.jsonl")]
    (out / "swift.jsonl").write_text("\n".join(lines))
    # The question, its choices and the right letter are read from the prompt and the solution.
    assert read_grpo_rows(out / "swift.jsonl").rows == own


def test_rows_and_the_teacher_have_prompts_of_their_own(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    refinements = {
        "bug_fix": "fix {question} {choices} {program} {log}",
        "native_refinement": "closer {question} {choices}",
        "program_refinement": "better {question} {choices} {program} {answer} {confidence}",
    }
    planner = {"plan": "plan {question} {choices}", **refinements}
    asked = {
        "plan_program": "TEACHER {question}\nChoices:\n{choices}\n{api}",
        **{kind: f"TEACHER {text}" for kind, text in refinements.items()},
    }
    (tmp_path / "planner.yaml").write_text(yaml.safe_dump(planner))
    (tmp_path / "teacher.yaml").write_text(yaml.safe_dump(asked))
    out = tmp_path / "out"
    words = flags(root, out, stub, "--prompts", str(tmp_path / "planner.yaml"))
    words += ["--teacher-prompts", str(tmp_path / "teacher.yaml")]
    assert main(words, load=load_moody) == 0
    sent = [text_of(body) for body in stub.chats]
    assert all(text.startswith("TEACHER ") for text in sent)
    assert any("query_mc(frames, question, choices" in text for text in sent)
    words_of = {
        "plan": "plan",
        "bug_fix": "fix",
        "native_refinement": "closer",
        "program_refinement": "better",
    }
    grpo = rows(out, "grpo.jsonl")
    assert {row["kind"] for row in grpo} >= {"plan", "native_refinement"}
    for row in grpo:
        assert row["prompt"].startswith(f"{words_of[row['kind']]} {row['question']} A. ")
    for row in rows(out, "sft.jsonl"):
        kind = row["kind"] if row["kind"] in words_of else "plan"
        assert row["messages"][0]["content"].startswith(f"<video>{words_of[kind]} ")
    card = json.loads((out / "card.json").read_text())
    assert card["about"]["settings"]["prompts"] == planner
    assert card["about"]["teacher"]["prompts"] == asked

    # Rows are written again with ours from the same records; another teacher's prompts are another synthesis.
    again = [word for word in words if word not in ("--prompts", str(tmp_path / "planner.yaml"))]
    assert main(again, load=load_moody) == 0
    assert all("plan Which" not in row["prompt"] for row in rows(out, "grpo.jsonl"))
    (tmp_path / "teacher.yaml").write_text(yaml.safe_dump({**asked, "plan_program": "{question}{choices}"}))
    capsys.readouterr()
    assert main(again, load=load_moody) == 2
    assert "teacher_prompts.plan_program: the run has" in capsys.readouterr().err
    (tmp_path / "planner.yaml").write_text(yaml.safe_dump({**planner, "plan": "{question}{choices}{api}"}))
    assert main(words, load=load_moody) == 2
    assert "plan shows {api}, and a row knows no video's modules" in capsys.readouterr().err


def test_videos_below_the_folder_are_named_from_it(tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    make_questions(out / "b", videos=1, questions=1)
    # A folder with other content is not a synthesis, so the run's own files come first.
    (out / "b").rename(tmp_path / "b")
    assert main(flags(tmp_path / "b", out, stub), load=load_moody) == 0
    (tmp_path / "b").rename(out / "b")
    assert main([*flags(out / "b", tmp_path / "other", stub)], load=load_moody) == 0
    assert rows(tmp_path / "other", "sft.jsonl")[0]["videos"] == [str(out / "b" / "videos" / "v0.mp4")]
    assert main([*flags(out / "b", out / "b" / "synth", stub)], load=load_moody) == 0
    assert Path(rows(out / "b" / "synth", "sft.jsonl")[0]["videos"][0]).is_absolute()


def test_the_teacher_sees_only_the_question(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub), load=load_moody) == 0
    asked = {item.id: item for item in load("jsonl", root=root).items}
    assert len(stub.chats) > 36
    for body in stub.chats:
        (message,) = body["messages"]
        assert set(message) == {"role", "content"}
        assert isinstance(message["content"], str), "text alone: no frames"
        for secret in (*asked, ".mp4", str(root), '"odd"', '"even"', "native_answer"):
            assert secret not in message["content"], secret
    plans = [text_of(body) for body in stub.chats if "program:\n<code>" not in text_of(body)]
    assert all("Available functions" in text and "Do not call query_native" in text for text in plans)


def test_programs_of_a_question_are_drawn_apart(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub, "--programs", "6"), load=load_moody) == 0
    seeds: dict[str, list[int]] = {}
    for body in stub.chats:
        if "program:\n<code>" not in text_of(body):
            seeds.setdefault(text_of(body), []).append(body["seed"])
    assert [len(set(own)) for own in seeds.values()] == [6] * 9


def test_right_letters_are_balanced(tmp_path: Path, stub: StubServer) -> None:
    make_questions(tmp_path / "b", videos=4, questions=4)
    assert main(flags(tmp_path / "b", tmp_path / "out", stub, "--programs", "1"), load=load_moody) == 0
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["questions"]["right letters"] == {"A": 4, "B": 4, "C": 4, "D": 4}
    assert card["grpo"]["right letters"] == {"A": 4, "B": 4, "C": 4, "D": 4}


def test_text_that_a_trainer_would_take_for_media_is_left_out(tmp_path: Path) -> None:
    """A placeholder in a question, a program or a log would shift which video belongs where."""
    clean = record(
        native("A", 0.9), program(crashed()), program(answered("A", 0.9), 7, kind="bug_fix", refines=1)
    )
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
    twin, other = (
        replace(first, question_id="q2"),
        replace(first, question_id="q3", video=VideoRef("/videos/w.mp4", "w", "other content", 60.0)),
    )
    made = assembled(tmp_path, other, twin, first)
    assert [row["question_id"] for row in made.sft] == ["q1", "q3"]
    assert made.rejected == {"native: the same example in another question": 1}


def assembled(folder: Path, *traces: Trace) -> Datasets:
    return assemble(traces, tau=0.75, source="s", folder=folder, excluded=EvaluationVideos(), seeds={})


# ---- the card ----------------------------------------------------------------------------------------------


def test_the_card_counts_the_rows(root: Path, tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    prices = ("--price-in", "2.5", "--price-out", "10")
    assert main(flags(root, out, stub, *prices, "--without-family", "odd"), load=load_moody) == 0
    card, sft = json.loads((out / "card.json").read_text()), rows(out, "sft.jsonl")
    assert card["sft"]["rows"] == len(sft)
    assert card["sft"]["by kind"] == dict(sorted(Counter(row["kind"] for row in sft).items()))
    assert card["sft"]["by mode"] == dict(sorted(Counter(row["mode"] for row in sft).items()))
    assert list(card["sft"]["by family and kind"]) == ["even"]
    assert card["questions"]["not asked"] == {"family odd held out": 3}
    assert card["native"] == {
        "right and confident": 3,
        "right and unsure": 0,
        "wrong and confident": 3,
        "wrong and unsure": 0,
        "no letter": 0,
    }
    first = [
        turn
        for trace in read_traces(out / "records.jsonl")
        for turn in trace.rounds
        if turn.prompt_kind == "plan_program"
    ]
    texts = Counter(turn.raw for turn in first)
    assert card["programs"]["first"]["replies"] == 24
    assert card["programs"]["first"]["failure classes"] == {"NameError": texts[BROKEN]}
    assert card["programs"]["first"]["no program"] == texts[NO_FORM]
    assert card["programs"]["first"]["not well-formed"] == texts[NO_FORM]
    requests = len(stub.chats)
    assert card["teacher"]["requests"] == requests
    assert card["teacher"]["cost"] == pytest.approx(requests * (100 * 2.5 + 10 * 10) / 1e6, abs=1e-4)
    assert card["about"]["teacher"]["model"] == "served"
    text = (out / "CARD.md").read_text()
    assert "held out" in text
    for path in (out / "card.json", out / "CARD.md"):
        for secret in (str(tmp_path), str(root), KEY, "127.0.0.1"):
            assert secret not in path.read_text()


def test_the_key_is_in_no_file(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub), load=load_moody) == 0
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 6
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


# ---- the pocket world --------------------------------------------------------------------------------------


class Guesser(MoodyBackbone):
    """Guesses from the pixels and the question, the same every time; so is its confidence."""

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        import hashlib

        digest = hashlib.sha256(request.question.text.encode())
        for frame in frames:
            digest.update(frame.image.tobytes())
        draw = digest.digest()
        letter = request.question.letters[draw[0] % len(request.question.letters)]
        sure = 0.5 + draw[1] / 512
        return confident_answer(letter, sure, request.question.letters, tokens_in=100)


def test_the_pocket_world_end_to_end(tmp_path: Path) -> None:
    """Real videos, the offline teacher and a guessing backbone: every prompt and row keeps its form."""
    out = tmp_path / "out"
    args = ["--source", "pocket", "--teacher", "pocket-teacher", "--model", "m", "--output", str(out)]
    args += [*NO_MODELS, "--limit", "5", "--without-family", "sign"]

    def guesser(model: str, **settings: Any) -> Guesser:
        return Guesser(model)

    assert main(args, load=guesser) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["recorded"] == 5
    assert card["about"]["source"] == "pocket/train"
    assert card["questions"]["not asked"] == {"family sign held out": 180}
    assert card["teacher"]["requests"] == 0
    assert "sign" not in card["grpo"]["by family and kind"]
    assert sum(card["programs"]["first"]["teacher's faults"].values()) == 20
    sft, grpo = rows(out, "sft.jsonl"), rows(out, "grpo.jsonl")
    assert sft
    assert sum(row["kind"] == "plan" for row in grpo) == 5
    for row in sft:
        assert parse_program(row["messages"][1]["content"]).well_formed
        assert row["length"] in ("short", "medium", "long")
        assert row["source"] == "pocket/train"
    assert all(Path(row["subtitles"]).exists() and Path(row["video"]).exists() for row in grpo)
    before = datasets(out)
    assert main(args, load=guesser) == 0
    assert datasets(out) == before
