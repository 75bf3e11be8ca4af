"""The built stubs of the whole course: each file imports, and each of its exercises counts as not attempted."""

from __future__ import annotations

import pytest

from efflab import course
from efflab.authoring.layout import this_course
from efflab.checking import check_function

COURSE = this_course()


@pytest.mark.parametrize("chapter", [c for c in course.ready_chapters() if COURSE.can_build(c)], ids=lambda c: c.slug)
def test_every_exercise_of_a_stub_file_is_not_attempted(chapter: course.Chapter) -> None:
    module = course.load_file(COURSE.stubs(chapter))
    for exercise in course.exercises(chapter.slug):
        report = check_function(exercise, getattr(module, exercise.name), seed=0)
        assert (report.outcome, report.points) == ("not_attempted", 0), str(report)
