"""A small server in this event loop, for tests of clients."""

from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def served(routes, port=0):
    """Handlers by method and path (``{"POST /v1/completions": handler}``); gives the server's address."""
    app = web.Application(client_max_size=1 << 26)
    for route, handler in routes.items():
        app.router.add_route(*route.split(), handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True if port else None).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
