"""The fallback where the kernel has no seccomp: Monty, an interpreter of a subset of Python in its own
process.

Monty has no generators, no inheritance and few modules: two thirds of the tests' ordinary programs run, the
others fail and say why. A generator expression is evaluated at once (`any(...)` evaluates every item), a
handle has no `len`, an exception of a host function arrives as its nearest builtin base, and recorded calls
have no line. `run` is the same as for locked processes. Monty limits time and memory; calls, frames,
arguments, results, output and the log are bounded here. Needs the package `pydantic-monty` (the extra
`monty`).
"""

from __future__ import annotations

import ast
import builtins
import time
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from videopro.executor.calls import BudgetExceeded, HostCalls, ProgramException
from videopro.executor.ending import Ending, failure, outcome, too_long
from videopro.executor.handle_table import ProtocolViolation
from videopro.executor.inside import wire
from videopro.executor.inside.constants import ENTRY
from videopro.executor.inside.plain import pack_plain
from videopro.executor.outcome import DEFAULT_LIMITS, Limits, Outcome, SandboxError
from videopro.executor.text import shorten
from videopro.extras import install
from videopro.python_syntax import parse_python

# A session is fed the set-up, the program, and the call of its function. Monty numbers their files.
_PROGRAM_FILE = "<python-input-1>"

# Monty's half of the wire. Its classes cannot inherit: `_flat` copies these methods into each class of a
# prelude.
_HANDLE = """
class Handle:
    def __init__(self, number, kind):
        self._id = number
        self._kind = kind

    def __eq__(self, other):
        return getattr(other, "_id", None) == self._id

    def __hash__(self):
        return self._id

    def __repr__(self):
        return self._kind
"""
_WIRE = """
_known = {}

def _unpack(packed):
    if isinstance(packed, list):
        return [_unpack(part) for part in packed]
    if not isinstance(packed, dict):
        return packed
    for tag, content in packed.items():
        if tag == "h":
            return _handle(content)
        if tag == "d":
            made = {}
            for key, value in content:
                made[_unpack(key)] = _unpack(value)
            return made
        parts = [_unpack(part) for part in content]
        return tuple(parts) if tag == "t" else set(parts) if tag == "s" else frozenset(parts)

def _handle(content):
    if content[0] in _known:
        return _known[content[0]]
    kind = content[1]
    made = _KINDS[kind](content[0], kind) if kind in _KINDS else Handle(content[0], kind)
    _known[content[0]] = made
    for name, value in content[2].items():
        setattr(made, name, _unpack(value))
    return made
"""


class MontyExecutor:
    """Runs programs in Monty. A context manager; thread-safe. Raises SandboxError if Monty is missing."""

    def __init__(self) -> None:
        try:
            import pydantic_monty
        except ImportError as error:
            raise SandboxError(f"programs need Linux with seccomp, or Monty: {install('monty')}.") from error
        self._monty = pydantic_monty
        self._pool = pydantic_monty.Monty(max_processes=64).__enter__()
        self._closed = False

    def close(self) -> None:
        """End Monty's processes. May be called twice."""
        if not self._closed:
            self._closed = True
            self._pool.__exit__(None, None, None)

    def __enter__(self) -> MontyExecutor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(
        self,
        program_text: str,
        functions: Mapping[str, Callable[..., Any]],
        inputs: Mapping[str, Any],
        limits: Limits = DEFAULT_LIMITS,
        prelude: str = "",
        *,
        fatal: tuple[type[BaseException], ...] = (),
    ) -> Outcome:
        """Run one program and wait for it; see `Executor.run`.

        A function's exception that is not a builtin arrives in the program as its nearest builtin base.
        """
        if self._closed:
            raise SandboxError("this executor is closed.")
        begun = time.monotonic()
        refused = too_long(program_text, limits)
        if refused is not None:
            return outcome("", refused, limits, begun)
        run = _Run(self._monty, functions, limits, fatal)
        with run.calls.counted():
            ending = run.run_program(self._pool, program_text, inputs, prelude)
        return outcome(program_text, ending, limits, begun, run.calls.made, run.output)


class _Run:
    """One program's run."""

    def __init__(
        self,
        monty: Any,
        functions: Mapping[str, Callable[..., Any]],
        limits: Limits,
        fatal: tuple[type[BaseException], ...],
    ) -> None:
        self._monty = monty
        self._functions = functions
        self._limits = limits
        self.calls = HostCalls(functions, limits, fatal)
        self._stopped: BaseException | None = None
        self.output = ""

    def run_program(self, pool: Any, program: str, inputs: Mapping[str, Any], prelude: str) -> Ending:
        """Run the program to its end. Raises SandboxError if the sandbox fails, and `fatal` exceptions."""
        handles = self.calls.handles
        try:
            packed = {name: handles.pack(value, self._limits.result_bytes) for name, value in inputs.items()}
        except wire.TooLarge as error:
            raise SandboxError(f"an input cannot be given to a program: {error}") from error
        first = [_HANDLE, _flat(prelude), _WIRE]
        first += [f"{name} = _unpack(_inputs[{name!r}])" for name in inputs]
        first += [_FUNCTION.format(name=name) for name in self._functions]
        allowed = {
            "max_feed_duration_secs": self._limits.cpu_seconds,
            "max_memory": self._limits.memory_bytes,
            "max_total_sleep_secs": self._limits.wall_seconds,
            # Looking up one of the host's names counts as well.
            "max_suspensions": self._limits.calls * 4 + 100,
        }
        with pool.checkout(limits=allowed) as session:
            try:
                session.feed_run(
                    "\n".join(first), inputs={"_inputs": packed}, external_lookup={"_call": self._call}
                )
            except self._monty.MontyError as error:
                raise SandboxError(f"Monty cannot run the modules' prelude: {error}") from error
            try:
                self._feed(session, program)
                value = self._feed(session, f"{ENTRY}({_arguments(program, inputs)})")
                if self._stopped is None:
                    return Ending(self._back(value, self._limits.argument_bytes), ())
                ending = failure("", "")
            except _MissingInput as error:
                ending = failure("TypeError", str(error))
            except self._monty.MontyError as error:
                ending = self._failed(error)
            except (TypeError, wire.TooLarge, ProtocolViolation) as error:
                ending = failure(type(error).__name__, f"what {ENTRY} returned: {error}")
        if isinstance(self._stopped, BudgetExceeded):
            places = ending.raised[0][2] or self._stopped.places
            return failure(self._stopped.kind, str(self._stopped), places)
        if self._stopped is not None:
            raise self._stopped
        return ending

    def _feed(self, session: Any, code: str) -> Any:
        return session.feed_run(code, external_lookup={"_call": self._call}, print_callback=self._print)

    def _print(self, stream: str, text: str) -> None:
        self.output += text
        if len(self.output) > self._limits.output_bytes:
            self.output = self.output[: self._limits.output_bytes]
            what = f"the program printed more than {self._limits.output_bytes:,} characters"
            self._stop(BudgetExceeded("OutputLimit", what))

    def _call(self, name: Any, args: Any, kwargs: Any) -> Any:
        if self._stopped is not None:
            self._stop(self._stopped)
        try:
            given = self._back((args, kwargs), self._limits.argument_bytes)
        except TypeError as error:
            raise TypeError(f"{name}() was given {error}") from None
        except (wire.TooLarge, ProtocolViolation) as error:
            raise ValueError(f"an argument of {name}() cannot be passed: {error}") from None
        try:
            return self.calls.make(name, given, 0)
        except ProtocolViolation as error:
            raise TypeError(str(error)) from None
        except ProgramException as raised:
            kind, base, message = raised.payload
            raise getattr(builtins, base)(message if kind == base else f"{kind}: {message}") from None
        except BaseException as error:
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        """End the program for a reason that it cannot handle."""
        self._stopped = error
        # Raised in the program: `except Exception` does not catch it, and whatever does gets no further call.
        raise KeyboardInterrupt(str(error))

    def _back(self, value: Any, size: int) -> Any:
        """A value from Monty, bounded, with host objects in place of handles."""

        def handle(item: Any, part: Callable[[Any], Any]) -> Any:
            if isinstance(item, self._monty.MontyClassProxy) and "_id" in item.attributes:
                return {"h": item.attributes["_id"]}
            if isinstance(item, self._monty.MontyClassProxy):
                raise TypeError(f"a {item.name}, which cannot leave the program")
            return pack_plain(item, part)

        limits = self._limits
        packed = wire.pack(
            value,
            handle,
            items=limits.items,
            size=size,
            depth=limits.depth + 2,
            digits=limits.digits,
            keys=wire.KEYS,
        )
        return self.calls.handles.unpack(packed)

    def _failed(self, error: Any) -> Ending:
        if isinstance(error, self._monty.MontyCrashedError):
            return failure("Crashed", f"Monty's process ended: {error}")
        inner = error.exception()
        kind, message = type(inner).__name__, shorten(str(inner), self._limits.error_bytes)
        if kind == "TimeoutError" and message.startswith("feed time limit exceeded"):
            kind, message = (
                "CpuLimit",
                f"the program used its {self._limits.cpu_seconds:g} s of processor time",
            )
        if kind in ("NotImplementedError", "ModuleNotFoundError"):
            message += " (programs run in Monty here, which knows a part of Python)"
        frames = error.traceback() if not isinstance(error, self._monty.MontyConversionError) else []
        places = [(f.line, f.function_name or "") for f in frames if f.filename == _PROGRAM_FILE]
        return failure(kind, message, places if len(places) <= 10 else [*places[:5], *places[-5:]])


_FUNCTION = """
def {name}(*args, **kwargs):
    return _unpack(_call("{name}", args, kwargs))
"""


class _MissingInput(Exception):
    """A parameter without an input."""


def _arguments(program: str, inputs: Mapping[str, Any]) -> str:
    """The arguments of the program's function as source: the inputs that its signature names."""
    try:
        tree = parse_python(program)
    except (SyntaxError, ValueError, MemoryError, RecursionError, SystemError):
        return ""  # Monty has already run it, so only CPython cannot parse it.
    entries = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == ENTRY]
    if not entries:
        return ""
    spec = entries[-1].args
    positional = [*spec.posonlyargs, *spec.args]
    required = positional[: len(positional) - len(spec.defaults)]
    required += [
        argument
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        if default is None
    ]
    missing = [argument.arg for argument in required if argument.arg not in inputs]
    if missing:
        what = f"{', '.join(map(repr, missing))}; what it can have is {', '.join(inputs)}"
        raise _MissingInput(f"{ENTRY}() asks for {what}")
    given = [argument.arg for argument in spec.posonlyargs if argument.arg in inputs]
    named = [argument.arg for argument in (*spec.args, *spec.kwonlyargs) if argument.arg in inputs]
    if spec.kwarg:
        named += [name for name in inputs if name not in (*given, *named)]
    return ", ".join([*given, *(f"{name}={name}" for name in named)])


@lru_cache(maxsize=32)
def _flat(prelude: str) -> str:
    """A prelude without inheritance: each handle class gets copies of its bases' methods."""
    tree = parse_python(prelude)
    methods: dict[str, dict[str, ast.stmt]] = {"Handle": _members(parse_python(_HANDLE).body[0])}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.bases:
            inherited: dict[str, ast.stmt] = {}
            for base in reversed(node.bases):
                if isinstance(base, ast.Name):
                    inherited |= methods.get(base.id, {})
            methods[node.name] = inherited | _members(node)
            node.bases = []
            node.body = list(methods[node.name].values())
    kinds = ", ".join(f"{name!r}: {name}" for name in methods if name != "Handle")
    return ast.unparse(tree) + f"\n_KINDS = {{{kinds}}}\n"


def _members(node: ast.stmt) -> dict[str, ast.stmt]:
    assert isinstance(node, ast.ClassDef)
    members: dict[str, ast.stmt] = {}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            members[statement.name] = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            # `__hash__ = Handle.__hash__`: the inherited method is already there.
            members.pop(statement.targets[0].id, None)
    return members


def warn(reason: str) -> None:
    """Warn that programs run in Monty, and why."""
    warnings.warn(
        f"{reason} Programs therefore run in Monty, which supports a subset of Python (no generators, no "
        "inheritance, few modules): a third of ordinary programs fail there and say so.",
        stacklevel=4,
    )
