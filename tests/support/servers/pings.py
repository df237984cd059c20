"""Pings: raise OSError until the server on this port really serves."""

import socket
import struct


def redis(port: int) -> None:
    _expect(_ask(port, b"PING\r\n"), b"+PONG")


def beanstalk(port: int) -> None:
    _expect(_ask(port, b"list-tubes\r\n"), b"OK")


def mariadb(port: int) -> None:
    """The server speaks first: a packet header of four bytes, then protocol version 10."""
    _expect(_ask(port, b"")[4:], b"\x0a")


def postgresql(port: int) -> None:
    """A start-up packet is answered with R once connections are served, with E before."""
    parameters = b"user\0postgres\0database\0postgres\0\0"
    _expect(_ask(port, struct.pack("!ii", len(parameters) + 8, 3 << 16) + parameters), b"R")


def _ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        connection.sendall(request)
        return connection.recv(64)


def _expect(reply: bytes, start: bytes) -> None:
    if not reply.startswith(start):
        raise ConnectionError(f"expected {start!r}, was answered {reply!r}")
