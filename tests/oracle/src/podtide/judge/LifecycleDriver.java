package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.client.KubernetesClient;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.k8s.Config$;
import org.apache.spark.scheduler.ExecutorExited;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsLifecycleManager;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStore;
import org.apache.spark.util.Clock;
import org.apache.spark.util.ManualClock;
import org.sparkproject.guava.base.Ticker;
import org.sparkproject.guava.cache.Cache;
import org.sparkproject.guava.cache.CacheBuilder;
import scala.collection.immutable.LazyList$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's ExecutorPodsLifecycleManager, driven a round at a time.
 *
 * <p>Real are the manager, its failure tracker and fabric8's client above its HTTP layer. Replaced are the clock,
 * the API server, the snapshots store, the scheduler backend, and stopApplication, which would end the JVM. The
 * cache of removed executors is the same Guava cache, made to look at the scenario's clock.
 *
 * <p>Within a snapshot Spark visits executors in the order of a hash map. Its lines are sorted by executor, each
 * executor's own in their order.
 */
final class LifecycleDriver implements Driver {
  /** The manager, without the end of the process. */
  private static final class Manager extends ExecutorPodsLifecycleManager {
    private final IntConsumer exit;

    Manager(
        SparkConf conf, KubernetesClient client, ExecutorPodsSnapshotsStore store, Clock clock, IntConsumer exit) {
      super(conf, client, store, clock);
      this.exit = exit;
    }

    @Override
    public void stopApplication(int code) {
      exit.accept(code);
    }
  }

  /** A line to be, with what it is sorted by: the place in the round and the executor. */
  private static final class Said {
    final int place;
    final long executor;
    final ObjectNode line;

    Said(int place, long executor, ObjectNode line) {
      this.place = place;
      this.executor = executor;
      this.line = line;
    }
  }

  private static final String GONE = "gone";

  private final Consumer<ObjectNode> out;
  private final ManualClock clock;
  private final String appId;
  private final ApiServer api = new ApiServer(this::refusal, this::requested);
  private final ScriptedStore store = new ScriptedStore(pods -> { });
  private final ScriptedScheduler scheduler = ScriptedScheduler.make(this::removed, this::asked);
  private final Manager manager;
  private final Cache<Long, Long> removals;
  private final Map<String, Set<String>> failing = new HashMap<>();
  private final Map<String, Pod> seen = new LinkedHashMap<>(); // the newest pod that any line showed, by executor
  private final Map<String, String> apiSays = new HashMap<>(); // executor to present, deleting or gone
  private final List<Said> said = new ArrayList<>();
  private int failCode = 403;
  private int exits;
  private ExecutorPodsSnapshot last = ExecutorPodsSnapshot.apply();
  private int place = -1;
  private String placeName;

  LifecycleDriver(JsonNode header, Consumer<ObjectNode> out) {
    this.out = out;
    clock = new ManualClock(header.path("startAt").asLong(0));
    appId = header.path("appId").asText("app-1");
    SparkConf conf = new SparkConf(false)
        .set("spark.master", "k8s://" + ApiServer.URL)
        .set("spark.app.name", "oracle")
        .set("spark.app.id", appId);
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    PodReader.settings(conf);
    manager = new Manager(conf, api.client(), store, clock, code -> {
      exits++;
      said.add(new Said(Integer.MAX_VALUE, Long.MAX_VALUE, at().put("exit", code)));
    });
    removals = removals(conf);
    manager.start(scheduler);
    out.accept(at().put("interval", store.interval)
        .put("maxNumExecutorFailures", manager.maxNumExecutorFailures()));
  }

  /** Replaces the manager's cache by the same one on the scenario's clock. */
  private Cache<Long, Long> removals(SparkConf conf) {
    long seconds = (Long) conf.get(Config$.MODULE$.KUBERNETES_DELETED_EXECUTORS_CACHE_TIMEOUT());
    Cache<Long, Long> cache = CacheBuilder.newBuilder()
        .expireAfterWrite(seconds, TimeUnit.SECONDS)
        .ticker(new Ticker() {
          @Override
          public long read() {
            return TimeUnit.MILLISECONDS.toNanos(clock.getTimeMillis());
          }
        })
        .build();
    Hidden.get(manager, "removedExecutorsCache"); // a lazy val: once made, it stays what it is set to
    Hidden.set(manager, "removedExecutorsCache", cache);
    return cache;
  }

  @Override
  public void step(JsonNode line) {
    if (line.has("at")) {
      clock.setTime(line.get("at").asLong());
    }
    failing("GET pods", line.get("failGets"));
    failing("DELETE pods", line.get("failDeletes"));
    failing("PATCH pods", line.get("failPatches"));
    failCode = line.path("failCode").asInt(failCode);
    line.path("api").properties().forEach(entry -> apiSays.put(entry.getKey(), entry.getValue().asText()));
    if (line.has("registered")) {
      Map<String, Long> registered = new LinkedHashMap<>();
      line.get("registered").properties().forEach(e -> registered.put(e.getKey(), e.getValue().asLong()));
      scheduler.register(registered);
    }
    if (line.has("active")) {
      Set<String> active = new HashSet<>();
      line.get("active").forEach(id -> active.add(id.asText()));
      scheduler.activate(active);
    }
    for (int i = line.path("registerFailures").asInt(0); i > 0; i--) {
      manager.registerExecutorFailure();
    }
    if (line.has("snapshots")) {
      List<ExecutorPodsSnapshot> batch = read(line.get("snapshots"));
      if (batch != null) {
        refresh();
        round(batch);
      }
    }
    tellState();
  }

  // ---- the API server

  private void failing(String what, JsonNode executors) {
    if (executors != null) {
      Set<String> names = new HashSet<>();
      executors.forEach(id -> names.add(id.asText().equals("*") ? "*" : "exec-" + id.asText()));
      failing.put(what, names);
    }
  }

  private int refusal(ApiServer.Request request) {
    Set<String> names = failing.getOrDefault(request.what(), Set.of());
    return names.contains("*") || names.contains(request.name) ? failCode : 0;
  }

  /** Puts into the API server what a GET shall find in the next round. */
  private void refresh() {
    Map<String, ObjectNode> pods = api.collection("pods");
    pods.clear();
    seen.forEach((executor, pod) -> {
      String says = apiSays.getOrDefault(executor, "present");
      if (says.equals(GONE)) {
        return;
      }
      ObjectNode node = Json.object().put("kind", "Pod").put("apiVersion", "v1");
      ObjectNode metadata = node.putObject("metadata")
          .put("name", pod.getMetadata().getName()).put("namespace", "default")
          .put("uid", "uid-" + executor).put("resourceVersion", "1");
      ObjectNode labels = metadata.putObject("labels");
      pod.getMetadata().getLabels().forEach(labels::put);
      String deleted = pod.getMetadata().getDeletionTimestamp();
      if (deleted != null || says.equals("deleting")) {
        metadata.put("deletionTimestamp", deleted != null ? deleted : "1970-01-01T00:00:00Z");
      }
      node.putObject("spec");
      node.putObject("status");
      pods.put(pod.getMetadata().getName(), node);
    });
  }

  private void requested(ApiServer.Request request) {
    ObjectNode line = at();
    long executor = -1;
    if ("pods".equals(request.collection) && request.name != null && request.query.isEmpty()) {
      try {
        executor = Long.parseLong(request.name.replaceFirst("^exec-", ""));
      } catch (NumberFormatException e) {
        executor = -1; // a pod with a name of its own
      }
      String method = request.method.charAt(0) + request.method.substring(1).toLowerCase(Locale.ROOT);
      line.put("pod" + method, request.name);
      if (request.method.equals("PATCH")) {
        line.set("body", request.body);
      }
      if (request.method.equals("DELETE") && request.code < 300) {
        apiSays.put(Long.toString(executor), GONE);
      }
    } else {
      String query = request.query.isEmpty() ? "" : "?" + request.query;
      line.put("http", request.method + " " + request.path + query);
    }
    say(executor, line.put("code", request.code));
  }

  // ---- the scheduler backend

  private void removed(String executor, ExecutorLossReason reason) {
    ExecutorExited exited = (ExecutorExited) reason;
    say(Long.parseLong(executor), at().put("remove", executor)
        .put("exitCode", exited.exitCode())
        .put("exitCausedByApp", exited.exitCausedByApp())
        .put("message", exited.reason()));
  }

  private void asked(String executor, boolean answer) {
    say(Long.parseLong(executor), at().put("isExecutorActive", executor).put("answer", answer));
  }

  // ---- rounds

  /** The snapshots of a line; null, and a line that says so, when a pod cannot be read. */
  private List<ExecutorPodsSnapshot> read(JsonNode snapshots) {
    List<ExecutorPodsSnapshot> batch = new ArrayList<>();
    try {
      for (JsonNode json : snapshots) {
        List<Pod> pods = new ArrayList<>();
        for (JsonNode one : json.path("pods")) {
          Pod pod = PodReader.pod(one, appId);
          pods.add(pod);
          if (one.hasNonNull("id")) {
            seen.put(one.get("id").asText(), pod);
          }
        }
        if (json.hasNonNull("full")) {
          last = PodReader.snapshot(pods, json.get("full").asLong());
        } else {
          for (Pod pod : pods) {
            last = last.withUpdate(pod);
          }
        }
        batch.add(last);
      }
      return batch;
    } catch (RuntimeException e) {
      out.accept(at().put("snapshotThrew", e.getClass().getName()));
      return null;
    }
  }

  private void round(List<ExecutorPodsSnapshot> batch) {
    said.clear();
    place = -1;
    placeName = null;
    ObjectNode threw = null;
    try {
      store.deliver(marking(batch));
    } catch (Exception e) { // the text of a null pointer is the JVM's, and changes with it
      String message = e instanceof NullPointerException ? "" : ": " + e.getMessage();
      threw = at().put("threw", e.getClass().getName() + message);
    }
    said.sort(Comparator.<Said>comparingInt(s -> s.place).thenComparingLong(s -> s.executor));
    said.forEach(one -> out.accept(one.line));
    said.clear();
    if (threw != null) {
      out.accept(threw);
    }
    placeName = null;
  }

  /**
   * The batch as a sequence that is made while the manager walks through it: so each call is known to belong to
   * the snapshot that was taken last, and what comes when all are taken to the search for lost executors.
   */
  @SuppressWarnings("unchecked")
  private Seq<ExecutorPodsSnapshot> marking(List<ExecutorPodsSnapshot> batch) {
    Iterator<ExecutorPodsSnapshot> snapshots = batch.iterator();
    Iterator<ExecutorPodsSnapshot> marked = new Iterator<>() {
      @Override
      public boolean hasNext() {
        if (!snapshots.hasNext()) {
          place = batch.size();
          placeName = batch.isEmpty() ? null : "lost";
        }
        return snapshots.hasNext();
      }

      @Override
      public ExecutorPodsSnapshot next() {
        place++;
        placeName = Integer.toString(place);
        return snapshots.next();
      }
    };
    return (Seq<ExecutorPodsSnapshot>) (Object) LazyList$.MODULE$.from(CollectionConverters.asScala(marked));
  }

  private void say(long executor, ObjectNode line) {
    if (placeName != null) {
      line.put("in", placeName);
    }
    said.add(new Said(place, executor, line));
  }

  private ObjectNode at() {
    return Json.object().put("at", clock.getTimeMillis());
  }

  private void tellState() {
    ObjectNode state = Json.object();
    new TreeSet<>(removals.asMap().keySet()).forEach(state.putArray("removedCache")::add);
    sorted("inactivatedPods").forEach(state.putArray("inactivated")::add);
    sorted("failedExecutorIds").forEach(state.putArray("failedIds")::add);
    state.put("numFailed", manager.getNumExecutorsFailed());
    state.put("lastFullSnapshotTs", (Long) Hidden.get(manager, "lastFullSnapshotTs"));
    state.put("exits", exits);
    ObjectNode node = at();
    node.set("state", state);
    out.accept(node);
  }

  private Collection<Long> sorted(String member) {
    TreeSet<Long> ids = new TreeSet<>();
    CollectionConverters.asJava((scala.collection.Iterable<?>) Hidden.get(manager, member))
        .forEach(id -> ids.add((Long) id));
    return ids;
  }
}
