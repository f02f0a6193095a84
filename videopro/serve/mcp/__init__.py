"""Films over the Model Context Protocol, for any of its clients: `videopro mcp`. Needs the extra "serve".

`films`: what is offered and with which models; `work`: long calls, their progress and their end; `server`:
the tools; `running`: the two transports.
"""

from videopro.serve.mcp.films import OfferedFilms
from videopro.serve.mcp.server import create_mcp, mcp_app, run_http, run_stdio
from videopro.serve.mcp.work import Calls

__all__ = ["Calls", "OfferedFilms", "create_mcp", "mcp_app", "run_http", "run_stdio"]
