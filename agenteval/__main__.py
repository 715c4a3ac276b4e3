"""Entry point: signals are answered first, then the program is imported and run."""

from agenteval.cli import signals


def main() -> None:
    """Run the command line of this process, which ends with it."""
    signals.end_at_once()
    from agenteval.cli import program  # noqa: PLC0415 -- a signal while it is imported is answered

    try:
        program.main()
    except SystemExit as ended:
        signals.end_without_a_word()
        if signals.is_of_a_signal(ended.code):
            signals.leave(ended.code)
        raise


if __name__ == "__main__":
    main()
