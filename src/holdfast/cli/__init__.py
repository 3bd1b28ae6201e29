"""The command line: one small module a group of commands, each a thin skin over the library."""

from __future__ import annotations

import io
import os
import sys

OPTIONS_ELSEWHERE = {
    **dict.fromkeys(("--f", "--b", "--byzantine", "--nb-byz"), "--liars"),
    **dict.fromkeys(("--learning-rate", "--step-size"), "--lr"),
    **dict.fromkeys(("--epochs", "--iterations"), "--rounds"),
}
"""Other words for options, which people try."""


def main() -> None:
    """Run `holdfast`; whatever goes wrong is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that knows ASCII alone is shown escapes for the other letters
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
    try:
        import click

        from holdfast.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError as error:
        from holdfast.errors import MissingExtra

        sys.exit(_refusal(str(MissingExtra("the command line", error.name or "typer", "cli"))))
    from holdfast.errors import BadInput, BrokenRule

    try:
        code = app(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:  # the help is the answer
        print(error.format_message())
        sys.exit(0)
    except click.NoSuchOption as error:
        known = [option for one in error.ctx.command.params for option in one.opts] if error.ctx else []
        meant = OPTIONS_ELSEWHERE.get(error.option_name)
        hint = f"No such option '{error.option_name}'. Did you mean '{meant}'?" if meant in known else None
        _give_up(f"{hint or error.format_message()} See holdfast --help.")
    except click.ClickException as error:
        _give_up(f"{error.format_message()} See holdfast --help.")
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except SystemExit as error:  # so click and rich answer a reader of our output that has seen enough
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (BadInput, BrokenRule, OSError) as error:
        _give_up(str(error))
    sys.exit(code)


def _give_up(text: str) -> None:
    print(_refusal(text), file=sys.stderr)
    sys.exit(2)


def _refusal(text: str) -> str:
    from holdfast.errors import printable

    return f"holdfast: {printable(' '.join(text.split()))}"
