"""videopro mcp: videos for any client of the Model Context Protocol.

    videopro mcp videos                                               # the client starts it: stdin and stdout
    videopro mcp videos --model Qwen/Qwen3-VL-8B-Instruct --transport http

Keys for HTTP come from the environment, as for videopro serve.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopro.backbones import Backbone, expected_model, load_backbone, read_spec
from videopro.cli import CommandLine, build_settings, check_needs, exit_status, needs_extra, option, setting
from videopro.commands.infer_settings import METHOD
from videopro.commands.serve import ADDRESS, LOCAL_AT_ONCE, SERVER_AT_ONCE, ServingSettings
from videopro.errors import ConfigError
from videopro.methods import METHOD_OPTIONS
from videopro.modules import ModuleSettings, module_needs

_FLAG = "--modules {part}=none"


@dataclass(frozen=True, kw_only=True)
class McpConfig(ServingSettings):
    """The settings of `videopro mcp`."""

    folders: tuple[Path, ...] = field(
        metadata=setting("folders whose videos may be opened; nothing else is read", positional=True)
    )
    model: str | None = option(
        None,
        "a hub name such as Qwen/Qwen3-VL-8B-Instruct, a folder, server:MODEL@URL, or a plug-in "
        "(videopro models lists them); unset: no ask tool",
        group=METHOD,
    )
    modules: dict[str, Any] = field(
        default_factory=dict,
        metadata=setting(
            "models of the other tools, as options of videopro infer: encoder=languagebind (search), "
            "detector=grounding-dino:NAME (locate), ocr=rapidocr, text_encoder=NAME; unset: the paper's "
            "with --model, else OCR only",
            group=METHOD,
        ),
    )
    transport: Literal["stdio", "http"] = option(
        "stdio", "stdio: the client starts this command and talks to it; http: streamable HTTP", group=ADDRESS
    )
    port: int = option(8090, "http: port; 0: any free port", group=ADDRESS)


COMMAND = CommandLine("mcp", McpConfig, options=METHOD_OPTIONS)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status: 0, 2 for errors that the user can fix, 130 when
    interrupted."""
    with exit_status("stopped") as status:
        serve_videos(COMMAND.parse(argv), load=load)
    return status.code


def serve_videos(config: McpConfig, *, load: Callable[..., Backbone] = load_backbone) -> None:
    """Serve until the client goes, or a signal comes. Raises VideoProError."""
    with needs_extra("serve", "videopro mcp"):
        from videopro.serve import Answerer, ServeLimits, listen
        from videopro.serve.mcp import Calls, OfferedVideos, create_mcp, run_http, run_stdio
    if not config.folders:
        raise ConfigError("videopro mcp: give the folders whose videos may be opened")
    # What is wrong shows before a client is served; the models are loaded when they are needed.
    settings = build_settings(ModuleSettings, config.modules, "modules")
    answerer = None
    if config.model is not None:
        answerer = Answerer(
            config.model,
            backbone=config.backbone,
            method=config.method,
            options=config.options,
            methods=config.methods,
            load=load,
        )
        if load is load_backbone:
            expected = expected_model(read_spec(config.model, **config.backbone))
            check_needs([*answerer.needs(), *module_needs(settings, *expected, flag=_FLAG)])
        for note in (*answerer.notes(), answerer.about()):
            if note:
                print(note, file=sys.stderr)
    elif config.backbone or config.options:
        raise ConfigError("--backbone and --options need a model; pass --model")
    limits = ServeLimits(
        at_once=_at_once(config),
        waiting=config.waiting,
        seconds=config.question_seconds,
        keys=config.keys(),
        hosts=config.hosts,
        origins=config.origins,
    )
    videos = OfferedVideos(config.folders, answerer, config.modules)
    try:
        calls = Calls()
        server = create_mcp(videos, limits, calls)
        if config.transport == "stdio":
            run_stdio(server)
            return
        with listen(config.host, config.port) as sock:
            config.check_key(sock, limits.keys)
            run_http(
                server, limits, calls, sock, lambda address: print(f"serving videos at {address}", flush=True)
            )
    finally:
        videos.close()


def _at_once(config: McpConfig) -> int:
    """How many questions are answered at a time; the model is loaded later."""
    if config.in_flight is not None:
        return config.in_flight
    is_served = config.model is not None and config.model.startswith("server:")
    return SERVER_AT_ONCE if is_served else LOCAL_AT_ONCE
