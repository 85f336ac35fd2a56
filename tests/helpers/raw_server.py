"""A server that sends what no HTTP library would: given bytes."""

import asyncio
import contextlib


class Script:
    """A server that answers each request with given pieces of bytes; None ends the connection."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests, self.connections = [], 0
        self.gone = asyncio.Event()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1/x?key=1"
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client goes
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
                self.requests.append((head, await reader.readexactly(length)))
                for piece in self.answers.pop(0):
                    if piece is None:
                        writer.close()
                        return
                    if isinstance(piece, float):
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(piece):
                                await reader.read(1)
                                self.gone.set()
                    else:
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(0)
        writer.close()
