"""The certificate of a run: its arithmetic against known values and against OpenSSL, which recomputes all of it."""

import os
import random
import socket
import ssl
import threading
import time

import pytest

from pystorm_spark.spark.protocol import certificate
from pystorm_spark.spark.protocol.certificate import G, N, P, certificate_of
from pystorm_spark.spark.protocol.encrypted import Encrypted, client_context, server_context

CHECK_SELF_SIGNATURE = 0x4000  # X509_V_FLAG_CHECK_SS_SIGNATURE: else OpenSSL does not look at that of what it trusts
CHANCE = random.Random(15)


@pytest.mark.parametrize(
    ("factor", "x", "y"),
    [
        (1, *G),
        (2, 0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978, None),
        (112233445566778899, 0x339150844EC15234807FE862A86BE77977DBFB3AE3D96F4C22795513AEAAB82F, None),
        (N - 1, G[0], P - G[1]),
    ],
)
def test_multiples_of_the_base_point_are_those_of_nist(factor, x, y):
    found = certificate._times(factor)

    assert found[0] == x
    assert y is None or found[1] == y


def test_a_point_and_its_opposite_are_the_neutral_point():
    assert certificate._sum(G, (G[0], P - G[1])) is None
    assert certificate._sum(None, G) == certificate._sum(G, None) == G


def test_a_token_has_one_certificate_and_another_token_another_one():
    token, other = os.urandom(32), os.urandom(32)

    assert certificate_of(token) == certificate_of(token)
    assert certificate_of(token).certificate != certificate_of(other).certificate
    assert certificate_of(token).key != certificate_of(other).key


def strict_context(token):
    """Looks at the signature as well, and at all that the standard says."""
    context = client_context.__wrapped__(token)
    context.verify_flags |= CHECK_SELF_SIGNATURE | ssl.VERIFY_X509_STRICT
    return context


def shaken_hands(client, server):
    """What a connection between two contexts uses."""
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(one, two), server.wrap_bio(two, one, server_side=True)]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[0].write(b"hello")
    assert ends[1].read() == b"hello"
    return ends[0].version()


@pytest.mark.parametrize("token", [CHANCE.randbytes(32) for _ in range(40)], ids=lambda token: token.hex()[:8])
def test_openssl_finds_nothing_wrong_with_it(token):
    """Key and certificate belong together, its form is right, and its signature is good."""
    assert shaken_hands(strict_context(token), server_context(token)) == "TLSv1.3"


def test_openssl_does_find_a_signature_that_is_wrong(monkeypatch):
    monkeypatch.setattr(certificate, "_signature", lambda *_: certificate._der(0x30, *[certificate._integer(7)] * 2))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(strict_context(b"token"), server_context.__wrapped__(b"token"))


def test_openssl_does_find_a_public_key_that_is_wrong(monkeypatch):
    body = certificate._body
    monkeypatch.setattr(certificate, "_body", lambda public: body(public[:-1] + bytes([public[-1] ^ 1])))
    with pytest.raises(ssl.SSLError):
        server_context.__wrapped__(b"token")


def test_a_server_with_another_certificate_of_the_same_name_is_refused():
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(client_context(b"one"), server_context(b"another"))


def test_the_key_is_on_no_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = os.listdir("/dev/fd")
    server_context.__wrapped__(b"token")

    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/dev/fd")) == len(before)


def test_who_does_not_shake_hands_has_no_more_time_than_it_is_given():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting = threading.Event()

        def drip():
            while not waiting.wait(0.02):
                theirs.sendall(b"x")

        theirs.sendall(b"\x16\x03\x01\x40\x00")
        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            with pytest.raises(OSError):
                Encrypted(ours, b"token", is_server=True, until=time.monotonic() + 0.3)
        finally:
            waiting.set()
            dripping.join()
