package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import io.fabric8.kubernetes.api.model.ContainerState;
import io.fabric8.kubernetes.api.model.ContainerStateBuilder;
import io.fabric8.kubernetes.api.model.ContainerStatus;
import io.fabric8.kubernetes.api.model.ContainerStatusBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.api.model.PodSpec;
import io.fabric8.kubernetes.api.model.PodSpecBuilder;
import io.fabric8.kubernetes.api.model.PodStatus;
import io.fabric8.kubernetes.api.model.PodStatusBuilder;
import io.fabric8.kubernetes.api.model.Volume;
import io.fabric8.kubernetes.api.model.VolumeBuilder;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot$;

/** Pods as scenarios write them, and the settings of Spark's by which it reads them (one each for the JVM). */
final class PodReader {
  static final String SPARK_CONTAINER = "spark-kubernetes-executor";

  private PodReader() {}

  /** The pod of a scenario, with the labels that Spark gives its executors. */
  static Pod pod(JsonNode json, String appId) {
    return new PodBuilder()
        .withNewMetadata()
        .withName(json.has("name") ? text(json, "name") : "exec-" + json.path("id").asText())
        .withNamespace("default")
        .withLabels(labels(json, appId))
        .withCreationTimestamp(time(json.get("createdAt")))
        .withDeletionTimestamp(time(json.get("deletionTimestamp")))
        .endMetadata()
        .withSpec(json.path("noSpec").asBoolean() ? null : spec(json))
        .withStatus(json.path("noStatus").asBoolean() ? null : status(json))
        .build();
  }

  static List<Pod> pods(JsonNode array, String appId) {
    List<Pod> pods = new ArrayList<>();
    array.forEach(json -> pods.add(pod(json, appId)));
    return pods;
  }

  private static Map<String, String> labels(JsonNode json, String appId) {
    Map<String, String> labels = new LinkedHashMap<>();
    if (json.hasNonNull("id")) {
      labels.put("spark-exec-id", json.get("id").asText());
    }
    labels.put("spark-app-selector", json.has("app") ? json.get("app").asText() : appId);
    labels.put("spark-role", "executor");
    if (!json.has("rp") || json.hasNonNull("rp")) { // null: a pod without the label
      String profile = json.path("rp").asText("0");
      labels.put("spark-exec-resourceprofile-id", profile.isEmpty() ? "0" : profile);
    }
    if (json.path("inactive").asBoolean()) {
      labels.put("spark-exec-inactive", "true");
    }
    json.path("labels").properties().forEach(entry -> labels.put(entry.getKey(), entry.getValue().asText()));
    return labels;
  }

  private static PodSpec spec(JsonNode json) {
    List<Volume> volumes = new ArrayList<>();
    for (JsonNode claim : json.path("pvcs")) {
      volumes.add(new VolumeBuilder().withName("v" + volumes.size())
          .withNewPersistentVolumeClaim().withClaimName(claim.asText()).endPersistentVolumeClaim().build());
    }
    return new PodSpecBuilder().withRestartPolicy(text(json, "restartPolicy")).withVolumes(volumes).build();
  }

  private static PodStatus status(JsonNode json) {
    List<ContainerStatus> containers = containers(json.path("containers"));
    if (!json.has("containers") && json.has("exitCode")) { // short for: the Spark container ended
      ContainerState ended = new ContainerStateBuilder()
          .withNewTerminated().withExitCode(json.get("exitCode").asInt()).endTerminated().build();
      containers.add(new ContainerStatusBuilder().withName(SPARK_CONTAINER).withState(ended).build());
    }
    return new PodStatusBuilder()
        .withPhase(text(json, "phase"))
        .withReason(text(json, "reason"))
        .withMessage(text(json, "message"))
        .withContainerStatuses(containers)
        .withInitContainerStatuses(containers(json.path("initContainers")))
        .build();
  }

  private static List<ContainerStatus> containers(JsonNode array) {
    List<ContainerStatus> containers = new ArrayList<>();
    for (JsonNode json : array) {
      boolean stateless = json.has("state") && json.get("state").isNull();
      containers.add(new ContainerStatusBuilder()
          .withName(text(json, "name"))
          .withImage(text(json, "image"))
          .withState(stateless ? null : state(json))
          .build());
    }
    return containers;
  }

  private static ContainerState state(JsonNode json) {
    ContainerStateBuilder state = new ContainerStateBuilder();
    String started = text(json, "startedAt");
    String reason = text(json, "reason");
    String message = text(json, "message");
    switch (json.has("state") ? json.get("state").asText() : json.has("exitCode") ? "terminated" : "running") {
      case "running":
        return state.withNewRunning().withStartedAt(started).endRunning().build();
      case "waiting":
        return state.withNewWaiting().withReason(reason).withMessage(message).endWaiting().build();
      case "terminated":
        return state.withNewTerminated()
            .withExitCode(json.hasNonNull("exitCode") ? (Integer) json.get("exitCode").asInt() : null)
            .withReason(reason).withMessage(message)
            .withStartedAt(started).withFinishedAt(text(json, "finishedAt"))
            .endTerminated().build();
      default: // a state object that says nothing
        return state.build();
    }
  }

  private static String text(JsonNode json, String key) {
    return json.hasNonNull(key) ? json.get(key).asText() : null;
  }

  /** Milliseconds, or the API's text. */
  private static String time(JsonNode json) {
    if (json == null || json.isNull()) {
      return null;
    }
    return json.isTextual() ? json.asText() : Instant.ofEpochMilli(json.asLong()).toString();
  }

  static ExecutorPodsSnapshot snapshot(List<Pod> pods, long at) {
    return ExecutorPodsSnapshot.apply(Json.seq(pods), at);
  }

  /** What KubernetesClusterManager tells ExecutorPodsSnapshot once per process. */
  static void settings(SparkConf conf) {
    settings(
        conf.getBoolean("spark.kubernetes.executor.checkAllContainers", true),
        conf.get("spark.kubernetes.executor.podTemplateContainerName", SPARK_CONTAINER));
  }

  static void settings(boolean checkAllContainers, String sparkContainer) {
    ExecutorPodsSnapshot$.MODULE$.setShouldCheckAllContainers(checkAllContainers);
    ExecutorPodsSnapshot$.MODULE$.setSparkContainerName(sparkContainer);
  }
}
