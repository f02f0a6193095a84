"""A program's calls of host functions: they are made, counted and recorded here, and their results packed.

The same for every kind of sandbox; the sandbox receives the calls and sends the results back.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from videopro.errors import BudgetExceeded
from videopro.executor.inside import wire
from videopro.executor.outcome import Limits, brief, harmless, shorten, shown_call


class ProtocolViolation(ValueError):
    """The program's process sent something that violates the protocol."""


class HandleTable:
    """The host objects that one program was given."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []

    def pack(self, value: Any, size: int) -> Any:
        """Pack a value for the program: plain data unchanged, anything else as a handle.

        An object's declared fields are read the first time it crosses. Raises TooLarge; the program then
        holds none of its handles.
        """
        before = len(self._objects)
        try:
            return wire.pack(
                value,
                self._pack_handle,
                items=size // 2,
                size=size,
                depth=self._limits.depth,
                digits=self._limits.digits,
            )
        except BaseException:
            # Otherwise it could name objects of a result that it never got.
            for added in self._objects[before:]:
                del self._numbers[id(added)]
            del self._objects[before:]
            raise

    def _pack_handle(self, value: Any, part: Callable[[Any], Any]) -> Any:
        # By identity, not equality: two frames with equal fields are two objects. The table keeps them alive,
        # so that no id is used again.
        number = self._numbers.get(id(value))
        if number is not None:
            return {"h": [number]}
        number = self._numbers[id(value)] = len(self._objects)
        self._objects.append(value)
        kind, names = declared_fields(value)
        return {"h": [number, kind, {name: part(getattr(value, name)) for name in names}]}

    def unpack(self, packed: Any) -> Any:
        """Unpack a value from the program. Raises ProtocolViolation for an invalid one."""
        try:
            return wire.unpack(
                packed,
                self._object,
                items=self._limits.items + 2,
                depth=self._limits.depth + 2,
                keys=wire.KEYS,
            )
        except (ValueError, TypeError) as error:
            raise ProtocolViolation(str(error)) from error

    def _object(self, number: Any) -> Any:
        # type(), because isinstance would let True through as 1.
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise ProtocolViolation("a handle that was never given")
        return self._objects[number]


def declared_fields(value: Any) -> tuple[str, tuple[str, ...]]:
    """The kind and the field names of a host object, as its class declares them."""
    cls = type(value)
    return getattr(cls, "__program_kind__", cls.__name__), getattr(cls, "__program_fields__", ())


def handle_repr(value: Any) -> str:
    """A host object in a log: its class's own repr, else `Clip(start=10, end=20)`."""
    class_repr: object = type(value).__repr__
    if class_repr is not object.__repr__:
        return shorten(repr(value), 120)
    kind, names = declared_fields(value)
    parts = []
    for name in names:
        field = getattr(value, name)
        if field is None or isinstance(field, (bool, int, float, str)):
            text = f"{field:.6g}" if isinstance(field, float) else repr(field)
            parts.append(f"{name}={shorten(text, 60)}")
    return f"{kind}({', '.join(parts)})"


# Builtin exceptions that can be constructed from a message alone.
_BASES = {
    name: cls
    for name, cls in vars(builtins).items()
    if isinstance(cls, type)
    and issubclass(cls, Exception)
    and not issubclass(cls, (SyntaxError, UnicodeError, BaseExceptionGroup))
} | {"UnicodeError": UnicodeError}


# Characters of a call's arguments in logs.
_ARGUMENT_CHARS = 400


class ProgramException(Exception):
    """An exception to raise in the program. `payload`: its name, its nearest builtin base, its message."""

    def __init__(self, name: str, base: str, message: str) -> None:
        super().__init__(message)
        self.payload = [name, base, message]


# The calls of the program that runs on this thread.
_calls: ContextVar[HostCalls | None] = ContextVar("calls", default=None)


def use_frames(count: int) -> None:
    """For host functions: count `count` frames used by this call. Ends a program that exceeds its budget.

    Call it before doing the work, on the thread that called the function. Outside a program it does nothing.
    """
    calls = _calls.get()
    if calls is not None:
        calls.use_frames(count)


def calling_line() -> int | None:
    """For host functions: the line of the program that makes this call, from 1; None if the program hides it,
    and outside a program. Ask on the thread that called the function."""
    calls = _calls.get()
    return calls.line if calls is not None else None


class HostCalls:
    """The calls of one program. `fatal`: exceptions that end the program and are raised to the caller."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        limits: Limits,
        fatal: tuple[type[BaseException], ...],
    ) -> None:
        self._functions = functions
        self._limits = limits
        self._fatal = fatal
        self._frames = 0
        self.handles = HandleTable(limits)
        self.lines: list[str] = []
        """The calls so far, as the log shows them."""
        self.line: int | None = None
        """The program's line that makes the call at hand."""
        self.called = False
        """Whether a function was called, even if it did not finish."""
        self.seconds = 0.0
        """Time spent in the functions."""

    def use_frames(self, count: int) -> None:
        """Count frames. Raises BudgetExceeded."""
        self._frames += count
        if self._frames > self._limits.frames:
            raise BudgetExceeded(
                "FrameLimit", f"the program's calls looked at more than {self._limits.frames:,} frames"
            )

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Take what host functions ask and report on this thread for this program's, for the length of a
        run."""
        token = _calls.set(self)
        try:
            yield
        finally:
            _calls.reset(token)

    def make(self, name: Any, arguments: Any, line: int) -> Any:
        """Call a function and return its result packed for the wire.

        `arguments`: what was unpacked from the program's process, (args, kwargs). Raises ProgramException
        for errors that the program sees, BudgetExceeded, ProtocolViolation for an invalid call, and the
        `fatal` exceptions.
        """
        function = self._functions.get(name) if type(name) is str else None
        if (
            function is None
            or type(arguments) is not tuple
            or [type(part) for part in arguments] != [tuple, dict]
        ):
            raise ProtocolViolation("a call of nothing")
        args, kwargs = arguments
        if not all(type(key) is str for key in kwargs):
            raise ProtocolViolation("a call with a keyword that is none")
        if len(self.lines) >= self._limits.calls:
            raise BudgetExceeded("CallLimit", f"the program made more than {self._limits.calls} calls")
        argument_text = _brief_arguments(args, kwargs)
        self.line = line if line > 0 else None
        self.called = True

        try:
            value = self._timed(function, args, kwargs)
            packed = self.handles.pack(value, self._limits.result_bytes)
            how = f"gave {harmless(brief(value, handle_repr))}"
        except BaseException as error:
            kind = error.kind if isinstance(error, BudgetExceeded) else type(error).__name__
            # A program can ask for less, so this one is its own to catch; a budget is not.
            text = f"the result of {name}() cannot be passed: {error}" if type(error) is wire.TooLarge else ""
            how = f"raised {harmless(shorten(f'{kind}: {text or error}', 300))}"
            # What is not for the program is recorded all the same.
            if isinstance(error, (BudgetExceeded, *self._fatal)) or not isinstance(error, Exception):
                raise
            raise self._raised(error, text) from error
        finally:
            self.lines.append(shown_call(name, argument_text, how, self.line))
        return packed

    def _timed(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        begun = time.monotonic()
        try:
            try:
                value = function(*args, **kwargs)
            finally:
                self.seconds += time.monotonic() - begun
        except self._fatal:
            raise
        except Exception:
            self._check_budgets()
            raise
        self._check_budgets()
        return value

    def _check_budgets(self) -> None:
        """Raise BudgetExceeded if the calls so far used too many frames, or too much time."""
        # Checked here too, in case the function swallowed the first exception.
        self.use_frames(0)
        if self.seconds > self._limits.module_seconds:
            raise BudgetExceeded(
                "ModuleTimeLimit",
                f"the program's calls took more than {self._limits.module_seconds:g} s: make fewer of them, "
                "or look at fewer frames",
            )

    def _raised(self, error: Exception, message: str) -> ProgramException:
        """The error as the program sees it; `message`: instead of its own, if not empty."""
        # So that `except ValueError` in the program catches a module's error that derives from it.
        base = next(cls.__name__ for cls in type(error).__mro__ if _BASES.get(cls.__name__) is cls)
        # str() of a KeyError is the repr of its key.
        message = message or str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        return ProgramException(type(error).__name__, base, shorten(message, self._limits.error_bytes))


def _brief_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call's arguments as one line. Takes time proportional to the line, not to the arguments."""
    parts: list[str] = []
    room = _ARGUMENT_CHARS
    for name, value in (*(("", value) for value in args), *kwargs.items()):
        text = brief(value, handle_repr)
        parts.append(f"{name[:room]}={text}" if name else text)
        room -= len(parts[-1]) + 2
        if room < 0:
            break
    return harmless(shorten(", ".join(parts), _ARGUMENT_CHARS))
