"""videopro serve: questions about videos on a web page and over HTTP. Everyone with access can see, stop and
delete all videos and questions.

    videopro serve --model Qwen/Qwen3-VL-8B-Instruct --folders videos

The environment variable VIDEOPRO_SERVE_KEYS holds one key, or several separated by spaces.
"""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from videopro.backbones import Backbone, load_backbone
from videopro.cli import CommandLine, check_needs, exit_status, key_problem, needs_extra, option
from videopro.commands.infer_settings import (
    METHOD,
    METHOD_HELP,
    AnswerSettings,
    MethodSettings,
    WordsSettings,
)
from videopro.errors import BackboneError, ConfigError
from videopro.methods import METHOD_OPTIONS

logger = logging.getLogger(__name__)

KEYS = "VIDEOPRO_SERVE_KEYS"
ADDRESS, _LIMITS = "Address", "Limits"
_GIB = 2**30
# As videopro infer: a server fills its batches from many questions, a model in this process from a few.
SERVER_AT_ONCE, LOCAL_AT_ONCE = 32, 4


@dataclass(frozen=True, kw_only=True)
class ServingSettings(MethodSettings):
    """Model, method, address, access and limits."""

    methods: tuple[str, ...] = option((), "other methods that clients can choose; unset: all", group=METHOD)
    in_flight: int | None = option(
        None,
        f"questions answered at the same time; unset: {SERVER_AT_ONCE} with a model server, "
        f"{LOCAL_AT_ONCE} with a model in this process",
        group=_LIMITS,
    )
    waiting: int = option(256, "questions in the queue; more are refused", group=_LIMITS)
    question_seconds: float = option(1800.0, "time limit of a question in seconds", group=_LIMITS)

    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0: all interfaces", group=ADDRESS)
    key: bool = option(
        True,
        f"require {KEYS} if other machines can reach the server; without a key they have full access",
        group=ADDRESS,
    )
    hosts: tuple[str, ...] = option(
        (),
        "host names of the server, such as videos.example.org, in addition to localhost and IP addresses",
        group=ADDRESS,
    )
    origins: tuple[str, ...] = option(
        (),
        "other web sites whose pages can call the server, such as https://example.org",
        group=ADDRESS,
    )

    def keys(self) -> tuple[str, ...]:
        """The keys in the environment; if there are none, no key is needed. Raises ConfigError for a key that
        no client can send."""
        keys = tuple(os.environ.get("VIDEOPRO_SERVE_KEYS", "").split())
        for number, key in enumerate(keys, start=1):
            if problem := key_problem(key):
                raise ConfigError(f"{KEYS}: clients cannot send key {number}: {problem}")
        return keys

    def check_key(self, sock: socket.socket, keys: Sequence[str]) -> None:
        """Raise ConfigError if others can reach the socket without a key, unless --no-key allows it."""
        if self.key and not keys and not ipaddress.ip_address(sock.getsockname()[0]).is_loopback:
            raise ConfigError(
                f"--host {self.host}: other machines can reach this address, and no key is set; set {KEYS}, "
                "or add --no-key to let everyone see, stop and delete everything"
            )


@dataclass(frozen=True, kw_only=True)
class ServeConfig(ServingSettings, AnswerSettings, WordsSettings):
    """The settings of `videopro serve`."""

    method: str = option("videopro", METHOD_HELP, group=METHOD)
    output: Path = option(Path("runs/serve"), "folder for uploaded videos and answers; kept across restarts")
    folders: tuple[Path, ...] = option((), "folders of videos that clients can name by relative path")
    port: int = option(8080, "port; 0: any free port", group=ADDRESS)
    root_path: str = option("", "path at a reverse proxy, such as /videos", group=ADDRESS)
    log_level: Literal["error", "warning", "info"] = option(
        "info",
        "log on stderr: errors, failed questions too (warning), or all requests and questions (info)",
    )
    video_gib: float = option(8.0, "largest video, in GiB", group=_LIMITS)
    store_gib: float = option(64.0, "all uploaded videos together, in GiB", group=_LIMITS)

    def __post_init__(self) -> None:
        if self.root_path and not re.fullmatch(r"(/[\w.~-]+)+", self.root_path):
            raise ConfigError(
                f"--root-path {self.root_path!r}: pass a path such as /videos, without a trailing /"
            )


COMMAND = CommandLine("serve", ServeConfig, options=METHOD_OPTIONS)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    with exit_status("stopped; videos and answers are kept") as status:
        config = COMMAND.parse(argv)
        with _log(config.log_level):
            serve(config, load=load)
    return status.code


@contextmanager
def _log(level: str) -> Iterator[None]:
    """Log to stderr, one line with its time each."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    # Not the root's: libraries write their own debug lines.
    ours = logging.getLogger("videopro")
    ours.setLevel(level.upper())
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)


def serve(config: ServeConfig, *, load: Callable[..., Backbone] = load_backbone) -> None:
    """Load the model and serve until a signal arrives. Raises VideoProError."""
    with needs_extra("serve", "videopro serve"):
        from videopro.serve import Answerer, ServeLimits, listen, run
    keys = config.keys()
    answerer = Answerer(
        config.model,
        backbone=config.backbone,
        method=config.method,
        options=config.options,
        methods=config.methods,
        seed=config.seed,
        max_new_tokens=config.max_new_tokens,
        abstain=config.abstain,
        load=load,
    )

    # What is wrong with these shows before the model is loaded.
    limits = ServeLimits(
        at_once=LOCAL_AT_ONCE if config.in_flight is None else config.in_flight,
        waiting=config.waiting,
        seconds=config.question_seconds,
        video_bytes=int(config.video_gib * _GIB),
        store_bytes=int(config.store_gib * _GIB),
        keys=keys,
        hosts=config.hosts,
        origins=config.origins,
        folders=config.folders,
    )
    check_needs(answerer.needs())
    with listen(config.host, config.port) as sock:
        config.check_key(sock, keys)
        for note in (*answerer.notes(), answerer.about()):
            if note:
                logger.info(note)
        logger.info("loading the model ...")
        answerer.load()
        # What is loaded stays until the end. The collector would look through all of it again and again, and
        # once more, for seconds, when the process ends.
        gc.freeze()
        try:
            if answerer.backbone.is_concurrent:
                if config.in_flight is None:
                    limits = replace(limits, at_once=SERVER_AT_ONCE)
                # Beside it, because a server that is down is asked again for some seconds.
                threading.Thread(target=_find_server, args=(answerer.backbone,), daemon=True).start()

            def say(address: str) -> None:
                print(f"serving {answerer.name} at {address} (press Ctrl-C to stop)", flush=True)

            run(answerer, limits, config.output, sock, say, config.root_path)
        finally:
            answerer.close()


def _find_server(backbone: Backbone) -> None:
    """Log a warning if the model's server does not answer. It may come later: each question asks it again."""
    try:
        backbone.identity()
    except BackboneError as error:
        logger.warning("%s", error)
