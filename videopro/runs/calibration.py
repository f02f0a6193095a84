"""The calibration of a method and a model (`videopro calibrate` writes it): below which confidence an answer
is withheld, so that the share of wrong ones among the others is at most a risk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from videopro.backbones import Backbone
from videopro.errors import ConfigError, RunError, first_of
from videopro.methods import PreparedRun
from videopro.question import NO_OPTION
from videopro.runs.folder import RunFolder, identity_difference, identity_unloaded
from videopro.storage import first_mistake, read_object
from videopro.traces import Result, Trace, shown_confidence, withhold
from videopro.traces.scoring import RiskPoint, official_records_of, risk_curve, widest


@dataclass(frozen=True)
class CalibrationRun:
    """A run that the calibration was made of."""

    run: str
    run_key: str
    benchmark: str
    split: str
    questions: tuple[str, ...]
    """The ids of its scored questions."""


@dataclass(frozen=True)
class Calibration:
    """The risk of a method's answers by their confidence, on the questions of runs."""

    method: Mapping[str, Any]
    """As in the run's key; likewise `model`."""
    model: Mapping[str, Any]
    runs: tuple[CalibrationRun, ...]
    unanswerable: int
    """Questions without a right option."""
    videos: int
    curve: tuple[RiskPoint, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Self:
        """From finished runs of one method and model. Raises RunError."""
        runs: list[CalibrationRun] = []
        scored: list[Trace] = []
        identities: list[Mapping[str, Any]] = []
        for path in folders:
            folder = RunFolder(path)
            identity = folder.recorded_identity()
            if identity is None or not folder.summary.exists():
                raise RunError(f"{path}: contains no finished run; finish it with `videopro infer` first")
            identities.append({name: identity[name] for name in ("method", "model")})
            names = f"{folders[0]} has", "this run"
            if differences := identity_difference(identities[0], identities[-1], names):
                raise RunError(
                    f"{path}: is of another method or model ({differences[0]}); calibrate each by itself"
                )
            traces = {trace.question_id: trace for trace in folder.read()}
            ids = [record.question_id for record in official_records_of([*traces.values()])]
            scored += (traces[id] for id in ids)
            protocol = identity["protocol"]
            names = (str(path), folder.key() or "", protocol["benchmark"], protocol["split"])
            runs.append(CalibrationRun(*names, tuple(ids)))
        if len(scored) == 0:
            raise RunError(
                f"{folders[0]}: has no scored question; calibrate with a run whose answers are known"
            )
        twice = [id for id, count in Counter(trace.question_id for trace in scored).items() if count > 1]
        if twice:
            raise RunError(f"two runs have the question {first_of(twice, 1)}; pass each question once")
        if any(shown_confidence(trace, is_open=False) is None and not trace.error for trace in scored):
            raise RunError(
                f"{folders[0]}: method {identities[0]['method']['name']} gives answers without a confidence; "
                "calibrate one that asks the model for each letter"
            )
        return cls(
            **identities[0],
            runs=tuple(runs),
            unanswerable=sum(trace.gold == NO_OPTION for trace in scored),
            videos=len({trace.video.key for trace in scored}),
            curve=risk_curve(official_records_of(scored)),
        )

    def to_json(self) -> str:
        """The file's content."""
        return json.dumps(_CALIBRATION.dump_python(self, mode="json"), indent=1) + "\n"


_CALIBRATION = TypeAdapter(Calibration)


@dataclass(frozen=True)
class Abstention:
    """A threshold of confidence, and for what it was calibrated."""

    risk: float
    file: Path
    point: RiskPoint
    calibration: Calibration = field(repr=False)

    @classmethod
    def read(cls, setting: str) -> Abstention | None:
        """From RISK@FILE; None for an empty setting. Raises ConfigError for one that is wrong, for a file
        that is none, and for a risk that no threshold keeps to."""
        if not setting:
            return None
        number, at, name = setting.partition("@")
        try:
            risk = float(number)
        except ValueError:
            risk = 0.0
        if not at or not 0 < risk < 1:
            raise ConfigError(
                f"abstain {setting!r}: must be RISK@FILE, with a risk between 0 and 1, such as "
                "0.1@calibration.json"
            )
        path = Path(name)
        try:
            calibration = _CALIBRATION.validate_python(read_object(path.read_bytes(), name, ConfigError))
        except OSError as error:
            raise ConfigError(
                f"abstain: {name} cannot be read ({error.strerror}); make it with `videopro calibrate RUN`"
            ) from error
        except ValidationError as error:
            raise ConfigError(
                f"abstain: {name} is not a file of `videopro calibrate` ({first_mistake(error)})"
            ) from error
        point = widest(calibration.curve, risk)
        if point is None:
            least = min((each.bound for each in calibration.curve), default=1.0)
            raise ConfigError(
                f"abstain: no confidence in {name} keeps the risk at {risk:g}; the least is {least:.3f}; "
                "allow more, or calibrate with more questions"
            )
        return cls(risk, path, point, calibration)

    def check(self, prepared: PreparedRun, *, is_open: bool = False) -> None:
        """Raise ConfigError if the calibration is of another method or of other settings, and for a question
        in words."""
        if is_open:
            raise ConfigError(
                "abstain: only answers with a letter are calibrated; pass choices, or leave abstain out"
            )
        self._compare({"method": self.calibration.method}, {"method": prepared.identity})

    def check_model(self, model: str, backbone: Mapping[str, Any], load: Callable[..., Backbone]) -> None:
        """Raise ConfigError if the calibration is of another model. `load` as in `RunRequest`."""
        now = identity_unloaded(model, backbone, self.calibration.model, load)
        self._compare({"model": self.calibration.model}, {"model": now})

    def _compare(self, calibrated: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        # Through JSON, as the file is: tuples become lists.
        current = json.loads(json.dumps(now))
        if differences := identity_difference(calibrated, current, ("the file has", "this command")):
            more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
            raise ConfigError(
                f"abstain: {self.file} is of another {next(iter(now))} ({differences[0]}{more}); calibrate "
                "with a run of these settings"
            )

    def measured(self, traces: Sequence[Trace]) -> dict[str, Any]:
        """What becomes of a run's answers, for its summary. `n` counts its questions whose answer is known,
        those without a right option too."""
        records = official_records_of(traces)
        answered = [record for record in records if record.confidence >= self.point.threshold]
        errors = sum(not record.correct for record in answered)
        return {
            "risk": self.risk,
            "file": str(self.file),
            "threshold": self.point.threshold,
            "n": len(records),
            "answered": len(answered),
            "errors": errors,
            "error": errors / len(answered) if answered else None,
        }

    def applied(self, result: Result) -> Result:
        """The result, with a note if its answer is withheld; see `withhold`."""
        return withhold(result, self.point.threshold, f"risk {self.risk:g}, {self.file.name}")
