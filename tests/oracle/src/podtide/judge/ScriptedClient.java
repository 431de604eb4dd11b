package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.ExecutorAllocationClient;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.util.Clock;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The scheduler backend as dynamic allocation sees it: writes down every call, answers as the scenario says.
 *
 * <p>An executor is active from the moment it is added until it is removed or a kill (or decommission) of it is
 * granted; {@code alwaysActive} answers yes for any id, as a backend would that never forgets.
 */
final class ScriptedClient implements ExecutorAllocationClient {
  private final Clock clock;
  private final Consumer<ObjectNode> calls;
  private final boolean alwaysActive;
  private final Set<String> active = new LinkedHashSet<>();
  private final Set<String> refusedKills = new HashSet<>();
  private boolean acknowledges = true;
  private boolean requestThrows = false;
  private boolean refusesAllKills = false;
  private boolean killThrows = false;

  /** @param calls receives one JSON object per call, or is null when nobody listens (benchmarks). */
  ScriptedClient(Clock clock, boolean alwaysActive, Consumer<ObjectNode> calls) {
    this.clock = clock;
    this.alwaysActive = alwaysActive;
    this.calls = calls;
  }

  /** Applies a {@code client} line: what the outside world answers from now on. */
  void script(JsonNode line) {
    acknowledges = line.path("ackRequests").asBoolean(acknowledges);
    requestThrows = line.path("throwOnRequest").asBoolean(requestThrows);
    killThrows = line.path("throwOnKill").asBoolean(killThrows);
    JsonNode refuse = line.path("refuseKills");
    if (!refuse.isMissingNode()) {
      refusedKills.clear();
      refusesAllKills = refuse.isBoolean() && refuse.asBoolean();
      refuse.forEach(id -> refusedKills.add(id.asText()));
    }
    line.path("active").forEach(id -> active.add(id.asText()));
    line.path("inactive").forEach(id -> active.remove(id.asText()));
  }

  void registered(String executor) {
    active.add(executor);
  }

  void gone(String executor) {
    active.remove(executor);
  }

  @Override
  public boolean isExecutorActive(String id) {
    return alwaysActive || active.contains(id);
  }

  @Override
  public Seq<String> getExecutorIds() {
    return Json.seq(new ArrayList<>(active));
  }

  @Override
  public boolean requestTotalExecutors(
      Map<Object, Object> targets, Map<Object, Object> localityAware, Map<Object, Map<String, Object>> hosts) {
    if (calls != null) {
      ObjectNode call = call("requestTotalExecutors");
      call.set("targets", Json.perProfile(targets));
      call.set("localityAwareTasks", Json.perProfile(localityAware));
      call.set("hostToLocalTaskCount", Json.perProfileAndHost(hosts));
      calls.accept(call.put("ack", acknowledges && !requestThrows));
    }
    if (requestThrows) {
      throw new RuntimeException("scripted: request failed");
    }
    return acknowledges;
  }

  @Override
  public Seq<String> killExecutors(Seq<String> ids, boolean adjustTarget, boolean countFailures, boolean force) {
    List<String> asked = CollectionConverters.asJava(ids);
    List<String> granted = grant(asked);
    if (calls != null) {
      ObjectNode call = call("killExecutors");
      call.set("ids", Json.strings(asked));
      call.put("adjustTargetNumExecutors", adjustTarget).put("countFailures", countFailures).put("force", force);
      call.set("acked", Json.strings(granted));
      calls.accept(call);
    }
    if (killThrows) {
      throw new RuntimeException("scripted: kill failed");
    }
    return Json.seq(granted);
  }

  @Override
  public Seq<String> decommissionExecutors(
      Tuple2<String, ExecutorDecommissionInfo>[] executors, boolean adjustTarget, boolean triggeredByExecutor) {
    List<String> asked = new ArrayList<>();
    ArrayNode messages = Json.MAPPER.createArrayNode();
    for (Tuple2<String, ExecutorDecommissionInfo> executor : executors) {
      asked.add(executor._1());
      messages.add(executor._2().message());
    }
    List<String> granted = grant(asked);
    if (calls != null) {
      ObjectNode call = call("decommissionExecutors");
      call.set("ids", Json.strings(asked));
      call.put("adjustTargetNumExecutors", adjustTarget).put("triggeredByExecutor", triggeredByExecutor);
      call.set("messages", messages);
      call.set("acked", Json.strings(granted));
      calls.accept(call);
    }
    return Json.seq(granted);
  }

  // The three calls below belong to the interface; dynamic allocation in 4.3 makes none of them. Should another
  // version do, its scenarios will say so.

  @Override
  public boolean requestExecutors(int more) {
    unexpected(call("requestExecutors").put("n", more));
    return acknowledges;
  }

  @Override
  public boolean decommissionExecutorsOnHost(String host) {
    unexpected(call("decommissionExecutorsOnHost").put("host", host));
    return true;
  }

  @Override
  public boolean killExecutorsOnHost(String host) {
    unexpected(call("killExecutorsOnHost").put("host", host));
    return true;
  }

  private void unexpected(ObjectNode call) {
    if (calls != null) {
      calls.accept(call);
    }
  }

  private ObjectNode call(String name) {
    return Json.object().put("at", clock.getTimeMillis()).put("call", name);
  }

  private List<String> grant(List<String> asked) {
    List<String> granted = new ArrayList<>();
    for (String id : asked) {
      if (!refusesAllKills && !refusedKills.contains(id)) {
        granted.add(id);
      }
    }
    active.removeAll(granted);
    return granted;
  }
}
