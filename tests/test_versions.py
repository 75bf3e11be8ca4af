"""versions.txt, pyproject.toml and environment.yml name the same packages, and what efflab imports is among them."""

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from efflab.environment.command import EXTRAS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it on Python 3.10

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
# Not declared on purpose (efflab uses what is there), but pinned for a set-up that starts from nothing.
BROUGHT = {"torch", "triton"}
# An import's name where it differs from the package's, and packages that one of the direct ones always brings.
PACKAGE_OF = {"IPython": "ipykernel", "PIL": "matplotlib", "_pytest": "pytest", "cycler": "matplotlib",
              "jupyter_client": "nbclient", "markdown_it": "rich", "packaging": "pytest", "tomli": "pytest",
              "traitlets": "ipywidgets", "xdist": "pytest-xdist", "yaml": "jupytext"}


def names(requirements: list[str]) -> set[str]:
    return {str(canonicalize_name(Requirement(line).name)) for line in requirements} - {"efflab"}


def pins() -> list[Requirement]:
    lines = (ROOT / "versions.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"]
    return names([*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)])


@pytest.mark.parametrize("python", PYTHONS)
def test_each_direct_dependency_has_one_pin(python: str) -> None:
    pinned = [canonicalize_name(pin.name) for pin in pins()
              if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    assert sorted(pinned) == sorted(declared() | BROUGHT)


def test_each_pin_is_exact_and_allowed_by_pyproject() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [Requirement(line) for line in [*PROJECT["dependencies"], *(x for lines in extras.values() for x in lines)]]
    for pin in pins():
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        for requirement in asked:
            if canonicalize_name(requirement.name) == canonicalize_name(pin.name):
                assert requirement.specifier.contains(specifier.version), f"{pin} against {requirement}"


def test_efflab_never_asks_for_a_torch() -> None:
    assert not declared() & BROUGHT


def test_conda_gets_the_same_environment() -> None:
    described = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (pip,) = [entry["pip"] for entry in described if isinstance(entry, dict)]
    assert "--constraint versions.txt" in pip
    assert f"--editable .[{EXTRAS['test']}]" in pip
    assert {line for line in pip if not line.startswith("--")} == BROUGHT
    (python,) = [entry.removeprefix("python=") for entry in described if isinstance(entry, str) and "python=" in entry]
    assert python in PYTHONS


def test_the_set_up_installs_extras_that_exist_and_the_tests_hold_the_rest() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {name for words in EXTRAS.values() for name in words.split(",")} == set(extras)
    inner = re.search(r"efflab\[([^]]+)\]", " ".join(extras["test"]))
    assert inner is not None
    assert set(inner.group(1).split(",")) == set(extras) - {"test"}


def imported(folder: str) -> dict[str, Path]:
    """Top-level names that the Python files of a folder import, each with one file that does."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0]: path for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found[node.module.split(".")[0]] = path
    return found


@pytest.mark.parametrize("folder", ["efflab", "solutions", "tests", "benchmarks"])
def test_what_is_imported_is_declared(folder: str) -> None:
    own = {"efflab", "solutions", "environment", "tests", "benchmarks"}
    own |= {path.stem for place in (folder, "benchmarks") for path in (ROOT / place).rglob("*")}
    for name, path in imported(folder).items():
        if name in sys.stdlib_module_names or name in own:
            continue
        package = canonicalize_name(PACKAGE_OF.get(name, name))
        assert package in declared() | BROUGHT, f"{path.relative_to(ROOT)} imports {name}, which nothing installs"
