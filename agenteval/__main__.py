"""Entry point: runs the CLI and makes one line and exit code 2 of a user's error."""

import sys


def main() -> None:
    from typer import TyperException  # noqa: PLC0415 -- kept out of `import agenteval`

    from agenteval.cli.app import app  # noqa: PLC0415 -- as above
    from agenteval.cli.complaints import complaint  # noqa: PLC0415 -- as above
    from agenteval.errors import UsageError  # noqa: PLC0415

    try:
        code = app(prog_name="agenteval", standalone_mode=False)
    except UsageError as error:
        told = str(error)
    except TyperException as error:
        told = complaint(error)
    except UnicodeEncodeError as error:  # bytes of the command line that no terminal can show
        told = f"{error.object!r}: not UTF-8 text: name it otherwise"
    except OSError as error:
        if error.filename is None:
            raise
        told = f"{error.filename!s:.200}: cannot be read or written: {error.strerror}"
    else:
        sys.exit(code)
    if told:
        print(f"agenteval: {told}", file=sys.stderr)  # noqa: T201 -- before any console exists
    sys.exit(2)


if __name__ == "__main__":
    main()
