"""What a metered backbone counts."""

from __future__ import annotations

from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import Sampling, load_backbone
from videopro.backbones.wrappers import Meter, MeteredBackbone


def test_tokens_of_a_server_that_lists_no_ids_count() -> None:
    words = [entry(word, -0.1) for word in ("a", " red", " cup")]
    with StubServer(lambda body: completion("a red cup", words)) as stub:
        meter = Meter()
        backbone = MeteredBackbone(load_backbone(f"server:served@{stub.url}"), meter)
        reply = backbone.generate(None, "What is it?", Sampling(8))
    assert reply.token_ids == ()
    cost = meter.take()
    assert (cost.calls, cost.tokens_in, cost.tokens_out) == (1, 7, 3)
