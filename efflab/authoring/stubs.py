"""exercises/slug.py: the solutions with the answers cut out, for those who work in an editor."""

from __future__ import annotations

import ast

from efflab.authoring.errors import AuthoringError, at
from efflab.authoring.layout import ChapterFacts, Course
from efflab.authoring.regions import Solution

HEADER = """\
# Built from solutions/{slug}.py by `efflab build`, with the answers cut out.
# Work on a copy:  ./run start {slug}   puts one into work/{slug}.py
# Check it:        ./run check work/{slug}.py
"""


def stubs_text(course: Course, chapter: ChapterFacts) -> str:
    """The stub file's text. Raises AuthoringError when an exercise has nothing to write or is missing."""
    path = course.solution(chapter)
    solution = Solution.read(path, course.shown(path))
    for exercise in course.exercises(chapter.slug):
        if exercise.name not in solution.definitions:
            raise AuthoringError(f"{solution.filename} defines no {exercise.name}, which is an exercise of "
                                 f"{course.shown(course.checks(chapter))}.")
        if not solution.has_region(exercise.name):
            raise at(solution.filename, solution.definitions[exercise.name].node.lineno,
                     f"{exercise.name} is an exercise and has nothing to cut out; put # BEGIN SOLUTION and "
                     "# END SOLUTION around the part that learners write.")
    text = HEADER.format(slug=chapter.slug) + solution.cut()
    ast.parse(text)
    return text
