"""Tests of control groups in a virtual machine, whose groups are all ours: as root, as a user.

python tests/sandbox/guest.py KERNEL [WORDS FOR PYTEST]

KERNEL is a file that qemu starts, as Debian's package linux-image-cloud-amd64 has it below boot/.
The machine's root is this machine's own programs (image.py), this project and pytest, in memory.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
QEMU = "qemu-system-x86_64"
SAYS = "guest: exit "
SECONDS = 1500  # without hardware for it a machine is slow
PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest_asyncio")
MODULES = ("py", "typing_extensions")
FIRST = """#!/busybox sh
/busybox mkdir /root2
/busybox mount -t tmpfs -o mode=755 none /root2
for one in /*; do [ $one = /root2 ] || /busybox cp -a $one /root2/; done
exec /busybox switch_root /root2 /second
"""
SECOND = """#!/busybox sh
b=/busybox
$b mount -t proc none /proc; $b mount -t sysfs none /sys; $b mount -t devtmpfs none /dev
$b mount -t tmpfs -o mode=1777 none /tmp; $b mkdir -p /dev/shm /home
$b ip link set lo up
$b mount -t cgroup2 none /sys/fs/cgroup
echo "+memory +pids +cpu" > /sys/fs/cgroup/cgroup.subtree_control
$b uname -r
code=0
for user in 0 65534; do
    $b mkdir /sys/fs/cgroup/work$user
    $b chown -R $user /sys/fs/cgroup/work$user
    ($b sh -c 'echo $$ > /sys/fs/cgroup/work'$user'/cgroup.procs; exec python3 /as.py "$@"' \
        sh $user WORDS) || code=$?
done
echo "SAYS$code"
$b poweroff -f
"""
AS = """
import os, sys
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
home = f"/tmp/home{user}"
os.mkdir(home)
os.environ.clear()
os.environ |= {
    "HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": "/project",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1",
}
os.chdir("/project")
print("as user", user, flush=True)
words = ["-c", "/project/pytest.ini", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
os.execvp("python3", ["python3", "-m", "pytest", "-q", "-rs", *words, *sys.argv[2:]])
"""
INI = "[pytest]\nasyncio_mode = auto\nmarkers = slow\n    timeout\n"


def main(kernel: str, *words: str) -> int:
    """The exit code of the tests; 0 with the reason where no machine can be started."""
    missing = [
        name for name in ("qemu-system-x86_64", "busybox", "bwrap") if not shutil.which(name)
    ]
    if missing or not Path(kernel).is_file():
        sys.stdout.write(f"skipped: {', '.join(missing) or kernel} is not there\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="agenteval-guest-") as folder:
        root = Path(folder, "root.cpio")
        with root.open("wb") as file:
            for part in archive(words or ("tests/sandbox/test_sandbox_groups.py",)):
                file.write(part)
        return started(kernel, root)


def started(kernel: str, root: Path) -> int:
    """Print what the machine says until it is off, and return the tests' exit code."""
    machine = [QEMU, "-accel", "tcg", "-cpu", "max", "-m", "2048", "-smp", "2", "-nic", "none"]
    quiet = ["-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"]
    append = "console=ttyS0 quiet panic=-1"
    words = [*machine, *quiet, "-kernel", kernel, "-initrd", str(root), "-append", append]
    code = 1
    with subprocess.Popen(
        ["timeout", str(SECONDS), *words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as guest:
        for line in guest.stdout:
            said = line.decode(errors="replace")
            sys.stdout.write(said)
            sys.stdout.flush()
            if said.startswith(SAYS):
                code = int(said.removeprefix(SAYS))
    return code


def archive(words: tuple[str, ...]) -> Iterator[bytes]:
    """The files of the machine's root, as its kernel unpacks them (cpio, "newc")."""
    image = [sys.executable, str(HERE / "image.py"), "bwrap", "chmod", "mount", "stat", "tail"]
    made: set[str] = set()  # the kernel makes no folder by itself
    with subprocess.Popen(image, stdout=subprocess.PIPE) as making:
        with tarfile.open(fileobj=making.stdout, mode="r|") as files:
            for number, entry in enumerate(files):
                own = set() if entry.isdir() else {entry.name}
                for above in reversed((Path(entry.name), *Path(entry.name).parents)):
                    if str(above) not in {".", *made, *own}:
                        made.add(str(above))
                        yield record(str(above), 0o040755)
                if own:
                    yield packed(files, entry, number)
    second = SECOND.replace("WORDS", " ".join(f"'{word}'" for word in words)).replace("SAYS", SAYS)
    texts = {"init": FIRST, "second": second, "as.py": AS, "project/pytest.ini": INI}
    yield record("project", 0o040755)
    for name, text in texts.items():
        yield record(name, 0o100755, text.encode())
    yield record("busybox", 0o100755, Path(shutil.which("busybox")).read_bytes())
    yield record("dev/console", 0o020600, device=(5, 1))
    for name, path in sources():
        yield record(name, 0o040755 if path.is_dir() else 0o100644, content_of(path))
    yield record("TRAILER!!!", 0)


def packed(files: tarfile.TarFile, entry: tarfile.TarInfo, number: int) -> bytes:
    """What is no folder; a second name of a file becomes a link to the first."""
    if entry.issym() or entry.islnk():
        target = f"{'/' * entry.islnk()}{entry.linkname}"
        return record(entry.name, 0o120755, target.encode(), number)
    return record(entry.name, 0o100755, files.extractfile(entry).read(), number)


def sources() -> Iterator[tuple[str, Path]]:
    """What is Python's, with the folders on its way."""
    project = HERE.parents[1]
    yield "project/tests", HERE.parent
    found = [("project/agenteval", project / "agenteval"), ("project/tests/sandbox", HERE)]
    found += [(f"project/{name}", Path(find_spec(name).origin).parent) for name in PACKAGES]
    about = Path(str(distribution("pytest-asyncio").locate_file(""))).glob(
        "pytest_asyncio-*.dist-info"
    )
    found += [(f"project/{folder.name}", folder) for folder in about]
    for name, folder in found:
        for path in (folder, *sorted(folder.rglob("*"))):
            if "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(folder)}".removesuffix("/."), path
    for name in MODULES:
        yield f"project/{name}.py", Path(find_spec(name).origin)


def content_of(path: Path) -> bytes:
    return b"" if path.is_dir() else path.read_bytes()


def record(
    name: str, mode: int, content: bytes = b"", number: int = 0, device: tuple[int, int] = (0, 0)
) -> bytes:
    """One entry: a head of numbers in hexadecimal, name, content, each to a multiple of 4."""
    raw = name.encode() + b"\0"
    numbers = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(raw), 0)
    out = io.BytesIO()
    out.write(b"070701" + b"".join(b"%08X" % one for one in numbers) + raw)
    out.write(b"\0" * (-out.tell() % 4) + content)
    out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(*sys.argv[1:]))
