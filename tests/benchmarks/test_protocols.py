"""Protocols and presets of benchmarks: each names its source, survives a run folder and fills its prompt."""

from __future__ import annotations

import json

import pytest

from videopro.benchmarks import BENCHMARKS, OFFICIAL, PRESETS, load
from videopro.benchmarks.protocol import Protocol
from videopro.benchmarks.registry import CONTRIBUTED
from videopro.errors import BenchmarkError


@pytest.mark.parametrize("name", [*OFFICIAL, *CONTRIBUTED])
def test_every_protocol_names_its_source_and_survives_a_run_folder(name: str) -> None:
    plugin = BENCHMARKS.find(name)
    # A file of this package is no part of a run's key.
    assert (plugin.value.name, plugin.version) == (name, "")
    protocols = plugin.value.protocols
    identities = {json.dumps(protocol.identity(), sort_keys=True): protocol for protocol in protocols}
    assert len(identities) == len(protocols)
    for identity, protocol in identities.items():
        assert Protocol.from_identity(json.loads(identity)) == protocol
        prompt = protocol.answer_prompt
        assert prompt is not None or name in OFFICIAL
        assert prompt is None or ("commit" in prompt.source and "{question}" in prompt.text)


def test_presets_exist() -> None:
    with pytest.raises(BenchmarkError, match=r"videopro: is a set of benchmarks \(lvbench, videomme"):
        load("videopro")
    for parts, frames in PRESETS.values():
        assert frames == 64
        for name, split, protocol in parts:
            assert split in BENCHMARKS[name].splits
            assert BENCHMARKS[name].protocol(protocol).name == protocol
