"""Text files that a person writes: read no further than a bound, and written whole or not."""

from pathlib import Path

from agenteval.errors import UsageError

LARGEST = 4 << 20  # bytes; the largest allow list that was ever derived has a tenth


def read_text(path: Path, *, encoding: str = "utf-8", largest: int = LARGEST) -> str:
    """Return the text of a file. Raises UsageError if it is larger, and what reading it raises."""
    return read_bytes(path, largest=largest).decode(encoding).replace("\r\n", "\n")


def read_bytes(path: Path, *, largest: int = LARGEST) -> bytes:
    """Return the bytes of a file; of a device or a pipe no more than the bound are read either."""
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise UsageError(f"{path}: more than {largest:,} bytes: is it the right file?")
    return content


def write_whole(path: Path, text: str) -> None:
    """Write the file, or leave none: half an allow list or gate.toml would be another one.

    Raises OSError with the file's name.
    """
    content = text.encode()
    file = path.open("wb")
    try:
        with file:
            file.write(content)
    except OSError as error:
        if path.is_file():  # and no device
            path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
