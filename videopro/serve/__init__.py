"""Questions about videos over HTTP: an OpenAI-compatible API and a web page. Needs the extra "serve".

From the bottom up: `problems` (errors for clients), `line` (the queue), `events`, `store` (the videos);
`methods` and `answering` (one model); `questions`; `guards` (access) and `state` (the parts of a server); the
routes `chat`, `question_routes` and `file_routes`; `app`. `mcp` serves MCP clients, and `viewer` the pages of
runs.
"""

from videopro.serve.answering import Answerer as Answerer
from videopro.serve.app import create_app as create_app
from videopro.serve.app import listen as listen
from videopro.serve.app import run as run
from videopro.serve.guards import ServeLimits as ServeLimits
from videopro.serve.methods import AskRequest as AskRequest
from videopro.serve.state import ServerState as ServerState
from videopro.serve.store import StoredVideo as StoredVideo
from videopro.serve.store import VideoStore as VideoStore
from videopro.serve.viewer import RunPages as RunPages
from videopro.serve.viewer import create_viewer as create_viewer
from videopro.serve.viewer import show as show
