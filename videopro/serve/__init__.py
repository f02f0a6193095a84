"""Serves questions about films over HTTP, for programs (OpenAI's protocol) and for the page.

`answering` answers with one model; `questions` keeps what was asked, `line` who is next, `films` what may be
asked about; `app` puts them together. Needs the extra "serve".
"""

from videopro.serve.answering import Answerer as Answerer
from videopro.serve.app import create_app as create_app
from videopro.serve.films import Film as Film
from videopro.serve.films import FilmStore as FilmStore
from videopro.serve.guards import ServeLimits as ServeLimits
from videopro.serve.methods import AskRequest as AskRequest
from videopro.serve.process import listen as listen
from videopro.serve.process import run as run
from videopro.serve.state import ServerState as ServerState
