"""What an OpenAI-compatible server does to a request that it fails on command."""

import asyncio

from aiohttp import web


async def fail(fault, request):
    if fault.isdigit():
        headers = {"Retry-After": "0.01"} if fault == "429" else {}
        return web.json_response({"error": {"message": "by command"}}, status=int(fault), headers=headers)
    if fault == "malformed":
        return web.Response(text='{"choices": [{"message": {"content": "4')
    if fault == "truncated":
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
    if fault == "hang":
        await asyncio.sleep(3600)
    request.transport.close()
    return web.Response()
