package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.LocalResource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.ExecutorFailureTracker$;
import org.apache.spark.deploy.yarn.ExecutorRunnable;
import org.apache.spark.deploy.yarn.SparkRackResolver;
import org.apache.spark.deploy.yarn.YarnAllocator;
import org.apache.spark.resource.ExecutorResourceRequests;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfile$;
import org.apache.spark.resource.TaskResourceRequests;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages;
import org.apache.spark.util.ManualClock;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Set$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's YarnAllocator, driven a line at a time.
 *
 * <p>Real are the allocator with its placement strategy, failure tracker and node health tracker, and Hadoop's AM
 * client with its table of requests ({@link YarnClient}). Replaced are the clock, the resource manager, the topology
 * script, the driver, the pool of launches, and what a launch does ({@link ExecutorRunnable}).
 *
 * <p>The application master's reporter thread sleeps on the wall clock; it is not here. A heartbeat is a line.
 */
final class YarnDriver implements Driver {
  /** One call of Spark's. */
  private interface Call {
    void run() throws Throwable;
  }

  private final ManualClock clock;
  private final SparkConf conf = new SparkConf(false);
  private final YarnLines lines;
  private final YarnClient client;
  private final YarnAllocator allocator;
  private final YarnSurroundings.Pool pool;
  private final JsonNode options;
  private final boolean queued;
  private final int failuresMax;
  private final Map<Integer, ResourceProfile> profiles = new HashMap<>();
  private final Map<String, Runnable> launches = new LinkedHashMap<>();
  private int failLaunches;
  private Throwable fate;

  YarnDriver(JsonNode header, Consumer<ObjectNode> out) {
    clock = new ManualClock(header.path("startAt").asLong(0));
    options = header.path("options");
    lines = new YarnLines(out, clock::getTimeMillis, options.path("sets").asText("sorted").equals("sorted"));
    queued = options.path("launch").asText("sync").equals("queued");
    conf.set("spark.master", "yarn").set("spark.app.name", "oracle");
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    ResourceProfile$.MODULE$.clearDefaultProfile(); // one for the whole JVM, like the two below
    YarnSurroundings.Log.keep(options.path("log").asBoolean(false));
    ExecutorRunnable.fate = executor -> fate;
    Map<String, String> racks = new HashMap<>();
    options.path("racks").properties().forEach(entry -> racks.put(entry.getKey(), entry.getValue().asText()));
    YarnConfiguration yarn = YarnSurroundings.Racks.script(racks);
    client = new YarnClient(lines, options, this::size);
    var driver = new YarnSurroundings.DriverRef(conf, options.path("lastExecutorId").asInt(0), this::heard);
    allocator = new YarnAllocator(
        "spark://driver", driver, yarn, conf, client, YarnClient.ATTEMPT, null, map(List.<Tuple2<String, LocalResource>>of()),
        new SparkRackResolver(yarn), clock);
    pool = new YarnSurroundings.Pool(this::submitted);
    ((ThreadPoolExecutor) Hidden.get(allocator, "launcherPool")).shutdownNow();
    Hidden.set(allocator, "launcherPool", pool);
    failuresMax = ExecutorFailureTracker$.MODULE$.maxNumExecutorFailures(conf);
    profiles.put(0, ResourceProfile$.MODULE$.getOrCreateDefaultProfile(conf));
    tellState();
  }

  /** What the allocator asks for, for a profile; null as long as it does not know the profile. */
  private org.apache.hadoop.yarn.api.records.Resource size(int profile) {
    return allocator == null ? null : allocator.rpIdToYarnResource().get((Object) Integer.valueOf(profile));
  }

  private ResourceProfile profile(int number) {
    return profiles.computeIfAbsent(number, key -> {
      JsonNode written = options.path("profiles").path(Integer.toString(key));
      ExecutorResourceRequests executor = new ExecutorResourceRequests()
          .cores(written.path("cores").asInt(1 + key % 4))
          .memory(written.path("memory").asText("1g"));
      TaskResourceRequests task = new TaskResourceRequests().cpus(written.path("cpus").asInt(1));
      ResourceProfile profile = new ResourceProfile(executor.requests(), task.requests());
      profile.setResourceProfileId(key);
      return profile;
    });
  }

  // ---- a line

  @Override
  public void step(JsonNode line) {
    if (line.has("at")) {
      clock.setTime(line.get("at").asLong());
    }
    client.end();
    if (line.has("shutdown")) {
      allocator.setShutdown(line.get("shutdown").asBoolean());
    }
    failLaunches = line.path("failLaunches").asInt(failLaunches);
    endLaunches(line.path("launched"), () -> null);
    endLaunches(line.path("launchFailed"), () -> new RuntimeException("scripted: launch failed"));
    endLaunches(line.path("launchFatal"), () -> new InterruptedException("scripted: fatal"));
    if (line.has("targets")) {
      request(line);
    }
    for (JsonNode executor : line.path("kill")) {
      call("kill", () -> allocator.killExecutor(executor.asText()));
    }
    for (JsonNode executor : line.path("enqueueLoss")) {
      call("enqueueLoss", () -> allocator.enqueueGetLossReasonRequest(executor.asText(), asker(executor.asText())));
    }
    if (line.has("allocate")) {
      client.script(line.get("allocate"));
      call("allocate", allocator::allocateResources);
      client.end();
    }
    if (line.has("handle")) {
      handle(line.get("handle"));
    }
    if (line.path("stop").asBoolean()) {
      call("stop", allocator::stop);
      lines.say(lines.at().put("stopped", pool.stopped));
    }
    tellState();
  }

  /** What a call throws is told with the call's name. */
  private void call(String name, Call call) {
    try {
      call.run();
    } catch (Throwable thrown) {
      lines.close();
      String what = thrown.getClass().getName() + ": " + thrown.getMessage();
      lines.say(lines.at().put("threw", what).put("in", name));
    }
    lines.close();
  }

  private void request(JsonNode line) {
    List<Tuple2<ResourceProfile, Object>> targets = new ArrayList<>();
    line.get("targets").properties().forEach(entry -> targets.add(
        new Tuple2<>(profile(Integer.parseInt(entry.getKey())), entry.getValue().asInt())));
    List<Tuple2<Object, scala.collection.immutable.Map<String, Object>>> hosts = new ArrayList<>();
    line.path("hostToLocalTaskCount").properties().forEach(entry -> hosts.add(
        new Tuple2<>(Integer.valueOf(entry.getKey()), map(counts(entry.getValue(), host -> host)))));
    Set<String> excluded = new LinkedHashSet<>();
    line.path("excludedNodes").forEach(host -> excluded.add(host.asText()));
    call("targets", () -> {
      boolean changed = allocator.requestTotalExecutorsWithPreferredLocalities(
          map(targets), map(counts(line.path("localityAwareTasks"), profile -> (Object) Integer.valueOf(profile))), map(hosts),
          Set$.MODULE$.<String>from(CollectionConverters.asScala(excluded)));
      lines.say(lines.at().put("changed", changed));
    });
  }

  private static <K> List<Tuple2<K, Object>> counts(JsonNode written, Function<String, K> key) {
    List<Tuple2<K, Object>> counts = new ArrayList<>();
    written.properties().forEach(
        entry -> counts.add(new Tuple2<>(key.apply(entry.getKey()), entry.getValue().asInt())));
    return counts;
  }

  private static <K, V> scala.collection.immutable.Map<K, V> map(List<Tuple2<K, V>> entries) {
    return Map$.MODULE$.<K, V>from(CollectionConverters.asScala(entries));
  }

  /** The two halves of a heartbeat's answer, without the heartbeat. */
  private void handle(JsonNode answer) {
    List<Container> allocated = client.containers(answer.path("allocated"));
    List<ContainerStatus> completed = YarnClient.statuses(answer.path("completed"));
    client.handle(allocated);
    if (!allocated.isEmpty()) {
      call("handle", () -> allocator.handleAllocatedContainers(Json.seq(allocated)));
    }
    if (!completed.isEmpty()) {
      call("handle", () -> allocator.processCompletedContainers(Json.seq(completed)));
    }
    client.end();
  }

  // ---- launches

  private void submitted(ObjectNode shown, Runnable launch) {
    lines.more("launch").add(shown);
    if (queued) {
      launches.put(shown.get("id").asText(), launch);
      return;
    }
    fate = null;
    if (failLaunches > 0) {
      failLaunches--;
      fate = new RuntimeException("scripted: launch failed");
    }
    launch.run();
  }

  private void endLaunches(JsonNode ids, Supplier<Throwable> end) {
    List<String> ended = new ArrayList<>();
    if (ids.asText().equals("all")) {
      ended.addAll(launches.keySet());
    }
    ids.forEach(id -> ended.add(id.asText()));
    for (String executor : ended) {
      Runnable launch = launches.remove(executor);
      if (launch == null) {
        lines.say(lines.at().put("error", "no queued launch of executor " + executor));
        continue;
      }
      fate = end.get();
      call("launch", launch::run);
    }
    fate = null;
  }

  // ---- the driver

  private void heard(Object message) {
    lines.close();
    ObjectNode line = lines.at();
    if (message instanceof CoarseGrainedClusterMessages.RemoveExecutor) {
      var removal = (CoarseGrainedClusterMessages.RemoveExecutor) message;
      reason(line.putObject("removeExecutor").put("id", removal.executorId()), removal.reason());
    } else if (message instanceof CoarseGrainedClusterMessages.DecommissionExecutorsOnHost) {
      line.put("decommissionExecutorsOnHost",
          ((CoarseGrainedClusterMessages.DecommissionExecutorsOnHost) message).host());
    } else {
      line.put("sent", String.valueOf(message));
    }
    lines.say(line);
  }

  private static void reason(ObjectNode shown, Object reason) {
    ExecutorExited exited = (ExecutorExited) reason;
    shown.put("exit", exited.exitCode()).put("byApp", exited.exitCausedByApp()).put("reason", exited.reason());
  }

  /** Who asks why an executor is gone. */
  private RpcCallContext asker(String executor) {
    return new RpcCallContext() {
      @Override
      public void reply(Object response) {
        lines.close();
        ObjectNode line = lines.at();
        reason(line.putObject("lossReason").put("id", executor), response);
        lines.say(line);
      }

      @Override
      public void sendFailure(Throwable failure) {
        lines.say(lines.at().put("lossReasonFailed", executor).put("what", failure.getMessage()));
      }

      @Override
      public RpcAddress senderAddress() {
        return RpcAddress.apply("driver", 7078);
      }
    };
  }

  // ---- the state

  private void tellState() {
    lines.close();
    ArrayNode logged = YarnSurroundings.Log.taken();
    if (logged != null) {
      ObjectNode line = lines.at();
      line.set("log", logged);
      lines.say(line);
    }
    ObjectNode line = lines.at();
    ObjectNode state = line.putObject("state");
    state.set("target", perProfile("targetNumExecutorsPerResourceProfileId", YarnDriver::number));
    state.set("running", perProfile("runningExecutorsPerResourceProfileId", value -> numbers(collection(value))));
    state.set("starting", perProfile("numExecutorsStartingPerResourceProfileId", YarnDriver::number));
    ObjectNode pending = state.putObject("pending");
    for (Object profile : new TreeSet<>(map(Hidden.get(allocator, "rpIdToResourceProfile")).keySet())) {
      pending.set(profile.toString(), Json.strings(client.waiting((Integer) profile)));
    }
    state.set("hosts", perProfile("allocatedHostToContainersMapPerRPId", hosts -> {
      ObjectNode shown = Json.object();
      new TreeMap<>(map(hosts)).forEach((host, ids) -> shown.set((String) host, numbers(collection(ids))));
      return shown;
    }));
    ObjectNode executors = state.putObject("executors");
    byNumber(map(allocator.executorIdToContainer())).forEach(
        (id, container) -> executors.put(id.toString(), ((Container) container).getId().getContainerId()));
    state.set("launching", numbers(collection(Hidden.get(allocator, "launchingExecutorContainerIds"))));
    state.set("released", numbers(collection(Hidden.get(allocator, "releasedContainers"))));
    ObjectNode asked = state.putObject("lossPending");
    byNumber(map(Hidden.get(allocator, "pendingLossReasonRequests"))).forEach(
        (id, callers) -> asked.put(id.toString(), collection(callers).size()));
    state.set("lossStored", numbers(map(Hidden.get(allocator, "releasedExecutorLossReasons")).keySet()));
    state.put("unexpected", allocator.getNumUnexpectedContainerRelease());
    state.put("lastId", (Integer) Hidden.get(allocator, "executorIdCounter"));
    state.put("localityAware", allocator.getNumLocalityAwareTasks());
    state.put("failed", allocator.getNumExecutorsFailed()).put("maxFailures", failuresMax);
    Object tracker = Hidden.get(allocator, "allocatorNodeHealthTracker");
    state.set("excluded", names(collection(Hidden.get(tracker, "currentExcludededYarnNodes"))));
    ObjectNode own = state.putObject("ownExcluded");
    new TreeMap<>(map(Hidden.get(tracker, "allocatorExcludedNodeList"))).forEach(
        (host, until) -> own.put((String) host, (Long) until));
    state.set("schedulerExcluded", names(collection(Hidden.get(tracker, "schedulerExcludedNodeList"))));
    state.put("clusterNodes", (Integer) Hidden.get(tracker, "numClusterNodes"));
    state.put("allExcluded", allocator.isAllNodeExcluded());
    ArrayNode leaving = state.putArray("decommissioning"); // in the order in which they came
    ((Map<?, ?>) Hidden.get(allocator, "decommissioningNodesCache")).keySet()
        .forEach(host -> leaving.add((String) host));
    lines.say(line);
  }

  private ObjectNode perProfile(String field, Function<Object, JsonNode> shown) {
    ObjectNode node = Json.object();
    new TreeMap<>(map(Hidden.get(allocator, field))).forEach(
        (profile, value) -> node.set(profile.toString(), shown.apply(value)));
    return node;
  }

  @SuppressWarnings("unchecked")
  private static Map<Object, Object> map(Object scalaMap) {
    return CollectionConverters.asJava((scala.collection.Map<Object, Object>) scalaMap);
  }

  @SuppressWarnings("unchecked")
  private static Collection<Object> collection(Object scalaIterable) {
    return CollectionConverters.asJavaCollection((scala.collection.Iterable<Object>) scalaIterable);
  }

  private static JsonNode number(Object value) {
    return IntNode.valueOf(((Number) value).intValue());
  }

  private static ArrayNode names(Collection<Object> names) {
    ArrayNode array = Json.MAPPER.createArrayNode();
    new TreeSet<>(names).forEach(name -> array.add((String) name));
    return array;
  }

  /** Ids of containers or executors, by number. */
  private static ArrayNode numbers(Collection<Object> ids) {
    TreeSet<Long> numbers = new TreeSet<>();
    ids.forEach(id -> numbers.add(
        id instanceof ContainerId ? ((ContainerId) id).getContainerId() : Long.parseLong((String) id)));
    ArrayNode array = Json.MAPPER.createArrayNode();
    numbers.forEach(array::add);
    return array;
  }

  private static Map<Long, Object> byNumber(Map<Object, Object> byExecutor) {
    TreeMap<Long, Object> sorted = new TreeMap<>();
    byExecutor.forEach((id, value) -> sorted.put(Long.parseLong((String) id), value));
    return sorted;
  }
}
