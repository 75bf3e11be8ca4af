"""Lesson and solution in, notebook and stub out."""
