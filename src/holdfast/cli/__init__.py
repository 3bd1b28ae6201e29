"""The command line: one small module a group of commands, each a thin skin over the library."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `holdfast`; whatever goes wrong is one line on stderr and exit code 2."""
    try:
        from holdfast.cli.app import app
    except ImportError as error:
        sys.exit(_refusal(f"the command line needs {error.name}; pip install 'holdfast[cli]'"))
    from holdfast.errors import BadInput

    try:
        app()
    except (BadInput, OSError) as error:
        print(_refusal(str(error)), file=sys.stderr)
        sys.exit(2)


def _refusal(text: str) -> str:
    return f"holdfast: {' '.join(text.split())}"
