"""The command line: one lazy group. A command's module is imported only when that command runs."""

from __future__ import annotations

import importlib

import click

COMMANDS: dict[str, str] = {
    "lab": "efflab.workspace.commands:lab",
    "start": "efflab.workspace.commands:start",
    "reset": "efflab.workspace.commands:reset",
    "check": "efflab.grade.commands:check",
    "progress": "efflab.checking.commands:progress",
    "doctor": "efflab.gpu.commands:doctor",
    "xray": "efflab.gpu.commands:xray",
    "bench": "efflab.gpu.commands:bench",
    "grade": "efflab.grade.commands:grade",
    "build": "efflab.authoring.commands:build",
    "execute": "efflab.authoring.commands:execute",
    "new": "efflab.authoring.commands:new",
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        return getattr(importlib.import_module(module), attribute)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="efflab")
def main() -> None:
    """Efficiency Frontiers: build, check, measure and grade."""


if __name__ == "__main__":
    main()
