"""The evaluator's end of a runner's socket: one question, one answer, always within a time."""

import asyncio
import json
import socket
from typing import Any

from agenteval.errors import InfrastructureError
from agenteval.sandbox.inside import wire

CLOSE_SECONDS = 5.0


Reply = dict[str, Any]


class Link:
    """After a failure, a timeout or a cancellation it is closed: half a frame is no frame."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    async def ask(self, frames: bytes, *, seconds: float) -> tuple[Reply, bytes]:
        """Send the frames, read one. Raises InfrastructureError when that fails or takes long."""
        try:
            async with asyncio.timeout(seconds):
                await self._send(frames)
                return await self._receive()
        except TimeoutError:
            self._peer.close()
            raise InfrastructureError(f"the sandbox did not answer in {seconds:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            self._peer.close()
            raise InfrastructureError(f"the sandbox ended: {error}") from error
        except asyncio.CancelledError:
            self._peer.close()
            raise

    async def close(self) -> None:
        """Hang up, and wait until the other side is gone."""
        if self._peer.fileno() < 0:
            return
        with self._peer:
            try:
                self._peer.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(CLOSE_SECONDS):
                    while await self._part(1 << 16):
                        pass
            except (TimeoutError, OSError, EOFError):
                return  # it is gone already, or dies with its launcher

    async def _send(self, frame: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._peer, frame)
        except (BrokenPipeError, ConnectionResetError):
            return  # why it ended may still stand in the socket, to be read

    async def _receive(self) -> tuple[Reply, bytes]:
        frame = bytearray()
        await self._fill(frame, wire.HEADER)
        text, body = wire.lengths(bytes(frame[: wire.HEADER]))
        end = wire.HEADER + text
        await self._fill(frame, end + body)
        if len(frame) > end + body:
            raise ValueError("more than an answer")
        message = json.loads(frame[wire.HEADER : end])
        if not isinstance(message, dict):
            raise ValueError("a frame without an object")  # noqa: TRY004
        return message, bytes(frame[end:])

    async def _fill(self, frame: bytearray, count: int) -> None:
        """Read on until the frame has so many bytes, or more: an answer is seldom in two parts."""
        while len(frame) < count:
            part = await self._part(1 << 16)
            if not part:
                raise EOFError("it closed its socket")
            frame += part

    async def _part(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            return await loop.sock_recv(self._peer, count)
        except ConnectionResetError:  # told once, when it left something of ours unread
            return await loop.sock_recv(self._peer, count)
