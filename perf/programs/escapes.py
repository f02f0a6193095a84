"""Hostile programs that reach out of the sandbox: for files, processes, the network, native code."""

from __future__ import annotations

import random

from perf.programs.families import family, program, reaching


@family("walks of attributes")
def _walks(chance: random.Random) -> str:
    walk = chance.choice(
        (
            "().__class__.__mro__[1].__subclasses__()",
            "[c for c in object.__subclasses__() if 'Popen' in c.__name__ or 'wrap_close' in c.__name__]",
            "video.__class__.__init__.__globals__['sys'].modules",
            "execute_command.__globals__['__builtins__']",
            "execute_command.__code__.replace(co_consts=(secret,))",
            "''.format.__self__.__class__.__base__",
            "'{0.__class__.__init__.__globals__}'.format(video)",
            "type(video).__getattr__.__globals__['Handle'].__subclasses__()",
            "(lambda f: f.gi_frame.f_back.f_back.f_globals)(x for x in ())",
        )
    )
    return program(
        f"found = {walk}", f"print(found)\nfor n in range({chance.randint(1, 4)}): found = str(found)"
    )


@family("files")
def _files(chance: random.Random) -> str:
    act = chance.choice(
        (
            "fd = os.open(secret, 0); print(os.read(fd, 100))",
            "fd = os.open(secret, 1 | 64 | 512); os.write(fd, b'pwned')",
            "os.unlink(secret)",
            "os.rename(secret, secret + '.gone')",
            "print(os.listdir('/'), os.listdir(os.sep + 'proc'))",
            "os.mkdir(secret + '.d'); os.symlink('/etc/passwd', secret + '.l')",
            "os.chmod(secret, 0o777); os.truncate(secret, 0)",
            "import io\nprint(type(io.StringIO())(secret)); print(io.open(secret).read())",
            "import enum\nprint(enum.sys.modules['io'].FileIO(secret).read())",
            "import enum\nprint(enum.sys.modules['linecache'].getlines(secret))",
            "print(os.readlink('/proc/self/exe'), os.stat(secret))",
            "os.chdir('/'); os.chroot('.')",
        )
    )
    return reaching(chance, *act.split("\n"))


@family("processes")
def _processes(chance: random.Random) -> str:
    act = chance.choice(
        (
            "while True: os.fork()",
            "os.system('touch ' + secret + '.sh')",
            "os.execv('/bin/sh', ['sh', '-c', 'touch ' + secret + '.sh'])",
            "os.posix_spawn('/bin/sh', ['sh', '-c', 'id'], {})",
            "os.popen('id').read()",
            "os.forkpty()",
            "os.setsid(); os.setuid(0)",
            "for n in range(100):\n    try: os.fork()\n    except OSError: pass",
        )
    )
    return reaching(chance, *act.split("\n"))


@family("network")
def _network(chance: random.Random) -> str:
    act = chance.choice(
        (
            "s = m['_socket'].socket(); s.connect(('127.0.0.1', port)); s.send(b'hello')",
            "m['_socket'].socket(2, 2).sendto(b'hello', ('127.0.0.1', port))",
            "m['_socket'].getaddrinfo('localhost', port)",
            "m['_socket'].socket(fileno=3).connect(('127.0.0.1', port))",
            "m['_socket'].socketpair()",
            "print(m['_socket'].gethostname())",
        )
    )
    return program("m = enum.sys.modules", act, head="import enum")


@family("signals")
def _signals(chance: random.Random) -> str:
    act = chance.choice(
        (
            "os.kill(pid, 9)",
            "os.kill(other, 9)",
            "os.kill(-1, 9)",
            "os.killpg(0, 9)",
            "os.kill(os.getppid(), 15)",
            "for n in range(1, 65536):\n    try: os.kill(n, 9)\n    except OSError: pass",
            "import enum\nenum.sys.modules['signal'].pidfd_send_signal(3, 9)",
            "os.kill(os.getpid(), 19)",
        )
    )
    return reaching(chance, *act.split("\n"))


@family("descriptors")
def _descriptors(chance: random.Random) -> str:
    number = chance.choice((0, 1, 2, 4, 5, 9, 63))
    act = chance.choice(
        (
            f"os.write({number}, b'hello')",
            f"os.read({number}, 10)",
            f"os.dup2(3, {number})",
            "os.close(3)",
            "os.closerange(0, 100)",
            "os.pipe()",
            "os.sendfile(3, 0, 0, 100)",
            "os.set_blocking(3, False)",
            "os.lseek(3, 0, 0); os.ftruncate(3, 0)",
            "os.memfd_create('x')",
        )
    )
    return reaching(chance, act)


@family("native code")
def _native_code(chance: random.Random) -> str:
    act = chance.choice(
        (
            "c.string_at(0)",
            "c.memset(id(None), 255, 64)",
            "c.CDLL(None).system(b'id')",
            "c.CDLL(None).syscall(59, b'/bin/sh', 0, 0)",
            "libc = c.CDLL(None); libc.mmap(0, 4096, 7, 34, -1, 0)",
            "print([c.CDLL(None).syscall(n, 0, 0, 0) for n in range(335) if n not in (15, 24, 34, 60, 231)])",
            "c.pythonapi.Py_Exit(5)",
            "b = c.create_string_buffer(bytes(64)); c.CFUNCTYPE(c.c_int)(c.addressof(b))()",
            "c.CDLL('/lib/x86_64-linux-gnu/libc.so.6')",
            "c.CDLL(None).prctl(22, 0, 0, 0, 0); print(c.CDLL(None).open(secret.encode(), 0))",
        )
    )
    return program("c = enum.sys.modules['ctypes']", act, head="import enum")


@family("disarmed timers")
def _disarmed(chance: random.Random) -> str:
    names = chance.sample(["SIGPROF", "SIGVTALRM", "SIGXCPU", "SIGALRM", "SIGSEGV"], 3)
    way = chance.choice(("s.signal(getattr(s, n), s.SIG_IGN)", "s.pthread_sigmask(0, [getattr(s, n)])"))
    return program(
        "s = enum.sys.modules['signal']", f"for n in {names}: {way}", "while True: pass", head="import enum"
    )
