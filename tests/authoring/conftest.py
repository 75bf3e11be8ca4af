"""The small course on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from authoring.tiny_course import CHAPTERS, EXERCISES, LESSON, SOLUTION
from efflab.authoring.layout import Course


@pytest.fixture
def tiny(tmp_path: Path) -> Course:
    root = tmp_path / "course"
    files = {"notebooks/02_double.md": LESSON, "solutions/double.py": SOLUTION,
             "notebooks/00_start.md": "Hello.\n", "solutions/start.py": '"""Nothing yet."""\n',
             "efflab/chapters/double/checks.py": "", "efflab/chapters/start/checks.py": ""}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Course(root, "https://github.com/somebody/course", CHAPTERS, EXERCISES.__getitem__)
