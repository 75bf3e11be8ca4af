"""The engine: exercises, cases, observations, judgement, reports. It knows no chapter."""

from efflab.checking.draw import Draw
from efflab.checking.exercise import (
    ATTENTION,
    MATMUL,
    SOFTMAX,
    Bar,
    Case,
    Exercise,
    Forbidden,
    Kernel,
    Limit,
    Mistake,
    Output,
    Tolerance,
    XRay,
)

__all__ = ["ATTENTION", "MATMUL", "SOFTMAX", "Bar", "Case", "Draw", "Exercise", "Forbidden", "Kernel", "Limit",
           "Mistake", "Output", "Tolerance", "XRay"]
