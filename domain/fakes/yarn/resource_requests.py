"""What is asked for: the AM client's table of requests, and what the resource manager knows of it.

The AM client knows requests; the resource manager knows numbers: how many containers of a profile could be used on
this host, on that rack, anywhere. A call carries, for every location of which a request came or went since the call
before, the number as it is in the client's table now. Between calls the resource manager counts down what it gives;
at a location that a call says nothing of, its own number stays. Both facts together are why a resource manager gives
more than is wanted: what it gave while a call was on its way is counted as wanted once more by that call.

Requests are kept in runs (``protocol.container_requests``) and never counted out: the number at a location is computed
from the runs when somebody asks, and what the resource manager gave since is kept beside it, for as few locations as
there were gifts. Source: AMRMClientImpl and AppSchedulingInfo of Hadoop 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from podtide.domain.fakes.yarn.rows import AskRow, NeedRow
from podtide.domain.fakes.yarn.tables import YarnTables
from podtide.domain.protocol.container_requests import Layout, RequestBatch, RequestTable, Span
from podtide.domain.protocol.containers import ANY_HOST, Resource
from podtide.domain.protocol.yarn_messages import CancelRequests, RequestContainers, TakeRequests

# the AM client


def request(tables: YarnTables, command: RequestContainers) -> None:
    """Put requests into the client's table."""
    ask = tables.asks.get(command.profile, AskRow())
    table = ask.table
    if table.made != command.first - 1:  # whoever goes on from a recording has made some before
        table = RequestTable(table.batches, max(table.made, command.first - 1), table.waiting)
    table = table.added(command.layout, command.anywhere)
    dirty = ask.dirty
    if command.layout is not None:
        dirty = _soiled(dirty, command.layout, command.layout.lengths[0])
    tables.asks.put(command.profile, AskRow(table, dirty, True, command.resource, command.label or ""))
    tables.count("requests.made", command.count)


def cancel(tables: YarnTables, command: CancelRequests) -> None:
    """Take requests out again."""
    tables.count("requests.cancelled", _remove(tables, command.profile, command.spans))


def take(tables: YarnTables, command: TakeRequests) -> None:
    """Containers answer these requests."""
    spans = _runs(sorted(match.request for match in command.matches))
    tables.count("requests.answered", _remove(tables, command.profile, spans))


def _runs(numbers: Iterable[int]) -> Iterator[Span]:
    """Numbers in a row together."""
    run: Span | None = None
    for number in numbers:
        if run is not None and number == run.last + 1:
            run = Span(run.first, number)
            continue
        if run is not None:
            yield run
        run = Span(number, number)
    if run is not None:
        yield run


def _remove(tables: YarnTables, profile: int, spans: Iterable[Span]) -> int:
    """Take out what of these requests is there; returns how many those were."""
    ask = tables.asks.get(profile)
    if ask is None:
        return 0
    batches, dirty, gone = list(ask.table.batches), ask.dirty, 0
    for span in spans:
        place = max(0, bisect_right(batches, span.first, key=lambda batch: batch.first) - 1)
        while place < len(batches) and batches[place].first <= span.last:
            batch = batches[place]
            first, last = max(batch.first, span.first), min(batch.last, span.last)
            if first > last:
                place += 1
                continue
            gone += last - first + 1
            if batch.layout is not None:
                dirty = _soiled(dirty, batch.layout, batch.layout.length(first - batch.base))
            left = [one for one in (batch._replace(last=first - 1), batch._replace(first=last + 1)) if one.size > 0]
            batches[place : place + 1] = left
            place += len(left)
    if gone:
        table = RequestTable(tuple(batches), ask.table.made, ask.table.waiting - gone)
        tables.asks.put(profile, ask._replace(table=table, dirty=dirty, changed=True))
    return gone


def _soiled(dirty: tuple[tuple[Layout, int], ...], layout: Layout, length: int) -> tuple[tuple[Layout, int], ...]:
    """Requests of a layout with so many hosts came or went; their hosts are the layout's first ones."""
    for place, (other, before) in enumerate(dirty):
        if other is layout:
            return dirty if length <= before else (*dirty[:place], (layout, length), *dirty[place + 1 :])
    return (*dirty, (layout, length))


def parcel(tables: YarnTables) -> tuple[tuple[int, AskRow], ...]:
    """What a call carries: the profiles whose requests changed. The client holds them for told now."""
    changed = tuple((profile, ask) for profile, ask in sorted(tables.asks.items()) if ask.changed)
    for profile, ask in changed:
        tables.asks.put(profile, ask._replace(dirty=(), changed=False))
    return changed


def restore(tables: YarnTables, asks: Iterable[tuple[int, AskRow]]) -> None:
    """A call failed: what it carried is to be told with the next."""
    for profile, carried in asks:
        ask = tables.asks[profile]
        dirty = ask.dirty
        for layout, length in carried.dirty:
            dirty = _soiled(dirty, layout, length)
        tables.asks.put(profile, ask._replace(dirty=dirty, changed=True))


# the resource manager


def arrive(tables: YarnTables, asks: Iterable[tuple[int, AskRow]]) -> None:
    """The resource manager is told: at the locations that changed, the client's numbers count from now on."""
    manager = tables.plan.description.manager
    for profile, ask in asks:
        size = rounded(ask.resource, manager.minimum_mib, manager.minimum_vcores)
        old = tables.needs.get(profile)
        need = NeedRow(ask.table, size, ask.label) if old is None else old
        given = need.given
        for location in list(given):
            if location == ANY_HOST or _is_dirty(location, ask.dirty):
                given = given.remove(location)
        tables.needs.put(
            profile,
            need._replace(
                table=ask.table, resource=size, label=ask.label, given=given, places=_places(ask.table.batches)
            ),
        )
    tables.stir()


def _is_dirty(location: str, dirty: tuple[tuple[Layout, int], ...]) -> bool:
    for layout, length in dirty:
        place = layout.places.get(location)
        if place is None:
            place = layout.rack_places.get(location)
        if place is not None and place < length:
            return True
    return False


def _places(batches: tuple[RequestBatch, ...]) -> int:
    """About how many hosts and racks are named (one that several layouts name is counted with each)."""
    places = 0
    for batch in batches:
        if batch.layout is not None:
            length = batch.layout.length(batch.first - batch.base)
            places += length + sum(1 for first in batch.layout.rack_places.values() if first < length)
    return places


def rounded(resource: Resource, minimum_mib: int, minimum_vcores: int) -> Resource:
    """What the scheduler makes of a size: a multiple of the least that it gives."""
    memory = max(1, -(-resource.memory_mib // minimum_mib)) * minimum_mib
    cores = max(1, -(-resource.vcores // minimum_vcores)) * minimum_vcores
    return Resource(memory, cores, resource.custom)


def wanted(need: NeedRow, location: str = ANY_HOST) -> int:
    """How many containers the resource manager believes could be used at a location."""
    if location == ANY_HOST:
        listed = need.table.waiting
    else:
        listed = sum(_listed(batch, location) for batch in need.table.batches if batch.layout is not None)
    return max(0, listed - need.given.get(location, 0))


def _listed(batch: RequestBatch, location: str) -> int:
    """How many of a run's requests name a host or rack."""
    layout = batch.layout
    assert layout is not None
    place = layout.places.get(location)
    if place is None:
        place = layout.rack_places.get(location)
    if place is None:
        return 0
    return max(0, min(batch.base + layout.until(place), batch.last + 1) - batch.first)


def give(need: NeedRow, locations: Iterable[str]) -> NeedRow:
    """One container less is needed at these locations."""
    given = need.given
    for location in locations:
        given = given.set(location, given.get(location, 0) + 1)
    return need._replace(given=given)
