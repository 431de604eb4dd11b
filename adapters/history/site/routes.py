"""Requests to pages: who may ask, what there is, and the history's file opened for each answer.

``/``, ``/app/N`` (the application of run N), ``/run/N``, ``/run/N/report``, ``/broken``, ``/metrics``, ``/healthz``.
Paths are looked up in a table, never in a file system; a report is made only of a log that the history names.

A server on loopback answers only to names of this machine, so that a page elsewhere cannot reach it through a name that it
controls. With a token every page but ``/healthz`` wants it: as the password of Basic (any user's name), which browsers ask
for by themselves, or as Bearer.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from http import HTTPStatus
from typing import Final

from podtide.adapters.fleet.rows import RowStatus
from podtide.adapters.history import exposition
from podtide.adapters.history.site import pages
from podtide.adapters.history.site.pages import SiteTerms
from podtide.adapters.history.site.shelf import ReportShelf, TooMany
from podtide.adapters.history.store import HistoryError, RunHistory
from podtide.adapters.history.values import KeptRun
from podtide.adapters.http_server.small_server import HttpAsked, HttpReply
from podtide.adapters.text.exposition import CONTENT_TYPE

HTML: Final = "text/html; charset=utf-8"
AGAIN_S: Final = 2
"""Seconds after which a browser looks whether a report is made."""

_RUN: Final = re.compile(r"/(app|run)/([1-9][0-9]{0,17})(/report)?")
_LOCAL: Final = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)


class HistorySite:
    """The pages of a history. ``token``: required for every page, None: for none. ``local``: loopback alone is served."""

    def __init__(
        self, history: str, terms: SiteTerms, shelf: ReportShelf | None, *,
        token: str | None = None, local: bool = True,
    ) -> None:  # fmt: skip
        self._history, self._shelf = history, shelf
        self._terms = terms._replace(reports=shelf is not None)
        self._token = None if token is None else token.encode()
        self._local = local

    def reply(self, request: HttpAsked) -> HttpReply:
        """The answer to a request."""
        if self._local and request.host and not _LOCAL.fullmatch(request.host):
            return HttpReply(HTTPStatus.MISDIRECTED_REQUEST, b"this server answers to names of its machine alone\n")
        if request.path == "/healthz":
            return HttpReply(HTTPStatus.OK, b"ok\n")
        if self._token is not None and not _knows(request.authorization, self._token):
            wanted = (("WWW-Authenticate", 'Basic realm="podtide", charset="UTF-8"'),)
            return HttpReply(HTTPStatus.UNAUTHORIZED, b"the token is wrong or missing\n", headers=wanted)
        try:
            with RunHistory(self._history, write=False) as history:
                return self._page(history, request.path)
        except HistoryError as problem:
            page = pages.message("Not now", f"The history cannot be read: {problem}")
            return _html(page, HTTPStatus.SERVICE_UNAVAILABLE)

    def _page(self, history: RunHistory, path: str) -> HttpReply:
        if path == "/":
            return _html(pages.overview(history, self._terms))
        if path == "/broken":
            return _html(pages.broken(history))
        if path == "/metrics":
            return HttpReply(HTTPStatus.OK, exposition.page(history), CONTENT_TYPE)
        found = _RUN.fullmatch(path)
        run = None if found is None else history.run(int(found[2]))
        if found is None or run is None or (found[1] == "app" and found[3]):
            return _html(pages.message("Not here", "There is no such page."), HTTPStatus.NOT_FOUND)
        if found[1] == "app":
            return _html(pages.application(history, run.name, self._terms))
        if found[3]:
            return self._report(run)
        return _html(pages.run_page(history, run, run.id, self._terms))

    def _report(self, run: KeptRun) -> HttpReply:
        if self._shelf is None or run.row.status is not RowStatus.OK:
            text = f"There is no report of this run: {run.row.reason or 'reports are not made here'}"
            return _html(pages.message("No report", text), HTTPStatus.NOT_FOUND)
        row = run.row
        request = json.dumps([run.place, row.best, row.best_conf, row.best_static]).encode()
        try:
            made = self._shelf.get(f"{run.id} {row.log_bytes} {row.log_modified_ms} {row.podtide}", request)
        except TooMany:
            return _html(pages.message("Not now", "Too many reports are being made."), HTTPStatus.SERVICE_UNAVAILABLE)
        if made is None:
            page = pages.message("One moment", "The report is being made. This page shows it as soon as it is there.")
            return _html(page, HTTPStatus.ACCEPTED, ("Refresh", str(AGAIN_S)))
        if made.page is None:
            return _html(pages.message("No report", f"The report could not be made: {made.why}"), HTTPStatus.NOT_FOUND)
        # The report has a policy of its own inside, for its script.
        framing = (("Content-Security-Policy", "frame-ancestors 'none'"), ("Referrer-Policy", "no-referrer"))
        return HttpReply(HTTPStatus.OK, made.page, HTML, framing)


def _html(page: bytes, status: HTTPStatus = HTTPStatus.OK, *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status, page, HTML, (*pages.POLICY, *headers))


def _knows(authorization: str, token: bytes) -> bool:
    """Whether a header has the token."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return hmac.compare_digest(given.strip().encode("latin-1", "replace"), token)
    if scheme.lower() != "basic":
        return False
    try:
        pair = base64.b64decode(given.strip(), validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(pair.partition(b":")[2], token)
