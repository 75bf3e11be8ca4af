"""The parts of README.md that are made from the course's own data: the map of chapters and the measured speeds.

    python -m efflab.authoring.readme        writes them anew between their <!-- … --> marks
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from efflab import course
from efflab.gpu import results

BEGIN = "<!-- {name}: made by python -m efflab.authoring.readme -->"
END = "<!-- end of {name} -->"


class MissingMark(ValueError):
    """README.md lacks the marks of a part; the message says which."""


def rewrite(readme: str, top: Path) -> str:
    """The text of README.md with its made parts made anew. Raises MissingMark."""
    for name, text in (("speeds", speeds(top)), ("map", course_map(top))):
        begin, end = BEGIN.format(name=name), END.format(name=name)
        if readme.count(begin) != 1 or readme.count(end) != 1:
            raise MissingMark(f"README.md needs one line {begin} and one line {end}")
        before, _, rest = readme.partition(begin)
        readme = f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"
    return readme


def course_map(top: Path) -> str:
    """A table of all chapters; the written ones with links to their rooms."""
    lines = ["| | chapter | you build | |", "|---|---|---|---|"]
    part = ""
    for chapter in course.CHAPTERS:
        if chapter.part != part:
            part = chapter.part
            lines.append(f"| | **{part}** | | |")
        title, rooms = chapter.title, "planned"
        if chapter.ready:
            title = f"[{chapter.title}](notebooks/{chapter.file_stem}.ipynb)"
            rooms = " · ".join(f"[{word}]({target})" for word, target in _rooms(chapter, top))
        lines.append(f"| {chapter.number:02d} | {title} | {chapter.builds} | {rooms} |")
    return "\n".join(lines)


def _rooms(chapter: course.Chapter, top: Path) -> list[tuple[str, str]]:
    """(word, link) for a written chapter: Colab, its four rooms, and the executed notebook if there is one."""
    colab = course.repository().replace("https://github.com/", "https://colab.research.google.com/github/")
    rooms = [("Colab", f"{colab}/blob/main/notebooks/{chapter.file_stem}.ipynb"),
             ("lesson", f"notebooks/{chapter.file_stem}.md"),
             ("answer", f"solutions/{chapter.slug}.py"),
             ("checks", f"efflab/chapters/{chapter.slug}/"),
             ("tests", f"tests/chapters/test_{chapter.slug}.py")]
    executed = f"solutions/executed/{chapter.file_stem}.ipynb"
    return rooms + ([("executed", executed)] if (top / executed).is_file() else [])


def speeds(top: Path) -> str:
    """For each measured GPU a table of the kernels that learners write, beside their peers."""
    found = results.load_all(top / "results")
    if not found:
        return "No measurements are in `results/` yet: `./run bench` makes them on a GPU."
    return "\n\n".join(_speeds_of(result) for result in found.values())


def _speeds_of(result: dict[str, Any]) -> str:
    """One row for each workload; the peers that it was measured beside stand in its last column."""
    lines = [f"On one {result['gpu']} (torch {result['torch']}, Triton {result['triton']}, {result['date']}), "
             "each kernel beside public ones in the same run:", "",
             "| kernel, as in `solutions/` | measured | times as fast as |", "|---|---|---|"]
    rows: dict[str, list[dict[str, Any]]] = {}
    for chapter in result["chapters"].values():
        for bar in chapter["bars"]:
            if bar["ratio"] is not None:
                work = bar["name"].removesuffix(f", against {bar['peer']}")
                rows.setdefault(f"`{bar['exercise'].split('.')[-1]}`, {work}", []).append(bar)
    for kernel, bars in rows.items():
        ours = _rate(bars[0]["tflops"], bars[0]["tbps"], bars[0]["ms"])
        lines.append(f"| {kernel} | {ours} | {', '.join(_beside(bar) for bar in bars)} |")
    return "\n".join(lines)


def _beside(bar: dict[str, Any]) -> str:
    """1.05 × cuDNN's: the ratio and the peer, as a reader knows it."""
    return f"{bar['ratio']:.2f} × {_PEERS.get(bar['peer'], '`' + bar['peer'] + '`')}"


_PEERS = {"sdpa_flash": "SDPA FlashAttention-2", "sdpa_cudnn": "SDPA cuDNN", "flex_attention": "FlexAttention compiled",
          "naive_attention": "unfused PyTorch", "compiled_softmax": "torch.compile", "clone": "torch.clone"}


def _rate(tflops: float | None, tbps: float | None, ms: float) -> str:
    if tflops:
        return f"{tflops:.0f} TFLOP/s"
    return f"{tbps:.2f} TB/s" if tbps else f"{ms:.3g} ms"


def main() -> int:
    top = course.root()
    if top is None:
        print("README.md is in the repository; this efflab was installed without it.", file=sys.stderr)
        return 2
    file = top / "README.md"
    before = file.read_text(encoding="utf-8")
    after = rewrite(before, top)
    file.write_text(after, encoding="utf-8")
    print("README.md is up to date." if before == after else "wrote README.md")
    return 0


def quoted_files(readme: str) -> list[str]:
    """Every relative path that README.md links to."""
    targets = re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", readme)
    return [path for pair in targets for path in pair if path and "://" not in path]


if __name__ == "__main__":
    sys.exit(main())
