"""Grading: the judge in one process, each submission in another that knows no answers."""
