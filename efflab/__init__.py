"""Helper library of the course "Efficiency Frontiers".

Importing it chooses Triton's interpreter when there is no GPU; this must happen before triton is imported.
"""

from efflab.checking.interactive import check, hint, solution
from efflab.gpu.machine import ensure_interpreter

ensure_interpreter()


def begin(slug: str) -> None:
    """Open a chapter in a notebook: names are looked up in it first. Prints what this machine can do."""
    from efflab import course
    from efflab.checking.interactive import set_chapter
    from efflab.gpu.machine import interpreter_problem, machine

    set_chapter(course.chapter(slug).slug)
    print(machine().line)
    problem = interpreter_problem()
    if problem:
        print(problem)


__all__ = ["begin", "check", "hint", "solution"]
