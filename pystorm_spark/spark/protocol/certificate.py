"""Internal. The certificate of a run, computed from the run's token: whoever has the token can use and check it.

So nothing but the token has to be handed out. Python's standard library can use certificates and cannot make any; what
is missing is one multiplication on the curve P-256 for the public key, one for the signature, and some bytes of DER.
How long these take tells something of their numbers, but little: always the same two numbers, and the sum of both times
at best. OpenSSL checks the result when it loads the certificate.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple

Point = tuple[int, int] | None  # None is the neutral one

# The curve P-256: FIPS 186-4, D.1.2.3.
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G: Point = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

SEQUENCE, SET, INTEGER, BIT_STRING, OCTET_STRING, OID, UTF8_STRING, TIME = (
    0x30,
    0x31,
    0x02,
    0x03,
    0x04,
    0x06,
    0x0C,
    0x18,
)
EC_PUBLIC_KEY = bytes.fromhex("2a8648ce3d0201")
P_256 = bytes.fromhex("2a8648ce3d030107")
ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")
COMMON_NAME = bytes.fromhex("550403")


class Certificate(NamedTuple):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


def certificate_of(token: bytes) -> Certificate:
    """The certificate of the run that has this token: the same each time."""
    secret = _number(token, b"key")
    x, y = _times(secret)
    public = b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")
    body = _body(public)
    algorithm = _der(SEQUENCE, _der(OID, ECDSA_WITH_SHA256))
    signed = _der(SEQUENCE, body, algorithm, _der(BIT_STRING, b"\0", _signature(token, secret, body)))
    # Without the public key, which OpenSSL then computes, and compares with the certificate's.
    key = _der(SEQUENCE, _integer(1), _der(OCTET_STRING, secret.to_bytes(32, "big")), _der(0xA0, _der(OID, P_256)))
    return Certificate(_pem("CERTIFICATE", signed), _pem("EC PRIVATE KEY", key))


def _body(public: bytes) -> bytes:
    """What is signed: a certificate of version 3 without an end, for nobody in particular."""
    name = _der(SEQUENCE, _der(SET, _der(SEQUENCE, _der(OID, COMMON_NAME), _der(UTF8_STRING, b"pystorm-spark"))))
    validity = _der(SEQUENCE, _der(TIME, b"20000101000000Z"), _der(TIME, b"99991231235959Z"))
    key = _der(SEQUENCE, _der(SEQUENCE, _der(OID, EC_PUBLIC_KEY), _der(OID, P_256)), _der(BIT_STRING, b"\0", public))
    algorithm = _der(SEQUENCE, _der(OID, ECDSA_WITH_SHA256))
    return _der(SEQUENCE, _der(0xA0, _integer(2)), _integer(1), algorithm, name, validity, name, key)


def _signature(token: bytes, secret: int, body: bytes) -> bytes:
    """ECDSA. The nonce depends on the token alone, and signs nothing else: the body is the same for a token."""
    nonce = _number(token, b"nonce")
    r = _times(nonce)[0] % N
    digest = int.from_bytes(hashlib.sha256(body).digest(), "big")
    return _der(SEQUENCE, _integer(r), _integer(pow(nonce, -1, N) * (digest + r * secret) % N))


def _number(token: bytes, purpose: bytes) -> int:
    """A number from 1 to N - 1 that only those who know the token can compute."""
    drawn = hmac.digest(token, b"pystorm-spark certificate " + purpose, "sha512")
    return int.from_bytes(drawn, "big") % (N - 1) + 1


def _times(factor: int) -> tuple[int, int]:
    """The point of the curve that is `factor` times G."""
    total, power = None, G
    while factor:
        if factor & 1:
            total = _sum(total, power)
        power = _sum(power, power)
        factor >>= 1
    assert total is not None
    return total


def _sum(first: Point, second: Point) -> Point:
    if first is None or second is None:
        return first or second
    (x1, y1), (x2, y2) = first, second
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, P) if first == second else (y2 - y1) * pow(x2 - x1, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def _integer(number: int) -> bytes:
    return _der(INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 0x80 else bytes([0x80 + len(long)]) + long) + content


def _pem(kind: str, der: bytes) -> bytes:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n".encode()
