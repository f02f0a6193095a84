"""A stand-in for `vllm`: a program that takes its flags and serves what an engine's life needs.

    stub_engine.py serve MODEL --port N --lora-modules NAME=FOLDER ...

It answers /health, /v1/models, and loads and unloads adapters as vLLM does, with a child process as vLLM has
its engine core. Behaviour comes from a JSON file beside it, `stub_engine.json`, read at each start:

    fails: print this, and exit with status 1, if CUDA_VISIBLE_DEVICES is fails_on (if that is there)
    slow: seconds before it answers
    refuses: the message with which adapters are refused
    lingers: a signal to end closes its port only, as vLLM while clients wait for replies
    dies: with the first start, an adapter is refused with status 500, and the program ends soon after, as
        vLLM when its engine core has died

Every start adds a line to `starts.jsonl`: its arguments, its process and its child's, and some of its
environment.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[0]).parent
# Frees something when it is asked to end.
_CHILD = """
import pathlib, signal, sys, time
def free(*_):
    pathlib.Path(sys.argv[1]).touch()
    sys.exit()
signal.signal(signal.SIGTERM, free)
print(flush=True)
time.sleep(600)
"""
_SHOWN = (
    *("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "CUDA_VISIBLE_DEVICES", "RANK", "PYTHONPATH"),
    *("VLLM_API_KEY", "VLLM_PORT"),
)


def install(folder: Path, **behaviour: Any) -> Path:
    """Put the program into a folder. Returns its path, for `EngineSettings.program`."""
    program = folder / "vllm"
    program.write_text(f"#!{sys.executable} -I\n{Path(__file__).read_text(encoding='utf-8')}")
    program.chmod(0o755)
    behave(folder, **behaviour)
    return program


def behave(folder: Path, **behaviour: Any) -> None:
    """What the next start does."""
    (folder / "stub_engine.json").write_text(json.dumps(behaviour))


def starts(folder: Path) -> list[dict[str, Any]]:
    """The starts so far."""
    path = folder / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class _Handler(BaseHTTPRequestHandler):
    adapters: dict[str, str] = {}
    refusal = ""
    is_dying = False
    model = ""
    source = ""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        cards = [{"id": self.model, "owned_by": "vllm", "root": self.source}]
        cards += [{"id": name, "root": root, "parent": self.model} for name, root in self.adapters.items()]
        self._reply(200, {} if self.path == "/health" else {"data": cards})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = body.get("lora_name")
        if self.is_dying:
            self._reply(500, {"error": {"message": "EngineCore encountered an issue."}})
            threading.Timer(0.2, os._exit, [1]).start()
        elif self.refusal:
            self._reply(400, {"error": {"message": self.refusal}})
        elif self.path == "/v1/load_lora_adapter":
            self.adapters[name] = body["lora_path"]
            self._reply(200, {})
        elif self.path == "/v1/unload_lora_adapter":
            known = self.adapters.pop(name, None) is not None
            self._reply(200 if known else 404, {} if known else {"error": {"message": f"no adapter {name}"}})
        elif self.path == "/v1/chat/completions":
            self._reply(200, self._completion(body))
        else:
            self._reply(404, {"error": {"message": "Not Found"}})

    def _completion(self, body: dict[str, Any]) -> Any:
        """The letter A, with a log-probability that depends on the file of the adapter."""
        weights = Path(self.adapters.get(body["model"], ""), "weights")
        logprob = -1.0 - (len(weights.read_text()) if weights.is_file() else 0)
        token = {"token": "A", "logprob": logprob, "top_logprobs": [{"token": "A", "logprob": logprob}]}
        choice = {"message": {"content": "A"}, "logprobs": {"content": [token]}, "finish_reason": "length"}
        usage = {"prompt_tokens": 7, "completion_tokens": 1}
        return {"choices": [choice], "usage": usage}

    def _reply(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main(arguments: list[str]) -> int:
    behaviour = json.loads((FOLDER / "stub_engine.json").read_text())
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(FOLDER / "freed")], stdout=subprocess.PIPE)
    # Before that, it would end without freeing anything.
    assert child.stdout is not None
    child.stdout.readline()
    with (FOLDER / "starts.jsonl").open("a") as file:
        environment = {name: os.environ.get(name) for name in _SHOWN}
        record = {"arguments": arguments, "pid": os.getpid(), "child": child.pid, "environment": environment}
        file.write(json.dumps(record) + "\n")
    _Handler.is_dying = bool(behaviour.get("dies")) and len(starts(FOLDER)) == 1
    print("INFO the stub starts", flush=True)
    device = os.environ.get("CUDA_VISIBLE_DEVICES")
    if behaviour.get("fails") and behaviour.get("fails_on", device) == device:
        print(behaviour["fails"], flush=True)
        return 1
    time.sleep(behaviour.get("slow", 0))
    _Handler.source = arguments[1]
    _Handler.model = arguments[arguments.index("--served-model-name") + 1]
    _Handler.refusal = behaviour.get("refuses", "")
    if "--lora-modules" in arguments:
        named = arguments[arguments.index("--lora-modules") + 1 :]
        _Handler.adapters = dict(part.split("=", 1) for part in named)
    port = int(arguments[arguments.index("--port") + 1])
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    if behaviour.get("lingers"):
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(0.02)
    server.server_close()
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
