"""A program's process: confine itself, run the program, report the outcome.

The program can tamper with everything here; the host therefore checks all that comes out, and the kernel
enforces the restrictions. This file serves ordinary programs: CPython's own behaviour, clear errors with the
program's line, budgets that `except Exception` does not catch.
"""

from __future__ import annotations
import __future__

import builtins
import faulthandler
import gc
import io
import linecache
import marshal
import mmap
import os
import random
import signal
import sys
import types
import warnings
from base64 import b64decode
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any, NoReturn

from . import confinement
from .allowed import ABSENT, ENTRY, FILE, FORBIDDEN_BUILTINS, GRACE, IMPORTABLE_MODULES, LATE
from .confinement import SOCKET_FD
from .error_report import describe_error
from .handle import Handle, Handles
from .wire import (
    CALL,
    ERROR,
    HEADER,
    KEYS,
    PRINT,
    RAISE,
    READY,
    RESULT,
    SETUP_FAILED,
    START,
    VALUE,
    TooLarge,
    frame,
    pack,
    parse,
    unpack,
)


class Output(io.TextIOBase):
    """Replaces sys.stdout: output is kept in memory and sent with the next message. When more than `size`
    characters have been written in total, raises the exception that `breach` makes from a message; the host
    is sent one character too many, so that it notices too."""

    encoding = "utf-8"

    def __init__(self, size: int, breach: Callable[[str], BaseException]) -> None:
        self._size = self._left = size
        self._breach = breach
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Keep what fits."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if len(text) > self._left:
            # What fits is kept: the log shows the beginning of a flood.
            self._parts.append(text[: self._left + 1])
            self._left = -1
            raise self._breach(f"the program printed more than {self._size:,} characters")
        self._left -= len(text)
        self._parts.append(text)
        return len(text)

    def take(self) -> str:
        """Return what was written since the last call."""
        if not self._parts:
            return ""
        text = "".join(self._parts)
        self._parts.clear()
        return text


NAME = "__program__"
# The host's numbers are taken as they come.
_ANY_DIGITS = sys.maxsize
BROKEN = 70
"""Exit status of a process that could not even report what went wrong."""


class LimitReached(BaseException):
    """A limit was reached. Not an Exception, because programs habitually catch those."""


class CpuLimit(LimitReached):
    """The program used up its processor time."""


class OutputLimit(LimitReached):
    """The program printed too much."""


_REAL_IMPORT = builtins.__import__


def _read(most: int) -> bytes:
    part = os.read(SOCKET_FD, most)
    if not part:
        os._exit(BROKEN)  # The host is gone.
    return part


def _receive() -> tuple[bytes, Any]:
    # The host sends one message at a time: what is read is the beginning of one, or all of it.
    message = _read(1 << 13)
    while len(message) < HEADER.size:
        message += _read(1 << 13)
    kind, length = HEADER.unpack_from(message)
    parts = [message[HEADER.size :]]
    length -= len(parts[0])
    while length > 0:
        parts.append(_read(1 << 18))
        length -= len(parts[-1])
    return kind, parse(b"".join(parts).decode("ascii"), _ANY_DIGITS)


def _send(message: bytes) -> None:
    left = memoryview(message)
    while left:
        left = left[os.write(SOCKET_FD, left) :]


class Session:
    """One program's conversation with the host. `start`: the host's first message."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.limits: Mapping[str, Any] = start["limits"]
        self.output = Output(self.limits["output_bytes"], lambda error: self.breached(OutputLimit(error)))
        self.handles = Handles()
        self.errors: dict[tuple[str, str], type[BaseException]] = {}
        self.entered: types.FrameType | None = None
        self.breach: LimitReached | None = None

    def breached(self, breach: LimitReached) -> LimitReached:
        """Record the first budget breached: it decides the outcome, whatever the program catches."""
        if self.breach is None:
            self.breach = breach
        return breach

    def pack(self, value: Any, *, size: int) -> Any:
        """Plain data and handles as JSON. Raises TypeError and TooLarge."""
        return pack(
            value,
            self.handles.pack,
            items=self.limits["items"],
            size=size,
            depth=self.limits["depth"] + 2,
            digits=self.limits["digits"],
            keys=KEYS,
        )

    def printed(self) -> bytes:
        """A message with what was printed since the last one, or nothing."""
        text = self.output.take()
        return frame(PRINT, text) if text else b""

    def unpack(self, packed: Any) -> Any:
        """A value of the host's."""
        return unpack(
            packed, lambda content: self.handles.unpack(content, self.unpack), items=1 << 30, depth=99
        )

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Let the host call a function. Raises what the function raised."""
        try:
            packed = self.pack((args, kwargs), size=self.limits["argument_bytes"])
        except TypeError as error:
            raise TypeError(f"{name}() was given {error}") from None
        except (TooLarge, RecursionError) as error:
            raise TooLarge(f"an argument of {name}() cannot be passed: {error}") from None
        message = frame(CALL, [name, packed, _line()])
        if len(message) > self.limits["argument_bytes"]:
            raise TooLarge(
                f"the arguments of {name}() are larger than {self.limits['argument_bytes']:,} bytes"
            )
        _send(self.printed() + message)
        kind, reply = _receive()
        if kind == VALUE:
            return self.unpack(reply)
        if kind == RAISE:
            raise self.error(*reply)
        raise type(reply[0], (LimitReached,), {})(reply[1])

    def error(self, name: str, base: str, message: str) -> BaseException:
        """The host's exception: the builtin of that name, or a class of that name below the builtin
        `base`.
        """
        cls = self.errors.get((name, base))
        if cls is None:
            parent = getattr(builtins, base)
            cls = parent if name == base else type(name, (parent,), {"__module__": "builtins"})
            self.errors[name, base] = cls
        # Without __init__, which for some classes asks for more than a message.
        error: BaseException = cls.__new__(cls)
        error.args = (message,)
        return error

    def function(self, name: str) -> Callable[..., Any]:
        """The host's function of that name, for the program to call."""

        def module(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, args, kwargs)

        module.__name__ = module.__qualname__ = name
        return module


def _line() -> int:
    """The program's line that is running."""
    frame_ = sys._getframe(2)
    while frame_ is not None:
        if frame_.f_code.co_filename == FILE:
            return frame_.f_lineno
        frame_ = frame_.f_back  # type: ignore[assignment]
    return 0


def _guarded_import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """`import` for programs."""
    if level == 0 and (name in IMPORTABLE_MODULES or name in LATE):
        return _REAL_IMPORT(name, globals, locals, fromlist, level)
    advice = ABSENT.get(name.partition(".")[0], "")
    raise ImportError(
        f"{name!r} is not available to programs{advice}; these modules are: {', '.join(IMPORTABLE_MODULES)}",
        name=name,
    )


def _absent(name: str) -> Callable[..., NoReturn]:
    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise NameError(f"{name}() is not available to programs", name=name)

    absent.__name__ = absent.__qualname__ = name
    return absent


def _program_builtins() -> dict[str, Any]:
    namespace = dict(vars(builtins))
    namespace.update({name: _absent(name) for name in FORBIDDEN_BUILTINS})
    namespace["__import__"] = _guarded_import
    return namespace


_BUILTINS: dict[str, Any] = {}


_IGNORED_WARNINGS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    ImportWarning,
    ResourceWarning,
    SyntaxWarning,
)


def warm_up() -> None:
    """Do once, in the zygote, what every program's process needs."""
    _BUILTINS.update(_program_builtins())
    # The compiler's first use loads tables that every fork then shares.
    compile("f'{1:.2f}'", FILE, "exec")
    # CPython's defaults, for programs that warn; warnings about a program's syntax are not its own output.
    warnings.resetwarnings()
    for kind in _IGNORED_WARNINGS:
        warnings.simplefilter("ignore", kind)
    warnings.formatwarning = _formatwarning
    # The time limit first raises an exception inside the program (`_limit_time`), repeatedly if it is
    # swallowed; then, also for a program that never leaves a C function, it dumps the stack and ends the
    # process. So does the kernel's own limit, which comes last: a program whose time is the kernel's, as of
    # one that fills memory, meets it first.
    faulthandler.enable(SOCKET_FD, all_threads=False)
    for number in (signal.SIGVTALRM, signal.SIGXCPU):
        faulthandler.register(number, SOCKET_FD, all_threads=False, chain=True)


def _formatwarning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return f"line {lineno}: {category.__name__}: {message}\n"


def rehearse() -> None:
    """Use what every program uses, so that a waiting child already has its own copy of that memory."""
    random.seed(0)  # The random module takes a fresh seed in every fork; runs must be repeatable.
    space: dict[str, Any] = {"__builtins__": _BUILTINS}
    exec(compile("def f(a):\n    return [x for x in a]\nf([1])", FILE, "exec"), space)
    parse(frame(RESULT, [1, "a"])[HEADER.size :].decode("ascii"), _ANY_DIGITS)


def _arguments(entry: Any, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments for the entry function: the inputs that its signature names."""
    code = getattr(entry, "__code__", None)
    # A class or a partial with the name of the entry: it gets everything, and reports what it cannot take.
    if code is None:
        return [], dict(inputs)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    optional = len(entry.__defaults__ or ())
    required = [*names[: code.co_argcount - optional]]
    required += [name for name in names[code.co_argcount :] if name not in (entry.__kwdefaults__ or {})]
    missing = [name for name in required if name not in inputs]
    if missing:
        raise TypeError(
            f"{ENTRY}() asks for {', '.join(map(repr, missing))}; what it can have is {', '.join(inputs)}"
        )
    arguments = {name: inputs[name] for name in names if name in inputs}
    first = [arguments.pop(name) for name in names[: code.co_posonlyargcount] if name in arguments]
    if code.co_flags & 0x08:  # **kwargs takes the rest
        arguments.update({name: value for name, value in inputs.items() if name not in names})
    return first, arguments


def _run(session: Session, start: Mapping[str, Any]) -> Any:
    functions = {name: session.function(name) for name in start["functions"]}
    prelude: dict[str, Any] = {
        "__name__": "__prelude__",
        "__builtins__": builtins,
        "Handle": Handle,
        **functions,
    }
    if start["prelude"]:
        exec(marshal.loads(b64decode(start["prelude"])), prelude)
    session.handles.learn(prelude)
    inputs = {name: session.unpack(value) for name, value in start["inputs"].items()}

    # A separate module: dataclasses, enums and typing look up where a class was made.
    module = types.ModuleType(NAME)
    sys.modules[NAME] = module
    space = vars(module)
    space["__builtins__"] = _BUILTINS
    space.update(
        {name: value for name, value in prelude.items() if not name.startswith("_") and name != "Handle"}
    )
    space.update(functions)
    space.update(inputs)
    source = start["program"]
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    # Annotations stay text: planners annotate with types that only the host has.
    code = compile(source, FILE, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    _watched(session, exec, code, space)
    entry = space.get(ENTRY)
    if not callable(entry):
        raise NameError(f"the program defines no function {ENTRY}")
    args, kwargs = _arguments(entry, inputs)
    return _watched(session, entry, *args, **kwargs)


def _watched(session: Session, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make the call and return its result. The program's first frame is kept for errors: without memory
    CPython cannot record a traceback, but the frame still knows its line."""

    def entered(frame_: types.FrameType, event: str, argument: Any) -> None:
        if frame_.f_code.co_filename == FILE:
            session.entered = frame_
            sys.settrace(None)

    sys.settrace(entered)
    value = call(*args, **kwargs)
    sys.settrace(None)
    session.entered = None
    return value


def _limit_time(session: Session) -> Callable[[], None]:
    """Start the program's clock. Returns a function to call when the program begins: until then the end of
    its time is recorded but not raised."""
    cpu = session.limits["cpu_seconds"]
    begun = False

    def out_of_time(number: int, frame_: Any) -> None:
        # The timer counts ticks, by whoever runs at one: on a busy machine it is early, and comes again.
        if process_time() < cpu:
            return
        breach = session.breached(CpuLimit(f"the program used its {cpu:g} s of processor time"))
        if begun:
            raise breach

    def begin() -> None:
        nonlocal begun
        begun = True
        if session.breach is not None:
            raise session.breach

    signal.signal(signal.SIGPROF, out_of_time)
    # Repeated, for programs that swallow the first one.
    signal.setitimer(signal.ITIMER_PROF, cpu, 0.05)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu + GRACE)
    return begin


def main(confine: confinement.Confinement, base: int) -> None:
    """Run a program's process to its end.

    `confine`: its restrictions. `base`: the zygote's bytes of address space. A failure before the program
    runs is reported as a restriction that cannot be applied.
    """
    try:
        kind, start = _receive()
        if kind != START:
            os._exit(BROKEN)
        session = Session(start)
        limits = session.limits
        sys.stdout = sys.stderr = session.output
        sys.stdin = None
        # Address space to release when a program has used up its own, so that there is room to report it.
        reserve = mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # Off in the zygote, whose objects no child should touch; programs make cycles.
        gc.enable()
        begin = _limit_time(session)
        confine.apply(base + limits["memory_bytes"] + (2 << 20), int(limits["cpu_seconds"] + GRACE) + 1)
        _send(_READY)
    except Exception as error:
        _send(frame(SETUP_FAILED, f"{type(error).__name__}: {error}"[:500]))
        os._exit(BROKEN)
    _send(_final_message(session, start, begin, reserve))
    os._exit(0)


_READY = frame(READY, None)


def _final_message(
    session: Session, start: Mapping[str, Any], begin: Callable[[], None], reserve: mmap.mmap
) -> bytes:
    try:
        try:
            begin()
            message = _result(session, _run(session, start))
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            if session.breach is not None:
                raise session.breach
        except BaseException as error:
            reserve.close()  # Before anything else: without memory, nothing else works.
            # The first timer would keep interrupting; a hostile __str__ runs into the second one.
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            sys.settrace(None)
            ended = session.breach or error
            message = frame(ERROR, describe_error(ended, session.limits, start["program"], session.entered))
        return session.printed() + message
    except BaseException as error:
        return frame(ERROR, [[type(error).__name__, "", []]])


def _result(session: Session, value: Any) -> bytes:
    size = session.limits["argument_bytes"]
    try:
        packed = session.pack(value, size=size)
    except TypeError as error:
        raise TypeError(f"{ENTRY} returned {error}") from None
    except (TooLarge, RecursionError) as error:
        raise TooLarge(f"what {ENTRY} returned is too large: {error}") from None
    message = frame(RESULT, packed)
    if len(message) > size:
        raise TooLarge(f"what {ENTRY} returned is larger than {size:,} bytes")
    return message
