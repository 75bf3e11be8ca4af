"""Result files: merged chapter by chapter, never overwritten when damaged."""

from __future__ import annotations

import json

import pytest

from efflab.gpu import results


def run(gpu="NVIDIA H200", date="2026-11-29", **chapters):
    return {"gpu": gpu, "date": date, "chapters": {s: {"date": date, "bars": [{"name": n, "ratio": r}]}
                                                   for s, (n, r) in chapters.items()}}


def test_a_second_run_keeps_the_other_chapters(tmp_path):
    path = tmp_path / results.file_name("NVIDIA H200")
    assert path.name == "NVIDIA_H200.json"
    results.save(run(date="2026-11-28", flash_attention=("a", 1.0), roofline=("b", 2.0)), path)
    results.save(run(date="2026-11-29", flash_attention=("a", 1.1)), path)
    saved = results.load("H200", tmp_path)
    assert saved is not None
    assert list(saved["chapters"]) == ["roofline", "flash_attention"]       # in the course's order
    assert saved["chapters"]["roofline"]["date"] == "2026-11-28"
    assert results.bar("flash_attention", "a", "H200", tmp_path) == {"name": "a", "ratio": 1.1}
    assert results.bar("flash_attention", "z", "H200", tmp_path) is None
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_name_the_latest_is_loaded(tmp_path):
    results.save(run("NVIDIA H200", "2026-11-29"), tmp_path / "a.json")
    results.save(run("Tesla T4", "2026-12-01"), tmp_path / "b.json")
    latest = results.load(where=tmp_path)
    assert latest is not None
    assert latest["gpu"] == "Tesla T4"
    assert set(results.load_all(tmp_path)) == {"NVIDIA H200", "Tesla T4"}
    assert results.load("L4", tmp_path) is None
    assert results.load(where=tmp_path / "missing") is None


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"gpu": "x"})])
def test_a_damaged_file_is_told_and_kept(tmp_path, text):
    path = tmp_path / "NVIDIA_H200.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(results.DamagedResults, match=r"NVIDIA_H200\.json"):
        results.save(run(), path)
    assert path.read_text(encoding="utf-8") == text
