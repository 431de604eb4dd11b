package podtide.judge;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;

/**
 * What the YARN allocator did, as lines: neighbours of one kind share one until something else is said.
 *
 * <p>Requests get numbers, by profile, in the order in which they were added. Those made and taken back while Spark
 * brings its requests up to date are kept until it goes on, and then told by profile, unless all is to stay in
 * Spark's order, which is that of a hash map.
 */
final class YarnLines {
  /** A request added or taken back. */
  private static final class Change {
    final ContainerRequest request;
    final boolean added;

    Change(ContainerRequest request, boolean added) {
      this.request = request;
      this.added = added;
    }

    int profile() {
      return request.getPriority().getPriority();
    }
  }

  private final Consumer<ObjectNode> out;
  private final LongSupplier clock;
  private final boolean sorted;
  private final Map<Integer, Integer> counts = new HashMap<>();
  private final IdentityHashMap<ContainerRequest, Integer> numbers = new IdentityHashMap<>();
  private final List<Change> changes = new ArrayList<>();
  private String kind; // of the line that is being written
  private ArrayNode items = Json.MAPPER.createArrayNode();

  YarnLines(Consumer<ObjectNode> out, LongSupplier clock, boolean sorted) {
    this.out = out;
    this.clock = clock;
    this.sorted = sorted;
  }

  ObjectNode at() {
    return Json.object().put("at", clock.getAsLong());
  }

  /** A line of its own. */
  void say(ObjectNode line) {
    close();
    out.accept(line);
  }

  /** One item more of a kind: a match, a launch, a release. */
  ArrayNode more(String what) {
    tellChanges();
    if (!what.equals(kind)) {
      close();
      kind = what;
    }
    return items;
  }

  /** Whatever comes next begins a line. */
  void close() {
    tellChanges();
    if (kind != null) {
      ObjectNode line = at();
      line.set(kind, items);
      out.accept(line);
      kind = null;
      items = Json.MAPPER.createArrayNode();
    }
  }

  // ---- requests

  void added(ContainerRequest request) {
    numbers.put(request, counts.merge(request.getPriority().getPriority(), 1, Integer::sum));
    changes.add(new Change(request, true));
  }

  void cancelled(ContainerRequest request) {
    changes.add(new Change(request, false));
  }

  String name(ContainerRequest request) {
    return request.getPriority().getPriority() + "." + numbers.get(request);
  }

  private void tellChanges() {
    if (changes.isEmpty()) {
      return;
    }
    List<Change> told = new ArrayList<>(changes);
    changes.clear();
    if (sorted) {
      told.sort(Comparator.comparingInt(Change::profile)); // stable: only the order of the profiles changes
    }
    int begin = 0;
    while (begin < told.size()) {
      Change first = told.get(begin);
      ArrayNode group = Json.MAPPER.createArrayNode();
      int end = begin;
      while (end < told.size() && told.get(end).added == first.added && told.get(end).profile() == first.profile()) {
        ContainerRequest request = told.get(end++).request;
        if (first.added) {
          show(request, group);
        } else {
          group.add(name(request));
        }
      }
      ObjectNode line = at().put("rp", first.profile());
      line.set(first.added ? "request" : "cancel", group);
      out.accept(line);
      begin = end;
    }
  }

  /** Adds a request to a group, or counts it with the one before if they are equal. */
  private void show(ContainerRequest request, ArrayNode group) {
    ObjectNode shown = Json.object().put("first", name(request)).put("n", 1);
    names(shown, "hosts", request.getNodes());
    names(shown, "racks", request.getRacks());
    if (group.size() > 0) {
      ObjectNode before = (ObjectNode) group.get(group.size() - 1);
      if (before.get("hosts").equals(shown.get("hosts")) && before.get("racks").equals(shown.get("racks"))) {
        before.put("n", before.get("n").asInt() + 1);
        return;
      }
    }
    shown.put("relaxLocality", request.getRelaxLocality())
        .put("priority", request.getPriority().getPriority())
        .put("label", request.getNodeLabelExpression())
        .put("memory", request.getCapability().getMemorySize())
        .put("vcores", request.getCapability().getVirtualCores());
    group.add(shown);
  }

  private void names(ObjectNode shown, String key, List<String> names) {
    if (names == null) {
      shown.set(key, NullNode.instance);
    } else {
      shown.set(key, Json.strings(sorted ? new TreeSet<>(names) : names));
    }
  }
}
