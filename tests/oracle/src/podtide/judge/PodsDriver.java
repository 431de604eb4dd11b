package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.api.model.ContainerBuilder;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.k8s.KubernetesExecutorConf;
import org.apache.spark.deploy.k8s.KubernetesExecutorSpec;
import org.apache.spark.deploy.k8s.SparkPod;
import org.apache.spark.resource.ExecutorResourceRequests;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfile$;
import org.apache.spark.resource.TaskResourceRequests;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBuilder;
import org.apache.spark.util.ManualClock;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's ExecutorPodsAllocator, driven a line at a time.
 *
 * <p>Real are the allocator, SparkConf, fabric8's client above its HTTP layer and, with the option "builder":
 * "real", KubernetesExecutorBuilder with all its feature steps; else pods are made bare, with the four labels by
 * which Spark finds them again. Replaced are the clock, the API server ({@link ApiServer}), the snapshots store
 * (a line brings the snapshots) and the scheduler backend.
 */
final class PodsDriver implements Driver {
  private static final String CLAIMS = "persistentvolumeclaims";

  private final Consumer<ObjectNode> out;
  private final ManualClock clock;
  private final SparkConf conf;
  private final String appId;
  private final List<ApiServer.Request> requests = new ArrayList<>();
  private final ApiServer api = new ApiServer(this::refusal, requests::add);
  private final ScriptedStore store = new ScriptedStore(pods -> { });
  private final ScriptedScheduler scheduler =
      ScriptedScheduler.make((executor, reason) -> { }, (executor, answer) -> { });
  private final ExecutorPodsAllocator allocator;
  private final Map<Integer, ResourceProfile> profiles = new HashMap<>();
  private int failCreates;
  private int failClaims;
  private int failDeletes;
  private int failCode = 403;
  private long snapshots;

  PodsDriver(JsonNode header, Consumer<ObjectNode> out) {
    this.out = out;
    clock = new ManualClock(header.path("startAt").asLong(0));
    appId = header.path("appId").asText("app-1");
    conf = new SparkConf(false)
        .set("spark.master", "k8s://" + ApiServer.URL)
        .set("spark.app.name", "oracle")
        .set("spark.app.id", appId)
        .set("spark.driver.host", "driver")
        .set("spark.driver.port", "7078")
        .set("spark.kubernetes.container.image", "img")
        .set("spark.kubernetes.executor.podNamePrefix", "exec")
        .set("spark.dynamicAllocation.enabled", "true");
    header.path("conf").properties().forEach(entry -> conf.set(entry.getKey(), entry.getValue().asText()));
    JsonNode options = header.path("options");
    api.hasDriverPod = options.path("driverPod").asBoolean(true);
    api.claimsCreatedAt = options.path("pvcCreationTimestamp").asText("1970-01-01T00:00:00Z");
    // Both are one for the whole JVM. Only KubernetesClusterManager sets the second; these are its initial values.
    ResourceProfile$.MODULE$.clearDefaultProfile();
    PodReader.settings(false, PodReader.SPARK_CONTAINER);
    KubernetesExecutorBuilder builder =
        options.path("builder").asText("mini").equals("real") ? new KubernetesExecutorBuilder() : new BareBuilder();
    SecurityManager security =
        new SecurityManager(conf, Option.empty(), SecurityManager.$lessinit$greater$default$3());
    allocator = new ExecutorPodsAllocator(conf, security, builder, api.client(), store, clock);
    allocator.start(appId, scheduler);
    tellRequests();
  }

  /** Pods with nothing but what Spark looks for: a hundred times faster than the real builder. */
  private static final class BareBuilder extends KubernetesExecutorBuilder {
    @Override
    public KubernetesExecutorSpec buildFromFeatures(
        KubernetesExecutorConf conf, SecurityManager security, KubernetesClient client, ResourceProfile profile) {
      var pod = new PodBuilder().withNewMetadata()
          .withName("exec-" + conf.executorId())
          .addToLabels("spark-exec-id", conf.executorId())
          .addToLabels("spark-app-selector", conf.appId())
          .addToLabels("spark-role", "executor")
          .addToLabels("spark-exec-resourceprofile-id", Integer.toString(profile.id()))
          .endMetadata().withNewSpec().endSpec().build();
      var container = new ContainerBuilder().withName(PodReader.SPARK_CONTAINER).withImage("x").build();
      return new KubernetesExecutorSpec(new SparkPod(pod, container), Json.seq(List.of()));
    }
  }

  private int refusal(ApiServer.Request request) {
    if (request.what().equals("POST pods") && failCreates > 0) {
      failCreates--;
      return failCode;
    }
    if (request.what().equals("POST " + CLAIMS) && failClaims > 0) {
      failClaims--;
      return failCode;
    }
    if (request.method.equals("DELETE") && failDeletes > 0) {
      failDeletes--;
      return failCode;
    }
    return 0;
  }

  @Override
  public void step(JsonNode line) {
    if (line.has("at")) {
      clock.setTime(line.get("at").asLong());
    }
    failCreates = line.path("failCreates").asInt(failCreates);
    failClaims = line.path("failPvcs").asInt(failClaims);
    failDeletes = line.path("failDeletes").asInt(failDeletes);
    failCode = line.path("failCode").asInt(failCode);
    if (line.has("knownIds")) {
      List<String> known = new ArrayList<>();
      line.get("knownIds").forEach(id -> known.add(id.asText()));
      scheduler.know(known);
    }
    if (line.has("targets")) {
      expect(line.get("targets"), line.path("deliverOnNotify").asBoolean(true));
    }
    if (line.has("snapshots")) {
      List<ExecutorPodsSnapshot> batch = new ArrayList<>();
      for (JsonNode pods : line.get("snapshots")) {
        batch.add(PodReader.snapshot(PodReader.pods(pods, appId), snapshots++));
      }
      deliver(batch);
    }
    if (line.has("isDeleted")) {
      ObjectNode node = at();
      ObjectNode answers = node.putObject("isDeleted");
      line.get("isDeleted").forEach(id -> answers.put(id.asText(), allocator.isDeleted(id.asText())));
      out.accept(node);
    }
    if (line.path("stop").asBoolean()) {
      allocator.stop(appId);
    }
    tellRequests();
    tellState();
  }

  /** Sets targets. Where the allocator then asks for a delivery at once, the store would make an empty one. */
  private void expect(JsonNode targets, boolean deliver) {
    List<Tuple2<ResourceProfile, Object>> expected = new ArrayList<>();
    for (Map.Entry<String, JsonNode> entry : targets.properties()) {
      expected.add(new Tuple2<>(profile(Integer.parseInt(entry.getKey())), entry.getValue().asInt()));
    }
    int before = store.notified;
    allocator.setTotalExpectedExecutors(
        Map$.MODULE$.<ResourceProfile, Object>from(CollectionConverters.asScala(expected)));
    if (deliver && store.notified > before) {
      deliver(List.of());
    }
  }

  private ResourceProfile profile(int id) {
    return profiles.computeIfAbsent(id, key -> {
      if (key == 0) {
        return ResourceProfile$.MODULE$.getOrCreateDefaultProfile(conf);
      }
      ExecutorResourceRequests executor = new ExecutorResourceRequests().cores(1 + key % 4).memory("1g");
      ResourceProfile made =
          new ResourceProfile(executor.requests(), new TaskResourceRequests().cpus(1).requests());
      made.setResourceProfileId(key);
      return made;
    });
  }

  private void deliver(List<ExecutorPodsSnapshot> batch) {
    try {
      store.deliver(Json.seq(batch));
    } catch (Exception e) {
      tellRequests();
      out.accept(at().put("threw", e.getClass().getName() + ": " + e.getMessage()));
    }
  }

  private ObjectNode at() {
    return Json.object().put("at", clock.getTimeMillis());
  }

  /** The requests since the last time, in order; pods created one after the other share a line. */
  private void tellRequests() {
    ArrayNode creates = null;
    for (ApiServer.Request request : requests) {
      if (request.what().equals("POST pods")) {
        creates = creates == null ? Json.MAPPER.createArrayNode() : creates;
        creates.add(created(request));
      } else {
        creates = tell(creates);
        out.accept(told(request));
      }
    }
    tell(creates);
    requests.clear();
  }

  private ArrayNode tell(ArrayNode creates) {
    if (creates != null) {
      ObjectNode node = at();
      node.set("create", creates);
      out.accept(node);
    }
    return null;
  }

  private static ObjectNode created(ApiServer.Request request) {
    JsonNode labels = request.body.path("metadata").path("labels");
    ObjectNode pod = Json.object()
        .put("id", labels.path("spark-exec-id").asInt())
        .put("rp", labels.path("spark-exec-resourceprofile-id").asInt());
    if (request.code >= 300) {
      pod.put("failed", request.code);
    }
    for (JsonNode volume : request.body.path("spec").path("volumes")) {
      if (volume.has("persistentVolumeClaim")) {
        pod.withArray("pvcs").add(volume.path("persistentVolumeClaim").path("claimName").asText());
      }
    }
    return pod;
  }

  private ObjectNode told(ApiServer.Request request) {
    ObjectNode node = at();
    String selector = request.query.get("labelSelector");
    if (CLAIMS.equals(request.collection)) {
      JsonNode metadata = request.body == null ? Json.object() : request.body.path("metadata");
      if (request.method.equals("POST")) {
        node.put("pvcCreate", metadata.path("name").asText());
        node.put("owner", metadata.path("ownerReferences").path(0).path("name").asText());
      } else {
        String method = request.method.charAt(0) + request.method.substring(1).toLowerCase(java.util.Locale.ROOT);
        node.put("pvc" + method, request.name == null ? CLAIMS : request.name);
      }
    } else if (selector != null && request.what().equals("DELETE pods")) {
      ArrayNode ids = node.putArray("delete");
      for (String term : ApiServer.terms(selector)) {
        if (term.startsWith("spark-exec-id in")) {
          ApiServer.values(term).forEach(id -> ids.add(Long.parseLong(id)));
        }
      }
      String fields = request.query.get("fieldSelector");
      node.put("phaseSelector", fields == null ? null : fields.replaceFirst("^status\\.phase==?", ""));
    } else {
      String query = request.query.isEmpty() ? "" : "?" + request.query;
      return node.put("http", request.method + " " + request.path + query).put("code", request.code);
    }
    return request.code < 300 ? node : node.put("failed", request.code);
  }

  private void tellState() {
    ObjectNode state = Json.object();
    ArrayNode created = state.putArray("newlyCreatedExecutors"); // [id, profile, when], in the order of creation
    CollectionConverters.asJava(allocator.newlyCreatedExecutors()).forEach((id, made) ->
        created.addArray().add((Long) id).add((Integer) made._1()).add((Long) made._2()));
    ArrayNode joined = state.putArray("schedulerKnownNewlyCreatedExecs");
    CollectionConverters.asJava(allocator.schedulerKnownNewlyCreatedExecs()).forEach((id, profile) ->
        joined.addArray().add((Long) id).add((Integer) profile));
    TreeSet<Long> deleted = new TreeSet<>();
    CollectionConverters.asJava(allocator.deletedExecutorIds()).forEach(id -> deleted.add((Long) id));
    deleted.forEach(state.putArray("deletedExecutorIds")::add);
    state.put("numOutstandingPods", allocator.numOutstandingPods().get());
    state.put("nextId", allocator.EXECUTOR_ID_COUNTER().get());
    state.put("pvcCounter", allocator.PVC_COUNTER().get());
    state.put("failedCreations", allocator.totalFailedPodCreations().get());
    state.put("notified", store.notified);
    ObjectNode node = at();
    node.set("state", state);
    out.accept(node);
  }
}
