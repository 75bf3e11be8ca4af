"""The files of a new chapter: an example that builds and passes its own checks, to be filled in."""

from __future__ import annotations

from pathlib import Path

from efflab.authoring.errors import AuthoringError
from efflab.authoring.layout import ChapterFacts, Course, write_whole

TEMPLATES = Path(__file__).parent / "templates"


def skeleton_files(course: Course, chapter: ChapterFacts) -> dict[Path, str]:
    """Path -> text of the files that a new chapter begins with."""
    rooms = course.checks(chapter).parent
    places = {"lesson.md": course.lesson(chapter), "solution.py": course.solution(chapter),
              "init.py": rooms / "__init__.py", "checks.py": rooms / "checks.py", "mistakes.py": rooms / "mistakes.py",
              "figures.py": rooms / "figures.py",
              "test.py": course.root / "tests" / "chapters" / f"test_{chapter.slug}.py"}
    words = {"{{slug}}": chapter.slug, "{{title}}": chapter.title, "{{number}}": f"{chapter.number:02d}"}
    files = {}
    for template, path in places.items():
        text = (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        files[path] = text
    return files


def lay_out(course: Course, chapter: ChapterFacts) -> list[Path]:
    """Write a new chapter's files and return them. Raises AuthoringError, having written nothing, if any is there."""
    files = skeleton_files(course, chapter)
    there = [course.shown(path) for path in files if path.exists()]
    if there:
        raise AuthoringError(f"Chapter {chapter.slug} has been begun: {', '.join(there)}. Nothing was written.")
    for path, text in files.items():
        write_whole(path, text)
    return list(files)
