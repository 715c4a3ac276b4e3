"""Programs of which each shows one behaviour of Python, and what two ways of running them gave."""

import re

from witness import WITNESS

from agenteval.trial.trial import Limits

# One behaviour of a Python program each; both ways must show the same.
BEHAVIOURS = {
    "exit by number": r"""raise SystemExit(3)""",
    "exit by text": r"""raise SystemExit('error: no')""",
    "exit by nothing": r"""
import sys
print('out')
sys.exit()
""",
    "exit by an object": r"""raise SystemExit([1, 2])""",
    "exit by a large number": r"""raise SystemExit(259)""",
    "exit from a thread": r"""
import threading, sys
threading.Thread(target=sys.exit, args=[3]).start()
""",
    "exit at once": r"""
import os, sys
sys.stdout.write('lost')
os._exit(4)
""",
    "exit in a finalizer": r"""
import atexit
atexit.register(lambda: 1 / 0)
print('done')
""",
    "end by a signal": r"""
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
""",
    "abort": r"""
import os
os.abort()
""",
    "an exception": r"""
def f(): return 1 / 0
def g(): f()
g()
""",
    "a chain of exceptions": r"""
try: {}['x']
except KeyError as e: raise ValueError('é\n') from e
""",
    "a group of exceptions": r"""
raise ExceptionGroup('two', [OSError(2, 'x'), ValueError()])
""",
    "a syntax error": r"""
print('never')
x = = 1
""",
    "a syntax warning": r"""print(1 is 1)""",
    "a byte that is no text": r"""
print('\udcff\u00e9')
import sys
print('\udcff', file=sys.stderr)
""",
    "an excepthook": r"""
import sys
sys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)
1/0
""",
    "a broken excepthook": r"""
import sys
sys.excepthook = lambda *a: 1/0
{}[1]
""",
    "a warning": r"""
import warnings
warnings.warn('careful', stacklevel=1)
""",
    "an unraisable": r"""
class A:
  def __del__(self): 1/0
a = A()
del a
""",
    "order of output": r"""
import sys
for n in range(3): print(n); print(-n, file=sys.stderr)
""",
    "much output": r"""for n in range(20000): print(n, 'x' * 20)""",
    "standard input": r"""
import sys
print(repr(sys.stdin.read()), sys.stdin.isatty())
""",
    "the streams": r"""
import sys
for s in (sys.stdin, sys.stdout, sys.stderr):
  print(s, s.mode, s.errors, s.line_buffering, s.write_through, s.buffer, s.buffer.raw.name)
  print(s is getattr(sys, f'__{s.name[1:-1]}__'), s.seekable(), s.isatty())
""",
    "what is seen of itself": r"""
import sys, os
print(sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.path, sys.warnoptions)
print(sys._xoptions, sys.dont_write_bytecode)
print(__name__, __file__, __spec__, __package__, __doc__, type(__loader__), __builtins__)
print(sorted(globals()), sorted(vars(sys)), sorted(__builtins__.__dict__))
import __main__
print(__main__.__dict__ is globals())
""",
    "its place": r"""
import os
print(os.getcwd(), sorted(os.environ.items()), os.umask(0))
print(os.getppid(), os.getpid() == os.getsid(0) == os.getpgid(0))
print(os.getresuid() == os.getresgid(), len(os.getgroups()))
""",
    "its descriptors": r"""
import os
print(sorted(os.listdir('/proc/self/fd')))
""",
    "its protection": r"""
import os
for line in open('/proc/self/status'):
  if line.startswith(('Cap', 'NoNew', 'Seccomp:', 'Threads', 'SigBlk', 'SigCgt', 'Umask')):
    print(line)
print(open('/proc/self/limits').read())
print(os.access('/proc/self/mem', 2))
print(os.readlink('/proc/self/exe'))
""",
    "its signals": r"""
import signal
print([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals()) if s < 32])
print(signal.pthread_sigmask(0, []))
print(signal.set_wakeup_fd(-1))
""",
    "its language": r"""
import locale, sys
print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding())
print(sys.getfilesystemencodeerrors(), sys.flags.utf8_mode)
""",
    "a file left open": r"""
f = open('left', 'w')
f.write('kept')
g = [f]
print(open('left').read())
""",
    "finalizers": r"""
import atexit, weakref
class A:
  def __del__(self): print('del', flush=True)
a = A()
b = A()
weakref.finalize(b, print, 'final')
atexit.register(print, 'exit')
print(0)
""",
    "finalizers at the very end": r"""
import json, near, os, sys, tempfile
class A:
  def __init__(self, name): self.name = name
  def __del__(self):
    print(self.name, json.dumps(1), near.X, os.getpid() > 1, flush=True)
    import json as again, shlex
a, near.kept, sys.kept = A('mine'), A('near'), A('system')
folder, file = tempfile.TemporaryDirectory(), open('scripts/unflushed', 'w')
near.file = open('scripts/unflushed near', 'w')
file.write('kept'), near.file.write('kept')
""",
    "logging to its end": r"""
import atexit, logging, logging.handlers as h
m = h.MemoryHandler(9, target=logging.StreamHandler())
logging.getLogger().addHandler(m)
logging.warning('late')
atexit.register(logging.error, 'last')
""",
    "threads": r"""
import threading, time
def f(n): time.sleep((n + 1) / 5); print(n, flush=True)
for n in range(3): threading.Thread(target=f, args=[n]).start()
print('main', flush=True)
""",
    "a daemon thread": r"""
import threading, time
threading.Thread(target=time.sleep, args=[60], daemon=True).start()
print('main')
""",
    "workers by fork": r"""
import multiprocessing as m
def f(n): return n * n
if __name__ == '__main__':
  with m.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))
""",
    "workers by spawn": r"""
import multiprocessing as m
def f(n): return n * n
if __name__ == '__main__':
  with m.get_context('spawn').Pool(2) as p: print(p.map(f, [2]))
""",
    "workers in an executor": r"""
from concurrent.futures import ThreadPoolExecutor as E
with E(2) as e: print(list(e.map(str, range(4))))
""",
    "an event loop": r"""
import asyncio
async def f(): await asyncio.sleep(0)
print('ran')
asyncio.run(f())
""",
    "a child process": r"""
import subprocess, sys
print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))
""",
    "a bare fork": r"""
import os
if os.fork() == 0: print('child')
else: os.wait()
print('parent')
""",
    "a module beside it": r"""
import near, os
print(near.X, near.__file__)
print(sorted(os.listdir('scripts')))
""",
    "itself as a module": r"""
import sys
if __name__ == '__main__': import itself_as_a_module; print(1)
else: print(__name__)
""",
    "itself pickled": r"""
import pickle
class A: pass
print(pickle.loads(pickle.dumps(A())).__class__, len(pickle.dumps(A)))
""",
    "its source": r"""
import inspect, linecache
def f(): return 1
print(inspect.getsource(f), linecache.getline(__file__, 1))
""",
    "help": r"""
import argparse
p = argparse.ArgumentParser(description='ü')
p.add_argument('--x', type=int)
p.parse_args()
""",
    "a database": r"""
import sqlite3
with sqlite3.connect('scripts/x.db') as d: d.execute('create table if not exists t (a)')
d.execute('insert into t values (1)')
print(d.execute('select count(*) from t').fetchall(), d.total_changes)
""",
    "deep recursion": r"""
def f(n): return n and f(n - 1)
print(f(900))
try: f(10 ** 6)
except RecursionError as e: print(e)
""",
    "its priority": r"""
import os, resource
print(os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE), os.sched_getscheduler(0))
""",
    "what it has spent": r"""
import time, resource
print(time.process_time() < 5, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)
""",
    "an undecodable name": r"""
import os, sys
print([os.fsencode(a) for a in sys.argv])
""",
    "a leftover": r"""
import subprocess
subprocess.Popen(['sleep', '300'], start_new_session=True)
print('left')
""",
}


def named(behaviour: str) -> str:
    return f"scripts/{behaviour.replace(' ', '_')}.py"


BEHAVING = {named(name): f"{code}\n".encode() for name, code in BEHAVIOURS.items()} | {
    "scripts/near.py": b"X = 1\n",
    "scripts/witness.py": WITNESS,
}


async def shown(backend, files, calls):
    """What each call gives, then the files of the workspace; all in one trial."""
    done = []
    async with backend.open(files, Limits()) as sandbox:
        for argv in calls:
            ran = await sandbox.run(argv)
            output = re.sub("at 0x[0-9a-f]+", "at an address", ran.output)
            done.append((argv, ran.exit_code, output, ran.limit, ran.cut))
        listed = await sandbox.run(["sh", "-c", "find . -type f | sort"])
        # compiled files hold the time of their source: their names alone are compared
        left = {
            path: b"" if path.endswith(".pyc") else await sandbox.read(path)
            for path in listed.output.splitlines()
        }
    return done, left


async def forked_is_executed(backend, forking, files, calls):
    executed, left = await shown(backend, files, calls)
    forked, left_too = await shown(forking, files, calls)
    for one, other in zip(forked, executed, strict=True):
        assert one == other
    assert left_too == left
