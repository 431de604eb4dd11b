package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.client.utils.Serialization;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsPollingSnapshotSource;
import org.apache.spark.util.ManualClock;

/** Spark's ExecutorPodsPollingSnapshotSource on a manual clock, with an API server that lists what a line says. */
final class PollDriver implements Driver {
  private final Consumer<ObjectNode> out;
  private final ManualClock clock;
  private final ManualScheduler scheduler;
  private final String appId;
  private final ApiServer api = new ApiServer(this::refusal, this::requested);
  private final ExecutorPodsPollingSnapshotSource source;
  private final Map<String, Set<String>> failing = new HashMap<>();

  PollDriver(JsonNode header, Consumer<ObjectNode> out) {
    this.out = out;
    clock = new ManualClock(header.path("startAt").asLong(0));
    scheduler = new ManualScheduler(clock);
    appId = header.path("appId").asText("app-1");
    SparkConf conf = new SparkConf(false);
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    source = new ExecutorPodsPollingSnapshotSource(
        conf, api.client(), new ScriptedStore(this::replaced), scheduler);
  }

  private int refusal(ApiServer.Request request) {
    return failing.getOrDefault(request.what(), Set.of()).contains("*") ? 403 : 0;
  }

  private void requested(ApiServer.Request request) {
    ObjectNode line = at().put("list", request.collection);
    ArrayNode terms = line.putArray("labelSelector"); // sorted: their order is that of a hash
    new TreeSet<>(ApiServer.terms(request.query.getOrDefault("labelSelector", ""))).forEach(terms::add);
    request.query.forEach((key, value) -> {
      if (!key.equals("labelSelector")) {
        line.put(key, value);
      }
    });
    out.accept(line.put("code", request.code));
  }

  private void replaced(List<Pod> pods) {
    ObjectNode line = at();
    ArrayNode names = line.putArray("replaceSnapshot");
    pods.forEach(pod -> names.add(pod.getMetadata().getName()));
    out.accept(line);
  }

  @Override
  public void step(JsonNode line) {
    if (line.has("at")) {
      scheduler.advance(line.get("at").asLong());
    }
    if (line.has("fail")) {
      failing.clear();
      for (Map.Entry<String, JsonNode> entry : line.get("fail").properties()) {
        Set<String> names = new HashSet<>();
        entry.getValue().forEach(name -> names.add(name.asText()));
        failing.put(entry.getKey(), names);
      }
    }
    if (line.has("resourceVersion")) {
      api.listVersion = line.hasNonNull("resourceVersion") ? line.get("resourceVersion").asText() : null;
    }
    if (line.has("pods")) {
      Map<String, ObjectNode> there = api.collection("pods");
      there.clear();
      for (Pod pod : PodReader.pods(line.get("pods"), appId)) {
        there.put(pod.getMetadata().getName() == null ? "" : pod.getMetadata().getName(), node(pod));
      }
    }
    try {
      if (line.path("start").asBoolean()) {
        source.start(appId);
      }
      if (line.path("stop").asBoolean()) {
        source.stop();
      }
    } catch (Exception e) {
      out.accept(at().put("threw", e.getClass().getName() + ": " + e.getMessage()));
    }
    scheduler.advance(clock.getTimeMillis());
    ObjectNode node = at();
    scheduler.due().forEach(node.putObject("state").putArray("scheduled")::add);
    out.accept(node);
  }

  private static ObjectNode node(Pod pod) {
    try {
      return (ObjectNode) Json.MAPPER.readTree(Serialization.asJson(pod));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private ObjectNode at() {
    return Json.object().put("at", clock.getTimeMillis());
  }
}
