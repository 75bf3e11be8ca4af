"""Results as files: grades.csv, index.html, and one static page for each submission. No script, no outside resource.

Everything that comes from a submission, its name included, is escaped; file names are made of plain letters only.
"""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template

from efflab.grade.grading import Result

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff;
       margin: 1.5rem auto; max-width: 62rem; padding: 0 1rem }
h1, h2, td { overflow-wrap: anywhere }
pre { overflow-x: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid #bbb; vertical-align: top }
.number { text-align: right; white-space: nowrap }
footer { color: #444; margin-top: 2rem; font-size: 90% }
</style>
</head>
<body>
<h1>$title</h1>
$body
<footer>$footer</footer>
</body>
</html>
""")
_MARKS = {"passed": "✓ passed", "failed": "✗ failed", "error": "✗ error", "not_attempted": "– not attempted",
          "skipped": "– skipped"}


def write(results: Sequence[Result], folder: Path, *, seed: int, walls: str) -> Path:
    """Write all files into `folder`; returns the path of index.html. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    files = _file_names(results)
    footer = html.escape(f"efflab grade · seed {seed} · {walls}")
    for result, name in zip(results, files, strict=True):
        _write(folder / name, result.submission, _submission(result), footer)
    _csv(results, folder / "grades.csv")
    index = folder / "index.html"
    _write(index, "Grades", _index(results, files), footer)
    return index


def _write(path: Path, title: str, body: str, footer: str) -> None:
    page = _PAGE.substitute(title=html.escape(title), body=body, footer=footer)
    path.write_text(page, encoding="utf-8", errors="replace")


def _file_names(results: Sequence[Result]) -> list[str]:
    """One name for each result, safe on every file system and distinct even where letter case does not count."""
    seen: set[str] = {"index"}
    names = []
    for number, result in enumerate(results, 1):
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", result.submission).strip("_")[:80] or "submission"
        if name.lower() in seen:
            name = f"{name}-{number}"
        seen.add(name.lower())
        names.append(name + ".html")
    return names


def _submission(result: Result) -> str:
    parts = [f"<p><strong>{result.score:g} of {result.max_score:g} points</strong></p>"]
    if result.problem:
        parts.append(f"<p>{html.escape(result.problem)}</p>")
    parts += [report._repr_html_() for report in result.reports]
    if result.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{html.escape(n)}</li>" for n in result.notes) + "</ul>")
    return "\n".join([*parts, '<p><a href="index.html">All submissions</a></p>'])


def _index(results: Sequence[Result], files: Sequence[str]) -> str:
    exercises = _exercises(results)
    head = "".join(f"<th scope='col'>{html.escape(e)}</th>" for e in exercises)
    rows = []
    for result, file in zip(results, files, strict=True):
        outcomes = {r.exercise_id: _MARKS[r.outcome] for r in result.reports}
        cells = "".join(f"<td>{outcomes.get(e, '')}</td>" for e in exercises)
        rows.append(f'<tr><th scope="row"><a href="{file}">{html.escape(result.submission)}</a></th>'
                    f'<td class="number">{result.score:g} / {result.max_score:g}</td>{cells}</tr>')
    return (f'<div class="wide"><table><thead><tr><th scope="col">submission</th><th scope="col">points</th>{head}</tr>'
            f'</thead><tbody>{"".join(rows)}</tbody></table></div>')


def _exercises(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(r.exercise_id for result in results for r in result.reports))


def _csv(results: Sequence[Result], path: Path) -> None:
    """submission, score, max_score, then for each exercise its points and outcome."""
    exercises = _exercises(results)
    with path.open("w", newline="", encoding="utf-8", errors="replace") as out:
        writer = csv.writer(out)
        writer.writerow(["submission", "score", "max_score",
                         *[f"{e} {column}" for e in exercises for column in ("points", "outcome")], "problem"])
        for result in results:
            by_id = {r.exercise_id: r for r in result.reports}
            marks: list[object] = []
            for e in exercises:
                marks += [f"{by_id[e].points:g}", by_id[e].outcome] if e in by_id else ["", ""]
            writer.writerow([_cell(result.submission), f"{result.score:g}", f"{result.max_score:g}", *marks,
                             _cell(result.problem or "")])


def _cell(text: str) -> str:
    """Text that a spreadsheet takes as text: a leading =, +, -, @ would make it a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
