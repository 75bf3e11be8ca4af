"""Paths to submissions: names, folders, chapters, and files that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from efflab.grade.chapters import read_submission
from efflab.grade.submission import Submission, Unreadable, find, read, shown


def notebook(*cells: Any, **top: Any) -> str:
    made = [
        c if isinstance(c, dict) else {"cell_type": "code", "source": c, "metadata": {}, "outputs": []} for c in cells
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made} | top)


def put(path: Path, text: str | bytes = "def double(x):\n    return 2 * x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_names_in_a_folder(tmp_path: Path) -> None:
    for name in (
        "b.py",
        "a.ipynb",
        "carol/toys.py",
        "dave/99_toys.ipynb",
        "dave/roofline.py",
        "groups/1/x.py",
        "notes.txt",
        "__init__.py",
        ".hidden/y.py",
        ".ipynb_checkpoints/a-checkpoint.ipynb",
        "__pycache__/z.py",
        "carol/.ipynb_checkpoints/toys.py",
    ):
        put(tmp_path / name)
    found = find([tmp_path])
    assert [s.name for s in found] == ["a", "b", "carol", "dave", "groups/1/x"]
    assert [f.name for f in found[3].files] == ["99_toys.ipynb", "roofline.py"]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside" / "secret.py")
    put(tmp_path / "class" / "a.py")
    (tmp_path / "class" / "b.py").symlink_to(outside)
    (tmp_path / "class" / "folder").symlink_to(outside.parent)
    (tmp_path / "class" / "again").symlink_to(tmp_path / "class")
    assert [s.name for s in find([tmp_path / "class"])] == ["a"]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    a, b = put(tmp_path / "alice" / "toys.py"), put(tmp_path / "bob" / "toys.py")
    assert [s.name for s in find([a, b, a])] == ["alice/toys.py", "bob/toys.py", "alice/toys.py (2)"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ipynb", "{not json", "is not JSON (line 1)"),
        ("a.ipynb", "[1, 2]", "not a notebook"),
        ("a.ipynb", notebook(nbformat=3), "notebook format 3"),
        ("a.ipynb", notebook(cells="x"), "no list of cells"),
        ("a.ipynb", notebook(5), "cell 1 is not text"),
        ("a.ipynb", "[" * 100_000, "is not JSON"),
        ("a.py", "  \n", "is empty"),
        ("a.py", b"", "is empty"),
        ("a.py", b"x = '\xff'", "not UTF-8 text (byte 5)"),
        ("a.py", "x = 1\n" * 400_000, "characters of source"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, text: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as raised:
        read(put(tmp_path / name, text))
    assert said in str(raised.value)
    assert name in str(raised.value)


def test_missing_wrong_kind_and_empty_folder(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "no.py", "no file or folder"),
        (put(tmp_path / "a.txt"), "neither a .py"),
        (tmp_path, "holds no submissions"),
    ):
        with pytest.raises(Unreadable, match=said):
            find([path])


def test_a_notebook_with_100_mb_of_pictures_is_read(tmp_path: Path) -> None:
    picture = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * 100_000_000}}
    cell = {"cell_type": "code", "source": ["def double(x):\n", "    return x"], "metadata": {}, "outputs": [picture]}
    code = read(
        put(tmp_path / "a.ipynb", notebook("1 + 1", {"cell_type": "markdown", "source": "def no(): ..."}, cell))
    )
    assert code.names() == {"double"}
    assert code.units[1].filename == "a.ipynb, cell 3"


def chapters(tmp_path: Path, name: str, text: str, chapter: str | None = None) -> list[str]:
    return read_submission(Submission("s", (put(tmp_path / name, text),)), chapter)[1]


def test_the_chapter_comes_from_the_name_the_option_the_text_or_the_functions(tmp_path: Path) -> None:
    double = "def double(x):\n    return x\n"
    assert chapters(tmp_path, "toys.py", "x = 1") == ["toys"]
    assert chapters(tmp_path, "99_toys.ipynb", notebook(double)) == ["toys"]
    assert chapters(tmp_path, "alice.py", "x = 1", "99_toys") == ["toys"]
    assert chapters(tmp_path, "alice.py", "# Exercise toys.double\n") == ["toys"]
    assert chapters(tmp_path, "alice.ipynb", notebook("# exercise: toys.double\n")) == ["toys"]
    assert chapters(tmp_path, "alice.py", "def double(x:\n") == ["toys"]
    assert chapters(tmp_path, "alice.py", double + "def rms(x):\n    return x\n") == ["start_here", "toys"]


def test_a_file_of_no_chapter_says_so_and_suggests(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"Did you mean toys\?.*--chapter"):
        chapters(tmp_path, "toyss.py", "def other():\n    return 1\n")


def test_text_that_a_submission_chose_cannot_steer_the_terminal() -> None:
    assert shown("a\x1b[31m\x07\u202eb\n") == "a�[31m��b\n"
    assert shown("") == "(no name)"
    assert shown("Ægir 李雷 🙂") == "Ægir 李雷 🙂"
