"""Entry point: runs the CLI and makes one line and exit code 2 of a user's error."""

import sys
from typing import NoReturn


def main() -> None:
    from agenteval.cli.app import app  # noqa: PLC0415 -- kept out of `import agenteval`
    from agenteval.errors import UsageError  # noqa: PLC0415

    try:
        app()
    except UsageError as error:
        _end(str(error))
    except UnicodeEncodeError as error:  # bytes of the command line that are no text
        _end(f"{error.object!r}: not UTF-8 text: name it otherwise")
    except OSError as error:
        if error.filename is None:
            raise
        _end(f"{error.filename!s:.200}: cannot be read or written: {error.strerror}")


def _end(said: str) -> NoReturn:
    print(f"agenteval: {said}", file=sys.stderr)  # noqa: T201 -- before any console exists
    sys.exit(2)


if __name__ == "__main__":
    main()
