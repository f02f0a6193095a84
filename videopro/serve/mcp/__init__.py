"""Videos over the Model Context Protocol, for any of its clients: `videopro mcp`. Needs the extra "serve".

`videos`: what is offered and with which models; `work`: long calls, their progress and their end; `server`:
the tools and the two transports.
"""

from videopro.serve.mcp.server import create_mcp, mcp_app, run_http, run_stdio
from videopro.serve.mcp.videos import OfferedVideos
from videopro.serve.mcp.work import Calls

__all__ = ["Calls", "OfferedVideos", "create_mcp", "mcp_app", "run_http", "run_stdio"]
