"""A Spark History Server as a place: what its REST API lists is found, and its ZIPs are read as logs."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.fleet.rows import Stamp
from podtide.adapters.history.history_server import applications, is_history_server

pytest.importorskip("aiohttp")

# As Spark 4.3.0 writes it (ApplicationInfo, ApplicationAttemptInfo), shortened.
LISTED = [
    {
        "id": "spark-1",
        "name": "etl",
        "attempts": [
            {"attemptId": "2", "completed": True, "startTimeEpoch": 5, "endTimeEpoch": 9, "lastUpdatedEpoch": 12},
            {"attemptId": "1", "completed": True, "startTimeEpoch": 1, "endTimeEpoch": 4, "lastUpdatedEpoch": 6},
        ],
    },
    {
        "id": "local-7",
        "name": "x",
        "attempts": [{"completed": True, "lastUpdatedEpoch": 7, "appSparkVersion": "4.3.0"}],
    },
    {"id": "app-8", "name": "y", "attempts": [{"completed": False, "lastUpdatedEpoch": 8}]},
]
LINE = b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n'


class Server(HTTPServer):
    listing = json.dumps(LISTED).encode()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path.startswith("/api/v1/applications?"):
            self.answer(self.server.listing, "application/json")
        elif self.path == "/api/v1/applications/spark-1/2/logs":
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as zipped:
                zipped.writestr("spark-1_2", LINE)
            self.answer(packed.getvalue(), "application/octet-stream")
        else:
            self.send_error(404)

    def do_HEAD(self) -> None:
        self.send_error(405)

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("given", ["", "/", "/api/v1", "/api/v1/applications", "/api/v1/applications/"])
def test_completed_attempts_are_found_and_their_logs_can_be_read(server: Server, given: str) -> None:
    place = url(server) + given
    assert is_history_server(place)
    found = list(applications(place))
    base = f"{url(server)}/api/v1/applications"
    assert [(one.place, one.stamp) for one in found] == [
        (f"{base}/spark-1/2/logs", Stamp(None, 12, None)),
        (f"{base}/spark-1/1/logs", Stamp(None, 6, None)),
        (f"{base}/local-7/logs", Stamp(None, 7, None)),
    ]
    with open_log(found[0].place) as source:
        assert b"".join(bytes(piece.data) for piece in source.pieces() if hasattr(piece, "data")) == LINE


@pytest.mark.parametrize(
    "given",
    ["http://host/logs/app-1", "https://host/a.zip", "http://host/?q", "s3://bucket", "/api/v1", "hdfs://host/"],
)
def test_other_places_are_none(given: str) -> None:
    assert not is_history_server(given)


@pytest.mark.parametrize("listing", [b"<html>", b"{}", b'[{"name": 1}]'])
def test_what_is_no_history_server_is_refused_in_one_line(server: Server, listing: bytes) -> None:
    server.listing = listing
    with pytest.raises(LogError, match="is no History Server"):
        list(applications(url(server)))


def test_a_server_that_is_away_is_refused(server: Server) -> None:
    server.server_close()
    with pytest.raises(LogError):
        list(applications("http://127.0.0.1:9"))
