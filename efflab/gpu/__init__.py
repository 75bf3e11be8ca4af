"""What this GPU can do, timing, peers, and compiling for GPUs that are not there."""

from efflab.gpu.machine import Machine, ensure_interpreter, interpreter_problem, machine

__all__ = ["Machine", "ensure_interpreter", "interpreter_problem", "machine"]
