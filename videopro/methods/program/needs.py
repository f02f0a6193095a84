"""What programs need on this machine, whoever runs them: a method, a synthesis or a training."""

from __future__ import annotations

from videopro.backbones import BackboneConfig, expected_model, model_needs, read_spec
from videopro.cli import Need
from videopro.executor import sandbox_problem
from videopro.modules import ModuleSettings, module_needs


def program_needs(
    settings: ModuleSettings,
    model: BackboneConfig,
    *,
    answerer: str | None = None,
    api_key_env: str | None = None,
    flag: str,
) -> list[Need]:
    """Who answers inside the programs (None: `model`, which others check), the models behind the modules, and
    the sandbox. `api_key_env`: the variable with the key of the answerer's server; `flag`: how the command at
    hand leaves out a module's model, as in `ModuleModels`."""
    needs, answering = list[Need](), model
    if answerer is not None:
        answering = read_spec(answerer)
        if answering.kind == "server":
            answering = answering.but(api_key_env=api_key_env)
        needs += model_needs(answering, "answerer")
    needs += module_needs(settings, *expected_model(answering), flag=flag)
    return [*needs, Need("sandbox", problem=sandbox_problem())]
