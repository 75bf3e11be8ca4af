"""Says what a chapter lacks. Every chapter that is written must lack nothing."""

from __future__ import annotations

import pytest

from efflab import course
from efflab.authoring.complete import lacks
from efflab.authoring.layout import this_course


@pytest.mark.parametrize("chapter", course.ready_chapters(), ids=lambda c: c.slug)
def test_a_chapter_lacks_nothing(chapter: course.Chapter) -> None:
    found = lacks(this_course(), chapter)
    assert not found, f"Chapter {chapter.slug} lacks:\n  " + "\n  ".join(found)
