"""Protocols and presets of benchmarks: each names its source, survives a run folder and fills its prompt."""

from __future__ import annotations

import json

from videopro.benchmarks import BENCHMARKS, OFFICIAL, PRESETS
from videopro.benchmarks.protocol import AnswerPrompt, Protocol
from videopro.question import Question


def test_every_protocol_names_its_source_and_survives_a_run_folder() -> None:
    assert set(OFFICIAL) < set(BENCHMARKS)
    for spec in map(BENCHMARKS.__getitem__, OFFICIAL):
        assert len({protocol.name for protocol in spec.protocols}) == len(spec.protocols)
        identities = [json.dumps(protocol.identity(), sort_keys=True) for protocol in spec.protocols]
        assert len(set(identities)) == len(identities)
        for protocol, identity in zip(spec.protocols, identities, strict=True):
            assert Protocol.from_identity(json.loads(identity)) == protocol
            if protocol.answer_prompt is not None:
                assert "commit" in protocol.answer_prompt.source
                assert "{question}" in protocol.answer_prompt.text


def test_presets_exist() -> None:
    for parts, frames in PRESETS.values():
        assert frames == 64
        for name, split, protocol in parts:
            assert split in BENCHMARKS[name].splits
            assert BENCHMARKS[name].protocol(protocol).name == protocol


def test_a_prompt_leaves_other_braces_alone() -> None:
    prompt = AnswerPrompt("x", 'Say {"result": "B"} {other}: {question}\n{options}')
    filled = prompt.fill(Question("Is {options} a slot?", ("yes", "no {question}")))
    assert filled == 'Say {"result": "B"} {other}: Is {options} a slot?\nA. yes\nB. no {question}'
