package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.ConfigBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.ToIntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A Kubernetes API server, as much of it as Spark's executor classes use: collections of objects by name in one
 * namespace, with create, get, list by label, delete by name or by selector, and merging patches.
 *
 * <p>It refuses what the scenario says, tells its listener of each request with the code of its answer, and keeps
 * no time of its own. Deletions by selector are answered but change nothing: which pods go, and when, is the
 * scenario's to say.
 */
final class ApiServer {
  static final String URL = "http://127.0.0.1:1"; // nobody listens there: a request that went out would fail
  private static final Pattern PATH =
      Pattern.compile("/(?:api|apis/[^/]+)/v1/namespaces/[^/]+/([^/]+)(?:/([^/]+))?");

  /** One request, and the code that it was answered with. */
  static final class Request {
    String method;
    String path;
    String collection; // null when the path names none
    String name; // null for requests to the collection
    final Map<String, String> query = new LinkedHashMap<>();
    JsonNode body;
    int code;

    /** Method and collection: "GET pods". */
    String what() {
      return method + " " + collection;
    }
  }

  private final Map<String, Map<String, ObjectNode>> objects = new HashMap<>();
  private final ToIntFunction<Request> refusal;
  private final Consumer<Request> listener;
  private final ObjectNode driverPod = Json.object();
  boolean hasDriverPod;
  String claimsCreatedAt = "1970-01-01T00:00:00Z";
  String listVersion = "1";

  /**
   * @param refusal the HTTP status with which to refuse a request, or 0
   * @param listener told of every request once it is answered
   */
  ApiServer(ToIntFunction<Request> refusal, Consumer<Request> listener) {
    this.refusal = refusal;
    this.listener = listener;
    driverPod.put("kind", "Pod").put("apiVersion", "v1");
    driverPod.putObject("metadata").put("namespace", "default").put("uid", "uid-driver")
        .put("creationTimestamp", "1970-01-01T00:00:00Z");
    driverPod.putObject("spec");
    driverPod.putObject("status").put("phase", "Running")
        .putArray("conditions").addObject().put("type", "Ready").put("status", "True");
  }

  /** A client of this server, that does not try anything twice. */
  KubernetesClient client() {
    Config config = new ConfigBuilder(Config.empty())
        .withMasterUrl(URL)
        .withNamespace("default")
        .withRequestRetryBackoffLimit(0)
        .withRequestTimeout(20_000)
        .build();
    return new KubernetesClientBuilder()
        .withConfig(config)
        .withHttpClientFactory(new InProcessHttp.Maker(this::answer))
        .build();
  }

  /** The objects of a collection by name. */
  Map<String, ObjectNode> collection(String name) {
    return objects.computeIfAbsent(name, key -> new LinkedHashMap<>());
  }

  private synchronized InProcessHttp.Answer answer(String method, URI uri, String body) {
    Request request = new Request();
    request.method = method;
    request.path = uri.getPath();
    Matcher path = PATH.matcher(request.path);
    if (path.matches()) {
      request.collection = path.group(1);
      request.name = path.group(2);
    }
    if (uri.getRawQuery() != null) {
      for (String term : uri.getRawQuery().split("&")) {
        String[] pair = term.split("=", 2);
        request.query.put(decoded(pair[0]), pair.length > 1 ? decoded(pair[1]) : "");
      }
    }
    try {
      request.body = body == null || body.isEmpty() ? null : Json.MAPPER.readTree(body);
      JsonNode answer = answer(request);
      listener.accept(request);
      return new InProcessHttp.Answer(request.code, Json.MAPPER.writeValueAsBytes(answer));
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }

  private JsonNode answer(Request request) {
    if (request.collection == null) {
      return status(request, 404, "NotFound");
    }
    int refused = refusal.applyAsInt(request);
    if (refused != 0) {
      return status(request, refused, "Forbidden"); // whatever the code
    }
    Map<String, ObjectNode> there = collection(request.collection);
    ObjectNode one = request.name == null ? null : there.get(request.name);
    if (request.name != null && one == null) {
      if (!request.what().equals("GET pods") || !hasDriverPod) {
        return status(request, 404, "NotFound");
      }
      one = driverPod.deepCopy();
      ((ObjectNode) one.get("metadata")).put("name", request.name);
    }
    request.code = 200;
    switch (request.method) {
      case "POST":
        return create(request, there);
      case "GET":
        return one != null ? one : list(request, there);
      case "DELETE":
        if (request.name != null) {
          there.remove(request.name);
        }
        return status(request, 200, "");
      case "PATCH":
        if (one != null && request.body instanceof ObjectNode) {
          merge(one, (ObjectNode) request.body);
          return one;
        }
        return status(request, 405, "MethodNotAllowed");
      default:
        return status(request, 405, "MethodNotAllowed");
    }
  }

  private ObjectNode create(Request request, Map<String, ObjectNode> there) {
    ObjectNode made = request.body.deepCopy();
    ObjectNode metadata = (ObjectNode) made.get("metadata");
    String name = metadata.path("name").asText();
    boolean claim = request.collection.equals("persistentvolumeclaims");
    metadata.put("uid", "uid-" + name);
    metadata.put("creationTimestamp", claim ? claimsCreatedAt : "1970-01-01T00:00:00Z");
    there.put(name, made);
    request.code = 201;
    return made;
  }

  private ObjectNode list(Request request, Map<String, ObjectNode> there) {
    String kind = request.collection.equals("persistentvolumeclaims") ? "PersistentVolumeClaim" : "Pod";
    ObjectNode answer = Json.object().put("kind", kind + "List").put("apiVersion", "v1");
    answer.putObject("metadata").put("resourceVersion", listVersion);
    ArrayNode items = answer.putArray("items");
    for (ObjectNode one : there.values()) {
      if (selected(one, request.query.getOrDefault("labelSelector", ""))) {
        items.add(one);
      }
    }
    return answer;
  }

  private static boolean selected(ObjectNode object, String selector) {
    JsonNode labels = object.path("metadata").path("labels");
    for (String term : terms(selector)) {
      List<String> values = values(term);
      boolean unwanted = term.contains("!=");
      String label = term.split(unwanted ? "!=" : values.isEmpty() ? "==?" : " in ", 2)[0].trim();
      boolean equal = values.isEmpty()
          ? labels.path(label).asText().equals(term.substring(term.lastIndexOf('=') + 1).trim())
          : values.contains(labels.path(label).asText());
      if (equal == unwanted) {
        return false;
      }
    }
    return true;
  }

  /** The terms of a label selector: commas within parentheses do not part them. */
  static List<String> terms(String selector) {
    List<String> terms = new ArrayList<>();
    for (String term : selector.split(",(?![^(]*\\))")) {
      if (!term.isBlank()) {
        terms.add(term);
      }
    }
    return terms;
  }

  /** The values of a term "label in (a,b)"; none for other terms. */
  static List<String> values(String term) {
    if (!term.contains(" in (")) {
      return List.of();
    }
    return Arrays.asList(term.substring(term.indexOf('(') + 1, term.lastIndexOf(')')).split("\\s*,\\s*"));
  }

  private static ObjectNode status(Request request, int code, String reason) {
    request.code = code;
    return Json.object().put("kind", "Status").put("apiVersion", "v1")
        .put("status", code < 300 ? "Success" : "Failure")
        .put("reason", reason).put("code", code).put("message", "oracle: " + reason);
  }

  private static void merge(ObjectNode into, ObjectNode patch) {
    for (Map.Entry<String, JsonNode> entry : patch.properties()) {
      JsonNode old = into.get(entry.getKey());
      if (old instanceof ObjectNode && entry.getValue() instanceof ObjectNode) {
        merge((ObjectNode) old, (ObjectNode) entry.getValue());
      } else if (entry.getValue().isNull()) {
        into.remove(entry.getKey());
      } else {
        into.set(entry.getKey(), entry.getValue());
      }
    }
  }
}
