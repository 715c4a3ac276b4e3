"""Commands that each meet one limit, by its name: what is changed, what runs, how it may end."""

from agenteval.trial.trial import Limit

MIB = 1 << 20
SPIN = "while True: pass"
FORKED_SPIN = "import os; os.fork(); os.fork()\nwhile True: pass"
OPEN = "held = [open('/dev/null') for _ in range(1000)]"
WRITE = "open('big', 'wb').write(bytes(3 << 20))"
GRAB = "held = bytearray(8 << 30)"
THREADS = """
import threading, time
for _ in range(99): threading.Thread(target=time.sleep, args=[9]).start()
"""
SOCKETS = """
import socket, time
held = []
for _ in range(100):
    held.append(socket.socketpair())
    held[-1][0].setblocking(False)
    try:
        while True: held[-1][0].send(bytes(1 << 15))
    except BlockingIOError: pass
time.sleep(30)
"""
UNREAD = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
"""
# In pieces: twelve at once could meet the limit of its data segment first. The file has no name, so
# that it ends with its command, and the next one is not struck for it.
LEAVE = """
import os, time
with open('/dev/shm/held', 'wb') as file:
    os.unlink('/dev/shm/held')
    for _ in range(12): file.write(bytes(1 << 20))
    time.sleep(30)
"""
SHARE = """
import os, time
held = bytearray(b'x') * (40 << 20)
for _ in range(2):
    if os.fork() == 0: break
time.sleep(0.4)
"""
# Small pieces of address space, and epolls: the kernel keeps much for them, and the command little.
MAPPED = """
import ctypes, os, time
call = ctypes.CDLL(None).mmap
call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for _ in range(3): os.fork()
for number in range(40_000): call(None, 4096, 1 + 2 * (number & 1), 0x22, -1, 0)
time.sleep(30)
"""
WATCHED = """
import os, select, time
for _ in range(5): os.fork()
polls, files = [select.epoll() for _ in range(120)], [os.eventfd(0) for _ in range(120)]
for poll in polls:
    for file in files: poll.register(file)
time.sleep(30)
"""

OUTPUT = "import os\nfor _ in range(1024): os.write(1, b'x' * (1 << 16))"
INODES = "for number in range(300): open(f'f{number}', 'w').close()"

STRUCK = [
    (Limit.WALL_TIME, {"call_seconds": 0.3}, ["sleep", "30"], [None]),
    (Limit.CPU, {"cpu_seconds": 1}, ["python3", "-c", SPIN], [None]),
    (Limit.CPU, {"cpu_seconds": 1}, ["python3", "-c", FORKED_SPIN], [None]),
    (Limit.CPU, {"cpu_seconds": 1}, ["python3", "-c", UNREAD], [None]),
    (Limit.MEMORY, {}, ["python3", "-c", GRAB], [1]),
    (Limit.MEMORY, {"memory": 48 * MIB}, ["python3", "-c", SOCKETS], [None]),
    (Limit.MEMORY, {"memory": 11 * MIB}, ["python3", "-c", LEAVE], [None]),
    (Limit.MEMORY, {"memory": 64 * MIB}, ["python3", "-c", MAPPED], [None]),
    (Limit.MEMORY, {"memory": 64 * MIB}, ["python3", "-c", WATCHED], [None]),
    (Limit.PROCESSES, {"processes": 8}, ["python3", "-c", THREADS], [None]),
    (Limit.OPEN_FILES, {"open_files": 64}, ["python3", "-c", OPEN], [1]),
    (Limit.FILE_SIZE, {"file_size": MIB}, ["python3", "-c", WRITE], [1]),
    (Limit.FILE_SIZE, {"file_size": MIB}, ["sh", "-c", "exec cat /dev/zero > big"], [153]),
    (Limit.WORKSPACE, {"workspace": MIB}, ["cp", "/bin/bash", "/bin/tar", "."], [1, None]),
    (Limit.WORKSPACE, {"workspace": MIB}, ["python3", "-c", WRITE], [1, None]),
    (Limit.INODES, {"inodes": 200}, ["python3", "-c", INODES], [0, 1, None]),
    (Limit.OUTPUT, {"output_killed": MIB}, ["python3", "-c", OUTPUT], [None]),
]
