"""Bodies of double(x) that misbehave, for the submissions of test_hostile.py."""

from __future__ import annotations

# name -> (body, outcome of the exercise, part of its message). The submission's other exercises are right.
ATTACKS: dict[str, tuple[str, str, str]] = {
    "right": (
        """
return x * 2
""",
        "passed",
        "All 2 cases pass",
    ),
    "wrong": (
        """
return x * x
""",
        "failed",
        "x is squared (squared)",
    ),
    "prints_a_forged_result": (
        """
print('{"submission": "x", "score": 99, "outcome": "passed"}')
return torch.zeros_like(x)
""",
        "failed",
        "",
    ),
    "exits_at_once": (
        """
import os
os._exit(0)
""",
        "error",
        "exit status 0 before it returned",
    ),
    "sys_exit": (
        """
import sys
sys.exit(0)
""",
        "error",
        "SystemExit",
    ),
    "kills_itself": (
        """
import os
os.kill(os.getpid(), 9)
""",
        "error",
        "SIGKILL",
    ),
    "segfault": (
        """
import ctypes
ctypes.string_at(0)
""",
        "error",
        "SIGSEGV",
    ),
    "recursion": (
        """
return double(x)
""",
        "error",
        "RecursionError",
    ),
    "never_ends": (
        """
while True:
    pass
""",
        "error",
        "stopped after 8 s",
    ),
    "asks_for_100_gb": (
        """
return torch.ones(25 * 10**9)
""",
        "error",
        "MemoryError",
    ),
    "grows": (
        """
kept = []
while True:
    kept.append(torch.ones(10**7))
""",
        "error",
        "held more than 0.75 GB",
    ),
    "many_processes": (
        """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
time.sleep(60)
""",
        "error",
        "processes",
    ),
    "leaves_a_daemon": (
        """
import subprocess
subprocess.Popen(['sleep', '98765.25'], start_new_session=True)
return x * 2
""",
        "passed",
        "",
    ),
    "prints_without_end": (
        """
for _ in range(300):
    print('x' * 10**6)
return x * 2
""",
        "passed",
        "",
    ),
    "closes_every_descriptor": (
        """
import os
os.closerange(0, 1000)
return x * 2
""",
        "error",
        "",
    ),
    "writes_garbage_to_every_descriptor": (
        """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'\\xff' * 64)
    except OSError:
        pass
return x * 2
""",
        "error",
        "InvalidAnswer",
    ),
    "patches_the_engine": (
        """
import efflab.checking.judge, efflab.checking.observe, efflab.grade.worker, efflab.grade.protocol
efflab.checking.judge.judge = lambda *a, **k: None
efflab.grade.protocol.observation = lambda r: None
return torch.zeros_like(x)
""",
        "failed",
        "",
    ),
    "patches_torch": (
        """
torch.equal = lambda *a: True
torch.Tensor.__eq__ = lambda a, b: True
return torch.zeros_like(x)
""",
        "failed",
        "",
    ),
    "object_with_a_hostile_repr": (
        """
class Value:
    def __repr__(self):
        raise SystemExit
    __str__ = __array__ = __float__ = __repr__
return Value()
""",
        "failed",
        "y is Value",
    ),
    "escapes_in_a_type_name": (
        """
return type('\\x1b[31m<script>', (), {})()
""",
        "failed",
        "<script>",
    ),
    "escapes_in_a_message": (
        """
raise ValueError('\\x1b]0;title\\x07<b>')
""",
        "error",
        "ValueError",
    ),
    "tensor_subclass": (
        """
class Sly(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        return True
return torch.zeros_like(x).as_subclass(Sly)
""",
        "error",
        "",
    ),
    "sparse": (
        """
return (x * 2).to_sparse()
""",
        "error",
        "",
    ),
    "huge_return": (
        """
return torch.zeros(3 * 10**6)
""",
        "error",
        "at most",
    ),
    "nested_without_end": (
        """
a = []
a.append(a)
return a
""",
        "error",
        "",
    ),
    "imports_the_checks": (
        """
from efflab.chapters.roofline.checks import EXERCISES
return x * 2
""",
        "error",
        "is not there",
    ),
    "imports_the_solution": (
        """
import solutions.toys
return x * 2
""",
        "error",
        "is not there",
    ),
    "reads_the_environment": (
        """
import os
assert 'EFFLAB_TEST_SECRET' not in os.environ
return x * 2
""",
        "passed",
        "",
    ),
    "raises_in_del": (
        """
class Late:
    def __del__(self):
        raise ValueError
Late()
return x * 2
""",
        "passed",
        "",
    ),
    "exits_in_a_thread": (
        """
import threading, os, time
threading.Thread(target=lambda: (time.sleep(5), os._exit(0))).start()
return x * 2
""",
        "passed",
        "",
    ),
}

# Only walls stop these; each sets `held`. {sentinel}, {root}, {home} and {port} are filled in.
WALLED: dict[str, str] = {
    "reads_the_checks_file": """
import glob
held = not [p for p in glob.glob('{root}/efflab/chapters/*/checks.py') if open(p).read()]
""",
    "reads_cached_bytecode": """
import glob
held = not glob.glob('{root}/efflab/chapters/*/__pycache__/*')
""",
    "reads_the_solution": """
import os
held = not os.path.exists('{root}/solutions/toys.py')
held = held and not os.path.exists('{root}/tests') and not os.path.exists('{root}/.git')
""",
    "deletes_a_file": """
import os
held = not os.path.exists('{sentinel}')
held or os.unlink('{sentinel}')
""",
    "lists_the_home": """
import os
held = os.path.expanduser('~') == '/tmp' and not any(
    os.path.exists('{home}/' + name) for name in ('.bashrc', '.profile', '.cache', '.config', '.ssh'))
""",
    "writes_to_the_system": """
try:
    open('/usr/efflab_was_here', 'w')
    held = False
except OSError:
    held = True
""",
    "writes_to_efflab": """
try:
    open('{root}/efflab/was_here', 'w')
    held = False
except OSError:
    held = True
""",
    "opens_a_connection": """
import socket
try:
    socket.create_connection(('127.0.0.1', {port}), 2)
    held = False
except OSError:
    held = True
""",
    "looks_at_other_processes": """
import os
held = len([p for p in os.listdir('/proc') if p.isdigit()]) < 8
""",
    "looks_into_its_parent": """
import os
try:
    open(f'/proc/{{os.getppid()}}/mem', 'rb')
    held = False
except OSError:
    held = True
""",
    "finds_what_others_left": """
import os
held = not os.path.exists('/tmp/left') and not os.path.exists('/dev/shm/left')
open('/tmp/left', 'w'); open('/dev/shm/left', 'w')
os.unlink('/tmp/left') if x.dim() == 1 else None
os.unlink('/dev/shm/left') if x.dim() == 1 else None
""",
}
