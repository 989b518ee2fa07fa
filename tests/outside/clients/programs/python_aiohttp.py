"""aiohttp, client and server, in its default settings."""

from __future__ import annotations

import asyncio
import hmac
import os
from typing import Any

from aiohttp import ClientSession, web
from receiver import API, BODY, KEY, report


async def main() -> None:
    callback: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def receive(request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.headers.get("X-API-KEY", ""), KEY):
            return web.Response(status=401)
        callback.set_result(await request.json())
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(os.environ["PORT"])).start()
    headers = {"X-Api-Key": KEY}
    async with ClientSession() as session:
        as_json = headers | {"Content-Type": "application/json"}
        async with session.post(
            f"{API}/direct/payin/mpesa_ke", data=BODY, headers=as_json
        ) as created:
            reference = (await created.json())["gatewayReference"]
        result = await asyncio.wait_for(callback, 30)
        async with session.get(f"{API}/status/{reference}", headers=headers) as found:
            transaction = await found.json()
    await asyncio.to_thread(report, created.status, result, transaction)


asyncio.run(main())
