"""The merchant API as pure functions: `HttpRequest` to `Input | Query`, `Reply` to `HttpResponse`."""
