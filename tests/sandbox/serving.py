"""Applications on a free port of this machine."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from posttrain.protocols import Limits

QUICK = Limits(cpu_seconds=1.0, wall_seconds=3.0, memory_bytes=256 * 2**20)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application on a free port and give its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
