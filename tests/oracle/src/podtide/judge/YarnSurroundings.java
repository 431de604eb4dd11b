package podtide.judge;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.apache.hadoop.net.DNSToSwitchMapping;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.util.RackResolver;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;
import org.apache.spark.SparkConf;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcTimeout;
import scala.concurrent.Future;
import scala.concurrent.Future$;
import scala.reflect.ClassTag;

/** What stands around the YARN allocator in an application master: racks, driver, pool of launches, log. */
final class YarnSurroundings {
  private YarnSurroundings() {}

  /** The topology script. Hadoop's resolvers and their caches are one for the whole JVM; they stay before it. */
  public static final class Racks implements DNSToSwitchMapping {
    private static final Map<String, String> KNOWN = new HashMap<>();
    private static YarnConfiguration conf;

    /** Forgets what was resolved before, and takes these racks. */
    static YarnConfiguration script(Map<String, String> racks) {
      if (conf == null) {
        conf = new YarnConfiguration();
        conf.setClass("net.topology.node.switch.mapping.impl", Racks.class, DNSToSwitchMapping.class);
      }
      KNOWN.clear();
      KNOWN.putAll(racks);
      try {
        var reset = RackResolver.class.getDeclaredMethod("reset");
        reset.setAccessible(true);
        reset.invoke(null);
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("RackResolver has no reset: is this the Hadoop of Spark 4.3?", e);
      }
      RackResolver.init(conf);
      return conf;
    }

    @Override
    public List<String> resolve(List<String> names) {
      List<String> racks = new ArrayList<>();
      names.forEach(name -> racks.add(KNOWN.getOrDefault(name, "/default-rack")));
      return racks;
    }

    @Override
    public void reloadCachedMappings() {}

    @Override
    public void reloadCachedMappings(List<String> names) {}
  }

  /** The driver: it hears messages, and answers the one question for its last executor id. */
  static final class DriverRef extends RpcEndpointRef {
    private final Consumer<Object> heard;
    private final Integer lastExecutor;

    DriverRef(SparkConf conf, int lastExecutor, Consumer<Object> heard) {
      super(conf);
      this.heard = heard;
      this.lastExecutor = lastExecutor;
    }

    @Override
    public RpcAddress address() {
      return RpcAddress.apply("driver", 7078);
    }

    @Override
    public String name() {
      return "driver";
    }

    @Override
    public void send(Object message) {
      heard.accept(message);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> Future<T> ask(Object message, RpcTimeout timeout, ClassTag<T> type) {
      return (Future<T>) Future$.MODULE$.successful((Object) lastExecutor);
    }
  }

  /** The pool of launches: hands each over with what it is about, and runs none itself. */
  static final class Pool extends ThreadPoolExecutor {
    private final BiConsumer<ObjectNode, Runnable> submitted;
    boolean stopped;

    Pool(BiConsumer<ObjectNode, Runnable> submitted) {
      super(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
      this.submitted = submitted;
    }

    @Override
    public void execute(Runnable launch) {
      submitted.accept(captured(launch), launch);
    }

    @Override
    public List<Runnable> shutdownNow() {
      stopped = true;
      return new ArrayList<>();
    }

    /** The container, id, memory, cores and profile that Spark's closure captured, in the order of its parameters. */
    private static ObjectNode captured(Runnable launch) {
      Field[] fields = launch.getClass().getDeclaredFields();
      List<Field> captured = new ArrayList<>(Arrays.asList(fields));
      captured.removeIf(field -> !field.getName().startsWith("arg$"));
      captured.sort(Comparator.comparingInt(field -> Integer.parseInt(field.getName().substring(4))));
      Container container = null;
      String executor = null;
      List<Integer> numbers = new ArrayList<>();
      try {
        for (Field field : captured) {
          field.setAccessible(true);
          Object value = field.get(launch);
          if (value instanceof Container) {
            container = (Container) value;
          } else if (value instanceof String && executor == null) {
            executor = (String) value;
          } else if (value instanceof Integer) {
            numbers.add((Integer) value);
          }
        }
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("cannot look into a launch: is this Spark 4.3?", e);
      }
      return Json.object()
          .put("id", executor)
          .put("container", container.getId().getContainerId())
          .put("host", container.getNodeId().getHost())
          .put("rp", numbers.get(2))
          .put("memory", numbers.get(0))
          .put("cores", numbers.get(1));
    }
  }

  /** What Spark's classes log at INFO and above, if somebody wants to know. */
  static final class Log extends AbstractAppender {
    private static final List<String> CLASSES = List.of(
        "YarnAllocator", "YarnAllocatorNodeHealthTracker", "LocalityPreferredContainerPlacementStrategy");
    private static final Log LOG = new Log();
    private static ArrayNode lines;

    private Log() {
      super("judge", null, null, true, Property.EMPTY_ARRAY);
      start();
      for (String name : CLASSES) {
        Logger logger = (Logger) LogManager.getLogger(name(name));
        logger.setAdditive(false);
        logger.addAppender(this);
      }
    }

    private static String name(String simple) {
      return "org.apache.spark.deploy.yarn." + simple;
    }

    /** From now on lines are kept, or not. */
    static void keep(boolean wanted) {
      lines = wanted ? Json.MAPPER.createArrayNode() : null;
      CLASSES.forEach(each -> Configurator.setLevel(name(each), wanted ? Level.INFO : Level.OFF));
    }

    /** What was logged since the last time; null if there is nothing. */
    static ArrayNode taken() {
      if (lines == null || lines.isEmpty()) {
        return null;
      }
      ArrayNode taken = lines;
      lines = Json.MAPPER.createArrayNode();
      return taken;
    }

    @Override
    public void append(LogEvent event) {
      if (lines != null) {
        lines.add(event.getLevel() + " " + event.getMessage().getFormattedMessage());
      }
    }
  }
}
