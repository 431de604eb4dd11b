"""The API server in the domain under test: requests in, answers and what each watch was sent out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from podtide.domain.api_server.messages import ApiResponse, ClockTick, HttpRequest, WatchEnded, WatchOver
from podtide.domain.api_server.server import Answer, begin, step
from podtide.domain.api_server.state import ApiConfig, ApiState
from tests.support.api_script import MERGE, Ask, Told

NOW = 1_763_000_000_000
HOME = "/api/v1/namespaces/default"


class ApiPlay:
    """One server; ``watched`` holds per watch the (type, name, resourceVersion) of its events, and OVER at its end."""

    def __init__(self, config: ApiConfig | None = None) -> None:
        self.state: ApiState = begin(config or ApiConfig(), NOW)
        self.now = NOW
        self.watched: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
        self.events = 0

    def put(self, ask: Ask) -> Told:
        """A request of the script."""
        answer = self.answer(ask.method, ask.path, ask.body, ask.media)
        assert isinstance(answer, ApiResponse)
        return Told(answer.code, answer.body)

    def answer(
        self, method: str, path: str, body: Any = None, media: str = "application/json", accept: str = ""
    ) -> Answer:
        """Any request; the answer as it is."""
        url = urlsplit(path)
        query = tuple(parse_qsl(url.query, keep_blank_values=True))
        made = step(self.state, HttpRequest(method, url.path, query, body, media, accept), self.now)
        self._hear(made.state, made.events)
        assert made.response is not None
        return made.response

    def call(self, method: str, path: str, body: Any = None, media: str = MERGE) -> Any:
        """A request of the default namespace that has to succeed; its body. Paths may be relative."""
        path = path if path.startswith("/") else f"{HOME}/{path}"
        answer = self.answer(method, path, body, media)
        assert isinstance(answer, ApiResponse)
        assert answer.code < 300, answer.body
        return answer.body

    def refused(self, method: str, path: str, body: Any = None, media: str = MERGE) -> tuple[int, str]:
        """A request of the default namespace that has to be refused: code and message; nothing changes."""
        path = path if path.startswith("/") else f"{HOME}/{path}"
        before = self.state
        answer = self.answer(method, path, body, media)
        assert isinstance(answer, ApiResponse)
        assert answer.code >= 400, answer.body
        assert self.state is before
        assert isinstance(answer.body, dict)
        assert answer.body["code"] == answer.code
        return answer.code, answer.body["message"]

    def watch(self, path: str) -> int:
        """Begin a watch; its number."""
        sign = "&" if "?" in path else "?"
        answer = self.answer("GET", f"{HOME}/{path}{sign}watch=1" if path[0] != "/" else f"{path}{sign}watch=1")
        assert isinstance(answer, ApiResponse)
        assert answer.watch is not None, answer.body
        return answer.watch

    def tick(self, wait_ms: int) -> None:
        """Time goes on."""
        self.now += wait_ms
        made = step(self.state, ClockTick(), self.now)
        self._hear(made.state, made.events)

    def hang_up(self, watch: int) -> None:
        """A client ends its watch."""
        made = step(self.state, WatchEnded(watch), self.now)
        self._hear(made.state, made.events)

    def names(self, path: str) -> list[str]:
        """The names that a list answers."""
        return [item["metadata"]["name"] for item in self.call("GET", path)["items"]]

    def _hear(self, state: ApiState, events: Any) -> None:
        self.state = state
        self.events += len(events)
        for event in events:
            if isinstance(event, WatchOver):
                self.watched[event.watch].append(("OVER", "", 0))
                continue
            metadata = event.item["metadata"]
            version = int(metadata.get("resourceVersion", 0))
            name = metadata.get("name") or str(event.item.get("code", ""))
            self.watched[event.watch].append((event.type, name, version))
