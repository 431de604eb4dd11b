package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.api.model.Pod;
import java.util.List;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import scala.jdk.javaapi.CollectionConverters;

/** A table of pods: each row is answered by itself and the states in which ExecutorPodsSnapshot finds its pods. */
final class PodTable implements Driver {
  private final Consumer<ObjectNode> out;

  PodTable(Consumer<ObjectNode> out) {
    this.out = out;
  }

  @Override
  public void step(JsonNode line) {
    ObjectNode row = (ObjectNode) line;
    PodReader.settings(
        row.path("checkAllContainers").asBoolean(true),
        row.path("sparkContainerName").asText(PodReader.SPARK_CONTAINER));
    JsonNode pods = row.has("pods") ? row.get("pods") : Json.MAPPER.createArrayNode().add(row.get("pod"));
    List<Pod> read = PodReader.pods(pods, "app-1");
    row.remove(List.of("states", "threw"));
    try {
      row.set("states", states(PodReader.snapshot(read, 1)));
    } catch (RuntimeException e) {
      row.put("threw", e.getClass().getName());
    }
    out.accept(row);
  }

  /** The class of each pod's state, by executor id. */
  static ObjectNode states(ExecutorPodsSnapshot snapshot) {
    TreeMap<Long, String> states = new TreeMap<>();
    CollectionConverters.asJava(snapshot.executorPods())
        .forEach((id, state) -> states.put((Long) id, state.getClass().getSimpleName()));
    ObjectNode node = Json.object();
    states.forEach((id, state) -> node.put(id.toString(), state));
    return node;
  }
}
