package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.api.model.Pod;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStoreImpl;
import org.apache.spark.util.ManualClock;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Spark's ExecutorPodsSnapshotsStoreImpl on a manual clock.
 *
 * <p>Real is the store with its subscribers, their queues and locks; replaced are the clock and the pool of
 * threads. What other threads do while a subscriber is busy, a second thread does, for whom this one waits.
 */
final class StoreDriver implements Driver {
  private static final String CURRENT =
      "org$apache$spark$scheduler$cluster$k8s$ExecutorPodsSnapshotsStoreImpl$$currentSnapshot";

  /** What no handler of Spark's catches as an ordinary failure. */
  private static final class Fatal extends LinkageError {
    private static final long serialVersionUID = 1;

    Fatal() {
      super("scripted");
    }
  }

  private final Consumer<ObjectNode> out;
  private final ManualClock clock;
  private final String appId;
  private final ManualScheduler scheduler;
  private final ExecutorPodsSnapshotsStoreImpl store;
  private final List<String> names = new ArrayList<>(); // in the order in which they subscribed
  private final Map<String, Deque<String>> throwNext = new HashMap<>();
  private final Map<String, Deque<JsonNode>> during = new HashMap<>();
  private boolean exited;
  private int depth;

  StoreDriver(JsonNode header, Consumer<ObjectNode> out) {
    this.out = out;
    ExitTrap.install();
    clock = new ManualClock(header.path("startAt").asLong(0));
    appId = header.path("appId").asText("app-1");
    SparkConf conf = new SparkConf(false);
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    PodReader.settings(conf);
    scheduler = new ManualScheduler(clock);
    store = new ExecutorPodsSnapshotsStoreImpl(scheduler, clock, conf);
  }

  @Override
  public void step(JsonNode line) {
    ExitTrap.during(this::exit, () -> {
      if (!exited && line.has("at")) {
        scheduler.advance(line.get("at").asLong());
      }
      if (!exited && line.has("ops")) {
        line.get("ops").forEach(this::act);
      } else if (!exited) {
        act(line);
      }
      if (!exited && !line.path("hold").asBoolean()) {
        scheduler.advance(clock.getTimeMillis());
      }
    });
    tellState();
  }

  private void exit(int code) {
    exited = true;
    out.accept(at().put("exit", code));
  }

  /** What one thread does, up to the first thing that throws. */
  private void act(JsonNode act) {
    try {
      if (act.has("subscribe")) {
        String name = act.get("subscribe").asText();
        names.add(name);
        store.addSubscriber(act.path("interval").asLong(1000), subscriber(name));
      }
      act.path("throwNext").properties().forEach(entry ->
          throwNext.computeIfAbsent(entry.getKey(), key -> new ArrayDeque<>()).add(entry.getValue().asText()));
      act.path("during").properties().forEach(entry ->
          during.computeIfAbsent(entry.getKey(), key -> new ArrayDeque<>()).add(entry.getValue()));
      if (act.has("replace")) {
        store.replaceSnapshot(Json.seq(PodReader.pods(act.get("replace"), appId)));
      }
      for (Pod pod : PodReader.pods(act.path("update"), appId)) {
        store.updatePod(pod);
      }
      if (act.path("notify").asBoolean()) {
        store.notifySubscribers();
      }
      if (act.path("run").asBoolean()) {
        scheduler.advance(clock.getTimeMillis());
      }
      if (act.path("stop").asBoolean()) {
        store.stop();
      }
    } catch (RuntimeException e) {
      out.accept(at().put("threw", e.getClass().getName()));
    }
  }

  private AbstractFunction1<Seq<ExecutorPodsSnapshot>, BoxedUnit> subscriber(String name) {
    return new AbstractFunction1<>() {
      @Override
      public BoxedUnit apply(Seq<ExecutorPodsSnapshot> snapshots) {
        deliver(name, CollectionConverters.asJava(snapshots));
        return BoxedUnit.UNIT;
      }
    };
  }

  private void deliver(String name, List<ExecutorPodsSnapshot> snapshots) {
    ObjectNode line = at().put("deliver", name);
    if (depth > 0) {
      line.put("depth", depth);
    }
    ArrayNode whole = line.putArray("snapshots");
    snapshots.forEach(snapshot -> whole.add(snapshot(snapshot)));
    out.accept(line);
    JsonNode acts = during.getOrDefault(name, new ArrayDeque<>()).poll();
    if (acts != null) {
      meanwhile(acts);
    }
    String fault = throwNext.getOrDefault(name, new ArrayDeque<>()).poll();
    if (fault != null) {
      out.accept(at().put("throws", fault).put("by", name));
      fail(fault);
    }
  }

  /** Another thread acts while this one holds the subscriber's lock. */
  private void meanwhile(JsonNode acts) {
    Thread other = new Thread(() -> acts.forEach(this::act));
    List<Throwable> escaped = new ArrayList<>();
    other.setUncaughtExceptionHandler((thread, error) -> escaped.add(error));
    depth++;
    other.start();
    try {
      other.join();
    } catch (InterruptedException e) {
      throw new IllegalStateException("nobody interrupts the judge", e);
    }
    depth--;
    escaped.forEach(error -> out.accept(at().put("opThrew", error.getClass().getName())));
  }

  private static void fail(String fault) {
    switch (fault) {
      case "IllegalArgument":
        throw new IllegalArgumentException("scripted");
      case "IllegalState":
        throw new IllegalStateException("scripted");
      case "NumberFormat":
        throw new NumberFormatException("scripted");
      case "fatal":
        throw new Fatal();
      default:
        throw new RuntimeException("scripted");
    }
  }

  private ObjectNode at() {
    return Json.object().put("at", clock.getTimeMillis());
  }

  private static ObjectNode snapshot(ExecutorPodsSnapshot snapshot) {
    ObjectNode node = Json.object().put("full", snapshot.fullSnapshotTs());
    node.set("pods", PodTable.states(snapshot));
    return node;
  }

  private void tellState() {
    ObjectNode state = Json.object();
    state.set("current", snapshot((ExecutorPodsSnapshot) Hidden.get(store, CURRENT)));
    ObjectNode subscribers = state.putObject("subs");
    List<?> made = (List<?>) Hidden.get(store, "subscribers");
    List<?> timers = (List<?>) Hidden.get(store, "pollingTasks");
    for (int i = 0; i < made.size(); i++) {
      Object one = made.get(i);
      subscribers.putObject(names.get(i))
          .put("queued", ((Collection<?>) Hidden.get(one, "snapshotsBuffer")).size())
          .put("notifications", ((AtomicInteger) Hidden.get(one, "notificationCount")).get())
          .put("nextTick", i < timers.size() ? scheduler.next(timers.get(i)) : null);
    }
    state.put("submitted", scheduler.waiting());
    if (exited) {
      state.put("exited", true);
    }
    ObjectNode node = at();
    node.set("state", state);
    out.accept(node);
  }
}
