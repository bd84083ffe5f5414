"""Lines out of chunks of bytes.

A watch is one JSON object a line, and a line may be megabytes long: pieces are kept as they come and joined once, when
their end is seen, so that a long line costs no more than its length.
"""

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Ten times what etcd stores; a longer line is no watch event."""


class LineTooLongError(ValueError):
    """A line has passed LINE_BYTES_MAX and has not ended."""


class LineSplitter:
    """Feed it chunks; it gives the lines that they complete."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their ends, empty ones left out; LineTooLongError."""
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*self._pieces, ended[0]))
            self._pieces = []
            self._length = 0
        if rest:
            self._pieces.append(rest)
            self._length += len(rest)
            if self._length > LINE_BYTES_MAX:
                raise LineTooLongError(f"a line of more than {LINE_BYTES_MAX} bytes")
        return [line for line in ended if line]
