"""The engine: exercises, cases, observations, judgement, reports. It knows no chapter."""

from efflab.checking.draw import Draw
from efflab.checking.exercise import (
    ALL_BUT_MAKING,
    ALL_BUT_MAKING_AND_COPIES,
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
from efflab.checking.interactive import check, check_function, hint, solution
from efflab.checking.judge import examine
from efflab.checking.observe import Observation, observe
from efflab.checking.report import Report

__all__ = ["ALL_BUT_MAKING", "ALL_BUT_MAKING_AND_COPIES", "ATTENTION", "MATMUL", "SOFTMAX", "Bar", "Case", "Draw",
           "Exercise", "Forbidden", "Kernel", "Limit", "Mistake", "Observation", "Output", "Report", "Tolerance",
           "XRay", "check", "check_function", "examine", "hint", "observe", "solution"]
