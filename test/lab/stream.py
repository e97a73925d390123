#!/usr/bin/env python3
"""One plain TCP stream.

    stream.py receive            says on which port it waits; then bytes, and bytes per second, of one stream
    stream.py send HOST PORT SECONDS
"""
import socket
import sys
import time

PORT = 5201


def receive():
    with socket.create_server(("", PORT)) as server:
        server.settimeout(30)
        print("ready", flush=True)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(30)
            room = bytearray(1 << 20)
            total = connection.recv_into(room)
            first, start = total, time.monotonic()
            while count := connection.recv_into(room):
                total += count
            print(total, (total - first) / (time.monotonic() - start), flush=True)


def send(host, seconds):
    data = bytes(1 << 18)
    with socket.create_connection((host, PORT), timeout=30) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(data)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive()
    else:
        send(sys.argv[2], float(sys.argv[3]))
