"""A receiver of traces that takes whatever comes and keeps nothing: what sending them costs is the sender's."""

from aiohttp import web


def otlp_app() -> web.Application:
    """OTLP over HTTP."""

    async def traces(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(content_type="application/x-protobuf")

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/traces", traces)
    return app
