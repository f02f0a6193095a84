"""Serves questions about films over HTTP, for programs (OpenAI's protocol) and for the page. Needs the extra
"serve".

From below: `problems` (what a client is told), `line` (who is next), `events`, `films`; `methods` and
`answering` (one model); `questions` (what was asked); `guards` (who may call) and `state` (the parts of a
server); the routes `chat`, `question_routes`, `file_routes`; `app`. `mcp` offers films to other clients.
"""

from videopro.serve.answering import Answerer as Answerer
from videopro.serve.app import create_app as create_app
from videopro.serve.app import listen as listen
from videopro.serve.app import run as run
from videopro.serve.films import Film as Film
from videopro.serve.films import FilmStore as FilmStore
from videopro.serve.guards import ServeLimits as ServeLimits
from videopro.serve.methods import AskRequest as AskRequest
from videopro.serve.state import ServerState as ServerState
