"""The team file: which agents answer, chosen by pseudo-labels (`videopro select-agents` writes it)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from videopro.errors import ConfigError
from videopro.storage import read_object
from videopro.traces import Cost, Preparation


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TeamCost(_Part):
    """What the selection cost: the sum over all answers of all agents of the library."""

    seconds: float = 0.0
    frames: float = 0.0
    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0


class LibraryMember(_Part):
    """An agent of the library, and how often it agreed with the pseudo-labels."""

    model: str
    agreement: float = Field(ge=0, le=1)


class TeamFile(_Part):
    """A selection. No gold answer is in it, and none was read for it."""

    benchmark: str
    split: str
    domain: str = ""
    """The group of the benchmark that it is for, as NAME=VALUE; empty: all of it."""
    questions: int
    """How many questions each agent of the library answered."""
    labelled: int
    """How many of them have a pseudo-label: an answer that two agents gave, and more than gave any other."""
    agents: tuple[str, ...]
    """The team, best agreement first."""
    library: tuple[LibraryMember, ...]
    """All agents, in the order in which they were named."""
    cost: TeamCost = TeamCost()

    @property
    def key(self) -> str:
        """Names the selection; costs are no part of it."""
        content = self.model_dump_json(exclude={"cost"})
        return f"{self.benchmark}/{self.domain or 'all'}/{hashlib.sha256(content.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Team:
    """The agents of a run."""

    agents: tuple[str, ...]
    selection: Preparation | None = None


def read_team(path: Path) -> Team:
    """The team in a file. Raises ConfigError."""
    try:
        content = read_object(path.read_bytes(), str(path), ConfigError)
        team = TeamFile.model_validate(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a team file") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{path}: is not a team file of videopro select-agents ({location}: {first['msg']})"
        ) from error
    cost = team.cost
    spent = Cost(cost.seconds, {}, cost.frames, cost.calls, cost.tokens_in, cost.tokens_out)
    return Team(team.agents, Preparation("selection", team.key, spent))
