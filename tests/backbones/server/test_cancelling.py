"""A request that nobody waits for any more: its connection is closed, and those of others stay."""

from __future__ import annotations

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.server_cases import Make
from tests.support.silent_server import SilentServer
from tests.support.stub_server import StubFault, StubServer


def test_the_connection_of_a_request_in_flight_is_closed(make: Make) -> None:
    with SilentServer() as server:
        backbone = make(server.url)
        work = CancelledWork(lambda: backbone.generate(None, "Which?"))
        assert server.asked.wait(SOON)
        assert not server.hung_up.is_set()
        work.cancel()
        assert server.hung_up.wait(SOON)


def test_a_wait_before_the_next_try_ends_too_and_the_backbone_goes_on(make: Make, stub: StubServer) -> None:
    backbone = make(stub, retries=5)
    stub.faults += [StubFault(429, {"error": {"message": "later"}}, headers={"Retry-After": "100"})]
    work = CancelledWork(lambda: backbone.generate(None, "Which?"))
    until(lambda: len(stub.chats) > 0)
    work.cancel()
    assert backbone.generate(None, "Which?").text
