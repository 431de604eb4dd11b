package podtide.judge;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntUnaryOperator;
import scala.jdk.javaapi.CollectionConverters;

/** Scala collections into JSON. Maps are written in the order of their keys: Spark's own order is that of a hash. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  static ObjectNode object() {
    return MAPPER.createObjectNode();
  }

  static ArrayNode strings(Collection<String> values) {
    ArrayNode array = MAPPER.createArrayNode();
    values.forEach(array::add);
    return array;
  }

  /** Resource profile id to number. */
  static ObjectNode perProfile(scala.collection.Map<Object, Object> map) {
    TreeMap<Integer, Object> sorted = new TreeMap<>();
    CollectionConverters.asJava(map).forEach((profile, value) -> sorted.put((Integer) profile, value));
    ObjectNode node = object();
    sorted.forEach((profile, value) -> node.put(profile.toString(), (Integer) value));
    return node;
  }

  /** Resource profile id to host to number. */
  static ObjectNode perProfileAndHost(
      scala.collection.Map<Object, scala.collection.immutable.Map<String, Object>> map) {
    TreeMap<Integer, scala.collection.immutable.Map<String, Object>> sorted = new TreeMap<>();
    CollectionConverters.asJava(map).forEach((profile, hosts) -> sorted.put((Integer) profile, hosts));
    ObjectNode node = object();
    sorted.forEach((profile, hosts) -> {
      ObjectNode counts = object();
      for (Map.Entry<String, Object> e : new TreeMap<>(CollectionConverters.asJava(hosts)).entrySet()) {
        counts.put(e.getKey(), (Integer) e.getValue());
      }
      node.set(profile.toString(), counts);
    });
    return node;
  }

  static ObjectNode forEach(Collection<Integer> profiles, IntUnaryOperator value) {
    ObjectNode node = object();
    for (int profile : profiles) {
      node.put(Integer.toString(profile), value.applyAsInt(profile));
    }
    return node;
  }

  static <T> scala.collection.immutable.Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
