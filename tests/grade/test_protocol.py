"""Frames from a submission's process: what is not an answer is refused, and costs no memory."""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import Any

import pytest
import torch

from efflab.checking import wire
from efflab.checking.observe import Observation, Raised
from efflab.grade import protocol, worker

CPU = torch.device("cpu")


def received(data: bytes, most: int | None = None) -> bytes | None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return protocol.Receiver(ours, most).wait(5.0)


def test_a_frame_arrives_whole_though_it_comes_in_pieces() -> None:
    value: dict[str, Any] = {"x": torch.arange(300_000), "n": 3}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=protocol.send, args=(theirs, value))
        sender.start()
        receiver, frame = protocol.Receiver(ours), None
        while frame is None:
            frame = receiver.wait(0.001)
        sender.join()
    answer = protocol.answer(frame, CPU)
    assert answer["n"] == 3
    assert torch.equal(answer["x"], value["x"])


@pytest.mark.parametrize("length", [0, protocol.MAX_REPLY + 1, 2**63, 2**64 - 1])
def test_hostile_lengths_are_refused(length: int) -> None:
    with pytest.raises(protocol.Invalid):
        received(struct.pack("<Q", length) + b"x" * 100)


def test_an_early_end_is_seen() -> None:
    for data in (b"", b"abc", struct.pack("<Q", 10) + b"abc"):
        with pytest.raises(protocol.Ended):
            received(data)


def test_nothing_within_the_time_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"abc")
        assert protocol.Receiver(ours).wait(0.05) is None


def framed(header: Any, blob: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + blob


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"abc",
        framed(b"{"),
        framed([1]),
        framed({"dict": [["a"]]}),
        framed(b"[" * 100_000),
        struct.pack("<I", protocol.MAX_HEADER + 1) + b"x" * 100,
        framed({"dict": [["value", {"tensor": ["float32", [10**12], [1], 0, False]}]]}),
        framed({"dict": [["value", {"tensor": ["float32", [2], [2**33], 0, False]}]]}, b"x" * 8),
        framed({"dict": [["value", {"tensor": ["float32", [2], [-1], 0, False]}]]}, b"x" * 8),
        framed({"dict": [["value", {"tensor": ["int64", [1], [1], 0, True]}]]}, b"x" * 8),
        framed({"dict": [["value", {"tensor": ["nothing", [1], [1], 0, False]}]]}, b"x" * 8),
        framed({"dict": [["value", {"int": "9" * 100_000}]]}),
        framed({"pickle": "gASVAAAA"}),
    ],
)
def test_malformed_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(protocol.Invalid):
        protocol.answer(frame, CPU)


GOOD: dict[str, Any] = Observation(value=1).as_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"changed": None},
        {"changed": (1,)},
        {"launches": "abc"},
        {"peak_bytes": -1},
        {"peak_bytes": 1.5},
        {"flops": True},
        {"error": "x"},
        {"error": {"kind": 3}},
        {"forbidden": {"a": 1}},
    ],
)
def test_every_field_is_checked(change: dict[str, Any]) -> None:
    with pytest.raises(protocol.Invalid):
        protocol.observation(GOOD | change)


def test_an_observation_survives_the_way() -> None:
    seen = Observation(
        value=(1, 2.5), error=Raised("E", "m", "w", None, 3), changed=("x",), launches=("k", "k"), flops=7
    )
    reply = protocol.answer(wire.encode(seen.as_dict()), CPU)
    assert protocol.observation(reply) == seen


def test_text_is_cleaned_and_cut() -> None:
    seen = protocol.observation(GOOD | {"error": {"kind": "\x1b[1mE", "message": "m" * 10_000, "where": "\u202e"}})
    assert seen.error is not None
    assert seen.error.kind == "�[1mE"
    assert len(seen.error.message) < 2000


def test_foreign_objects_keep_only_their_types_name() -> None:
    class Thing:
        pass

    class Flag(int):
        pass

    sent = worker.sendable((Thing(), {"a": Flag(3)}, {1: 2}, torch.ones(2).to_sparse()), CPU)
    thing, plain, odd, sparse = protocol.observation(GOOD | {"value": sent}).value
    assert type(thing).__name__ == "Thing"
    assert plain == {"a": 3}
    assert type(plain["a"]) is int
    assert type(odd).__name__ == "dict"
    assert "strided" in type(sparse).__name__
