"""Programs through `videopro infer`: a planner's server that replies with them, a folder of questions about
pocket videos to ask for them, and the run's readers afterwards.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from perf.programs.module_calls import KINDS, program_texts
from perf.timing import timed
from videopro.commands import compare, infer
from videopro.commands import report as report
from videopro.commands import view as view
from videopro.pocket import world
from videopro.runs import RunFolder
from videopro.traces import Trace

_NUMBER = re.compile(r"question number (\d+)")


class PlannerServer:
    """An OpenAI-compatible server that replies to question number N with program N, and to the request for a
    refinement of it with another one. A context manager."""

    def __init__(self, programs: Sequence[str], port: int = 0) -> None:
        self.replies: Counter[int] = Counter()
        """How often each question was asked about."""
        self._programs = programs
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def reply(self, prompt: str) -> str:
        """The reply to a prompt that names the number of its question."""
        (number,) = {int(match) for match in _NUMBER.findall(prompt)}
        with self._lock:
            turn = self.replies[number]
            self.replies[number] += 1
        code = self._programs[(number + turn * (len(self._programs) // 2 + 1)) % len(self._programs)]
        return f"<planning>\nLook for it.\n</planning>\n<code>\n{code}\n</code>"


def _handler(server: PlannerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "hostile", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = server.reply(json.dumps(body["messages"]))
            message = {"role": "assistant", "content": content}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            about = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
            self._send({**about, "choices": [choice], "usage": usage})

        def _send(self, content: Any) -> None:
            # Escaped: a program may hold a lone surrogate.
            data = json.dumps(content).encode("ascii")
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def write_questions(root: Path, count: int, videos: int) -> list[str]:
    """A folder of so many questions about the first short videos of pocket's val split. Returns their ids."""
    root.mkdir(parents=True, exist_ok=True)
    short = [(name, seed) for name, length, seed in world.video_names("val") if length == "short"][:videos]
    for name, seed in short:
        if not (root / f"{name}.mp4").exists():
            world.make_video("short", seed, root / name)
    about = {f"videos/{name}.mp4": name for name, _ in short}
    records = [record for record in world.records("val") if record["video"] in about]
    lines = []
    for number in range(count):
        record = records[number % len(records)]
        name = about[str(record["video"])]
        lines.append(
            {
                "id": f"q{number}",
                "video": f"{name}.mp4",
                "subtitles": f"{name}.srt",
                "question": f"{record['question']} (question number {number})",
                "choices": record["choices"],
                "answer": record["answer"],
            }
        )
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [str(line["id"]) for line in lines]


def infer_command(root: Path, run: Path, url: str, *options: str) -> list[str]:
    """The words of `videopro infer` for such a folder and server, with the models that pocket brings (its own
    grounding, RapidOCR, its encoder) unless `options` name others."""
    arguments = ["--benchmark", "jsonl", "--root", str(root), "--model", "pocket", "--output", str(run)]
    arguments += ["--method", "videopro", "--planner", f"api:hostile@{url}", "--workers", "1"]
    return [*arguments, "--options", "planner_prompt=short", *options]


def read_everywhere(run: Path, pages: Path, *arguments: Path) -> dict[str, int]:
    """The exit statuses of the commands that read a run. `arguments`: runs to compare it with."""
    runs = [str(run), *map(str, arguments)]
    statuses = {
        "view": view.main([str(run), "--output", str(pages / "view")]),
        "report": report.main([*runs, "--output", str(pages / "report")]),
    }
    return statuses | ({"compare": compare.main(runs)} if arguments else {})


def attack_inference(work: Path, count: int, seed: int) -> dict[str, Any]:
    """Ask a question for each of so many hostile programs, and read the run with every command. Returns what
    came of it. `work`: a folder that is kept; the same call resumes."""
    named = list(program_texts(count, seed))
    ids = write_questions(work / "questions", count, 2)
    # The planner's address is part of the run.
    port_file = work / "port"
    port = int(port_file.read_text()) if port_file.exists() else 0
    with PlannerServer([text for _, text in named], port) as planner, timed() as spent:
        port_file.write_text(str(planner.port))
        statuses = {"infer": infer.main(infer_command(work / "questions", work / "run", planner.url))}
        arguments = ["--benchmark", "jsonl", "--root", str(work / "questions"), "--model", "pocket"]
        arguments += ["--method", "native", "--workers", "1", "--output", str(work / "direct")]
        statuses["infer, direct"] = infer.main(arguments)
        statuses |= read_everywhere(work / "run", work / "read", work / "direct")
    folder = RunFolder(work / "run")
    traces = {trace.question_id: trace for trace in folder.read()}
    outcomes: dict[str, Counter[str]] = {}
    for question, (name, _) in zip(ids, named, strict=True):
        kind = name if name in KINDS else "cases"
        outcomes.setdefault(kind, Counter())[_outcome(traces.get(question))] += 1
    return {
        "programs": count,
        "seed": seed,
        "exit_statuses": statuses,
        "questions_recorded": len(traces.keys() & set(ids)),
        "lines_set_aside": len(folder.set_aside.lines),
        "largest_trace_bytes": max(map(len, folder.traces.read_bytes().splitlines())),
        "first_programs": {kind: dict(counts.most_common()) for kind, counts in sorted(outcomes.items())},
        "errors": dict(Counter(trace.error.type for trace in traces.values() if trace.error is not None)),
        **spent.rounded(),
    }


def _outcome(trace: Trace | None) -> str:
    """How a question's first program ended."""
    if trace is None:
        return "not recorded"
    if not trace.rounds or trace.rounds[0].execution is None:
        return f"no execution: {trace.error.type if trace.error is not None else 'no error'}"
    done = trace.rounds[0].execution
    return done.error.type if done.error is not None else done.status
