#!/usr/bin/env python3
"""One plain TCP stream.

    stream.py receive                    says its port; then how many bytes came, from when till when
    stream.py send HOST PORT SECONDS
"""
import json
import socket
import sys
import time


def receive():
    with socket.create_server(("", 0)) as server:
        server.settimeout(30)
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            room = bytearray(1 << 20)
            total, start = connection.recv_into(room), time.monotonic()
            while count := connection.recv_into(room):
                total += count
            print(json.dumps({"bytes": total, "start": start, "end": time.monotonic()}), flush=True)


def send(host, port, seconds):
    data = bytes(1 << 18)
    with socket.create_connection((host, port), timeout=30) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(data)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
