package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.Consumer;
import org.apache.spark.ExecutorAllocationManager;
import org.apache.spark.SparkConf;
import org.apache.spark.resource.ResourceProfile$;
import org.apache.spark.resource.ResourceProfileManager;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.ReplayListenerBus;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.apache.spark.scheduler.SparkListenerResourceProfileAdded;
import org.apache.spark.scheduler.dynalloc.ExecutorMonitor;
import org.apache.spark.util.ManualClock;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One application's dynamic allocation, Spark's own classes all of it, driven a line at a time.
 *
 * <p>Real are ExecutorAllocationManager with its listener, ExecutorMonitor, ResourceProfileManager and the
 * listener interface; replaced are the clock (a ManualClock set by each line), the 100 ms timer (a tick is a
 * line) and the scheduler backend ({@link ScriptedClient}). Events are delivered in the calling thread, to the
 * listeners in the order in which start() registered them: the allocation listener, then the monitor.
 */
final class AllocationDriver {
  private static final String TRACKING =
      "org$apache$spark$scheduler$dynalloc$ExecutorMonitor$$shuffleTrackingEnabled";

  final ManualClock clock;
  final ScriptedClient client;
  private final ExecutorAllocationManager manager;
  private final ReplayListenerBus bus = new ReplayListenerBus();
  private final List<SparkListenerInterface> listeners = new ArrayList<>();
  private final ExecutorMonitor monitor;
  private final ResourceProfileManager profiles;
  private final Consumer<ObjectNode> out;

  /**
   * Builds the manager and runs its start(), which makes the first request.
   *
   * @param header the first line of a scenario: conf, startAt, options, client
   * @param out receives every output object, or is null when nobody listens
   */
  AllocationDriver(JsonNode header, Consumer<ObjectNode> out) {
    this.out = out;
    clock = new ManualClock(header.path("startAt").asLong(0));
    SparkConf conf = new SparkConf(false)
        .set("spark.master", "k8s://http://oracle")
        .set("spark.app.name", "oracle")
        .set("spark.dynamicAllocation.enabled", "true");
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    JsonNode options = header.path("options");
    client = new ScriptedClient(clock, options.path("active").asText().equals("always"), out);
    client.script(header.path("client"));
    // The default profile is one object for the whole JVM. Without this the cores and cpus of the first
    // scenario would hold for all later ones.
    ResourceProfile$.MODULE$.clearDefaultProfile();
    LiveListenerBus live = new LiveListenerBus(conf);
    profiles = new ResourceProfileManager(conf, live);
    boolean reliable = options.path("reliableShuffleStorage").asBoolean(false);
    manager = new ExecutorAllocationManager(client, live, conf, Option.empty(), clock, profiles, reliable);
    monitor = manager.executorMonitor();
    ((ScheduledExecutorService) Hidden.get(manager, "executor")).shutdownNow();
    Hidden.set(manager, "executor", Proxy.newProxyInstance(
        AllocationDriver.class.getClassLoader(),
        new Class<?>[] {ScheduledExecutorService.class},
        (proxy, method, arguments) -> null));
    manager.start();
    for (Object listener : live.listeners()) {
      listeners.add((SparkListenerInterface) listener);
    }
    listeners.forEach(bus::addListener);
  }

  /** The listeners that start() registered, in that order. */
  List<SparkListenerInterface> listeners() {
    return listeners;
  }

  /** Carries out one line of a scenario. Several keys may share a line; they work in this order. */
  void step(JsonNode line) {
    if (line.has("at")) {
      clock.setTime(line.get("at").asLong());
    }
    if (line.has("client")) {
      client.script(line.get("client"));
    }
    if (line.has("event")) {
      post(EventReader.read(line.get("event")));
    }
    if (line.has("shuffleCleaned")) {
      shuffleCleaned(line.get("shuffleCleaned").asInt());
    }
    if (line.path("reset").asBoolean()) {
      manager.reset();
    }
    if (line.path("tick").asBoolean()) {
      try {
        tick();
      } catch (Exception e) {
        write(said("scheduleThrew", e));
      }
      writeState();
    } else if (line.path("state").asBoolean()) {
      writeState();
    }
  }

  /** Delivers an event. What the scheduler backend knows changes before the event is posted, as in Spark. */
  void post(SparkListenerEvent event) {
    if (event instanceof SparkListenerExecutorAdded) {
      client.registered(((SparkListenerExecutorAdded) event).executorId());
    } else if (event instanceof SparkListenerExecutorRemoved) {
      client.gone(((SparkListenerExecutorRemoved) event).executorId());
    } else if (event instanceof SparkListenerResourceProfileAdded) {
      try {
        profiles.addResourceProfile(((SparkListenerResourceProfileAdded) event).resourceProfile());
      } catch (Exception e) {
        write(said("error", e));
      }
    }
    bus.postToAll(event);
  }

  /** One round of the 100 ms timer. */
  void tick() {
    manager.org$apache$spark$ExecutorAllocationManager$$schedule();
  }

  /** What the ContextCleaner does: it reaches the monitor only when shuffles are tracked. */
  private void shuffleCleaned(int shuffle) {
    if ((Boolean) Hidden.get(monitor, TRACKING)) {
      Hidden.call(monitor, "cleanupShuffle", shuffle);
    }
  }

  private ObjectNode said(String call, Exception e) {
    return Json.object().put("at", clock.getTimeMillis()).put("call", call).put("what", String.valueOf(e));
  }

  private void write(ObjectNode node) {
    if (out != null) {
      out.accept(node);
    }
  }

  private void writeState() {
    if (out == null) {
      return;
    }
    ObjectNode s = Json.object();
    TreeSet<Integer> known = new TreeSet<>();
    CollectionConverters.asJava(manager.numExecutorsTargetPerResourceProfileId())
        .keySet().forEach(id -> known.add((Integer) id));
    s.set("numExecutorsTarget", Json.perProfile(manager.numExecutorsTargetPerResourceProfileId()));
    s.set("numExecutorsToAdd", Json.perProfile(manager.numExecutorsToAddPerResourceProfileId()));
    long addTime = (Long) Hidden.get(manager, "addTime");
    if (addTime == Long.MAX_VALUE) {
      s.putNull("addTime"); // NOT_SET: no backlog
    } else {
      s.put("addTime", addTime / 1_000_000L);
    }
    s.put("initializing", (Boolean) Hidden.get(manager, "initializing"));
    ObjectNode needed = s.putObject("maxNeeded");
    for (int profile : known) {
      try {
        needed.put(Integer.toString(profile), manager.maxNumExecutorsNeededPerResourceProfile(profile));
      } catch (Exception e) {
        needed.put(Integer.toString(profile), String.valueOf(e.getMessage()));
      }
    }
    var load = manager.listener();
    s.set("pending", Json.forEach(known, load::pendingTasksPerResourceProfile));
    s.set("pendingSpeculative", Json.forEach(known, load::pendingSpeculativeTasksPerResourceProfile));
    s.set("unschedulable", Json.forEach(known, load::pendingUnschedulableTaskSetsPerResourceProfile));
    s.set("running", Json.forEach(known, load::totalRunningTasksPerResourceProfile));
    s.put("executorCount", monitor.executorCount());
    s.set("executorsPerRp", Json.forEach(known, monitor::executorCountWithResourceProfile));
    s.set("pendingRemoval", sorted(CollectionConverters.asJava(monitor.executorsPendingToRemove())));
    s.set("decommissioning", sorted(CollectionConverters.asJava(monitor.executorsDecommissioning())));
    @SuppressWarnings("unchecked")
    var idle = (scala.collection.immutable.Seq<Tuple2<String, Object>>) Hidden.get(monitor, "timedOutExecs");
    TreeSet<String> timedOut = new TreeSet<>();
    CollectionConverters.asJava(idle).forEach(executor -> timedOut.add(executor._1()));
    s.set("timedOut", Json.strings(timedOut));
    ObjectNode node = Json.object().put("at", clock.getTimeMillis());
    node.set("state", s);
    write(node);
  }

  private static ArrayNode sorted(Collection<String> ids) {
    return Json.strings(new TreeSet<>(ids));
  }
}
