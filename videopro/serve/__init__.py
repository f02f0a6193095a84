"""Serves questions about films over HTTP, for programs (OpenAI's protocol) and for the page.

`answering` answers with one model; `questions` keeps what was asked, `line` who is next, `films` what may be
asked about; `app` puts them together. Needs the extra "serve".
"""

from videopro.serve.answering import Answerer
from videopro.serve.app import create_app, create_state
from videopro.serve.films import Film, FilmStore
from videopro.serve.limits import ServeLimits
from videopro.serve.process import listen, run
from videopro.serve.requests import AskRequest
from videopro.serve.state import ServerState

__all__ = [
    "Answerer",
    "AskRequest",
    "Film",
    "FilmStore",
    "ServeLimits",
    "ServerState",
    "create_app",
    "create_state",
    "listen",
    "run",
]
