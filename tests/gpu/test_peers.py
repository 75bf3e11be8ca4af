"""Peers compute what they say, on small inputs on the CPU where they can run there."""

from __future__ import annotations

import pytest
import torch

from efflab.gpu import peers


def expected(q, k, v, causal):
    """Attention in float64, causal aligned at the bottom right."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2]), float("-inf"))
    return torch.softmax(s, -1) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("Nk", [7, 12])
def test_naive_attention(causal, Nk):
    q, k, v = torch.randn(2, 6, 7, 8), torch.randn(2, 3, Nk, 8), torch.randn(2, 3, Nk, 8)
    o = peers.naive_attention(q, k, v, causal)
    assert torch.allclose(o.double(), expected(q, k, v, causal), atol=1e-5)


def test_flash_attention_of_pytorch_on_the_cpu():
    q, k, v = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
    assert torch.allclose(peers.sdpa_flash(q, k, v, True).double(), expected(q, k, v, True), atol=1e-5)


@pytest.mark.parametrize("name", ["sdpa_flash", "sdpa_cudnn", "sdpa_efficient"])
def test_a_top_left_mask_is_refused_where_it_would_differ(name):
    q, k = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 6, 8)
    with pytest.raises(ValueError, match="top left"):
        peers.PEERS[name].function(q, k, k, causal=True)


def test_grouped_heads_are_refused_where_the_backend_has_none():
    q, k = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 8)
    with pytest.raises(ValueError, match="repeat k and v"):
        peers.sdpa_efficient(q, k, k)


def test_memory_bound_peers():
    x = torch.randn(5, 9)[:, 1:8]
    for function in (peers.clone, peers.copy):
        y = function(x)
        assert torch.equal(y, x)
        assert y.data_ptr() != x.data_ptr()
    assert torch.allclose(peers.torch_softmax(x).sum(-1), torch.ones(5))


def test_a_peer_takes_the_inputs_it_has_parameters_for():
    x = torch.randn(3)
    assert torch.equal(peers.peer("clone").call({"x": x, "alpha": 2.0}), x)


def test_unknown_peer():
    with pytest.raises(peers.UnknownPeer, match="Did you mean sdpa_flash"):
        peers.peer("spda_flash")


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_availability_without_a_gpu():
    assert {name for name, p in peers.PEERS.items() if p.available() is None} == {
        "naive_attention", "clone", "copy", "torch_softmax"}
    assert peers.PEERS["flex_attention"].available() == "needs a CUDA GPU"
