"""Addresses of models on servers: a strict grammar, no default, and no secret in a message or a record."""

from collections.abc import Callable
from typing import Any

import pytest

from videopro.backbones import BackboneConfig, read_address, read_spec, without_address
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.agents.models import read_role
from videopro.methods.planners import check_planner

# What reads an address: a served model, an API's planner, an agent's role.
READERS: dict[str, Callable[[str], Any]] = {"server": read_spec, "api": check_planner, "role": read_role}


@pytest.mark.parametrize("kind", ["server", "api"])
@pytest.mark.parametrize(
    ("rest", "model", "url"),
    [
        ("qwen@http://localhost:8000/v1", "qwen", "http://localhost:8000/v1"),
        ("Qwen/Qwen3-VL-8B@https://host/v1/", "Qwen/Qwen3-VL-8B", "https://host/v1/"),
        ("qwen2.5vl:7b@http://[::1]:11434/v1", "qwen2.5vl:7b", "http://[::1]:11434/v1"),
        ("qwen@http://my_engine:8000/v1", "qwen", "http://my_engine:8000/v1"),
        ("qwen@https://node-1.my-cluster.local:8000/v1", "qwen", "https://node-1.my-cluster.local:8000/v1"),
        ("accounts/me@team/m@HTTP://10.0.0.1/v1", "accounts/me@team/m", "HTTP://10.0.0.1/v1"),
    ],
)
def test_a_model_at_an_address(kind: str, rest: str, model: str, url: str) -> None:
    assert read_address(f"{kind}:{rest}", "model") == (model, url)


@pytest.mark.parametrize(
    "rest",
    [
        *("", "qwen", "qwen@", "@http://localhost:8000/v1", "http://host/v1"),
        *("qwen@localhost:8000/v1", "qwen@//localhost:8000/v1", "qwen@ftp://localhost/v1"),
        *("qwen@http://", "qwen@http:///v1", "qwen@http://:8000/v1", "qwen@http://host:/v1"),
        *("qwen@http://host:eight/v1", "qwen@http://host:99999/v1", "qwen@http://host:0/v1"),
        *("qwen@http://[::1/v1", "qwen@http://[:::]/v1", "qwen@http://[fe80::1%25eth0]/v1"),
        *("qwen@https://api.openai.com%40evil.com/v1", "qwen@https://h..evil/v1", "qwen@https://.h/v1"),
        *("qwen@https://-/v1", "qwen@https://h-.evil/v1", "qwen@https://h,evil/v1"),
        *("qwen@http://local host/v1", "qwen @http://host/v1", "qwen@http://host/v1 "),
        *("qw\u200ben@http://host/v1", "qwen@http://host\\v1", "qwen@http://host/v1/chat/completions"),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_malformed_address_is_refused_with_the_right_form(
    reader: str, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a default: not OpenAI's address, and not that of the client's own variable."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    kind = "server" if reader == "server" else "api"
    with pytest.raises(ConfigError, match=rf"\A.*write {kind}:MODEL@URL, as in {kind}:.*\Z"):
        READERS[reader](f"{kind}:{rest}")


@pytest.mark.parametrize(
    "rest",
    [
        "qwen@http://user:pa55@host/v1",
        "qwen@user:pa55@host/v1",
        "user:pa55@host/v1",
        "http://user:pa55@host/v1",
        "qwen@http://user:pa/55pa55@host/v1",
        "qwen@http://pa55@host/v1",
        "qwen@http://host/v1?key=pa55",
        "qwen@http://host/v1#pa55",
        "qwen@http://host/v1;key=pa55",
        "qwen@http://user:pa55%40host/v1",
        "http://user:pa55@host@http://host/v1",
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_secret_in_an_address_is_refused_and_not_shown(reader: str, rest: str) -> None:
    kind = "server" if reader == "server" else "api"
    with pytest.raises(ConfigError) as caught:
        READERS[reader](f"{kind}:{rest}")
    assert "pa55" not in str(caught.value)


def test_every_other_door_refuses_a_secret() -> None:
    secret = "http://user:pa55@host/v1"
    doors: list[Callable[[], Any]] = [
        lambda: BackboneConfig("m", "server", base_url=secret),
        lambda: create("videopro", {"planner": f"api:m@{secret}"}),
        lambda: create("videopro", {"answerer": f"server:m@{secret}"}),
        lambda: create("dvd", {"llm": f"api:m@{secret}"}),
        lambda: create("dvd", {"llm": f"server:m@{secret}+adapter"}),
        # The key itself where the name of its variable belongs.
        lambda: BackboneConfig("m", "server", base_url="http://host/v1", api_key_env="sk-pa55"),
        lambda: create("videopro", {"api_key_env": "sk-pa55"}),
        lambda: create("dvd", {"api_key_env": "sk-pa55"}),
        lambda: SynthesisConfig(
            source="pocket", teacher="api:m@http://host/v1", model="pocket", output="o", api_key_env="sk-pa55"
        ),  # type: ignore[arg-type]
    ]
    for number, door in enumerate(doors):
        with pytest.raises(ConfigError) as caught:
            door()
        assert "pa55" not in str(caught.value), number


def test_a_spec_without_its_address() -> None:
    assert without_address("api:a@b@http://host/v1") == "api:a@b"
    assert without_address("server:qwen") == "server:qwen"
    assert without_address("server:qwen@user:pa55@host") == "server:qwen"
