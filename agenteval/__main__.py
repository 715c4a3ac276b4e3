"""Entry point: runs the CLI and makes one line and exit code 2 of a user's error."""

import sys


def main() -> None:
    from agenteval.cli.app import app  # noqa: PLC0415 -- kept out of `import agenteval`
    from agenteval.errors import UsageError  # noqa: PLC0415

    try:
        app()
    except UsageError as error:
        print(f"agenteval: {error}", file=sys.stderr)  # noqa: T201 -- before any console exists
        sys.exit(2)


if __name__ == "__main__":
    main()
