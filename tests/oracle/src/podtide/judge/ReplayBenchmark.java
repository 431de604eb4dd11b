package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkFirehoseListener;
import org.apache.spark.deploy.history.EventLogFileReader;
import org.apache.spark.scheduler.ReplayListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import scala.runtime.AbstractFunction1;

/**
 * What Spark itself takes for the work that podtide does.
 *
 * <pre>
 *   ReplayBenchmark replay FILE PASSES   ReplayListenerBus into ExecutorAllocationListener and ExecutorMonitor
 *   ReplayBenchmark count FILE           how many events of each kind Spark delivers from the file
 *   ReplayBenchmark idle-tick N...       schedule() with N executors, all busy, or all idle and held by the minimum
 * </pre>
 *
 * <p>Output: one JSON object a line. {@code cpu_s} is the CPU time of the replaying thread alone,
 * {@code process_cpu_s} includes the garbage collector's and the compiler's threads.
 */
public final class ReplayBenchmark {
  private static final OperatingSystemMXBean PROCESS =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
  private static final double WARM_UP_S = 1.5;
  private static final double MEASURE_S = 1.0;

  private ReplayBenchmark() {}

  public static void main(String[] arguments) throws IOException {
    switch (arguments.length > 1 ? arguments[0] : "") {
      case "replay":
        replay(arguments[1], Integer.parseInt(arguments[2]));
        break;
      case "count":
        count(arguments[1]);
        break;
      case "idle-tick":
        for (int i = 1; i < arguments.length; i++) {
          tick("busy", Integer.parseInt(arguments[i]));
          tick("idle", Integer.parseInt(arguments[i]));
        }
        break;
      default:
        System.err.println("usage: ReplayBenchmark replay FILE PASSES | count FILE | idle-tick N...");
        System.exit(2);
    }
    System.exit(0);
  }

  /** Keeps the scripted backend's list of active executors as the log goes by, and counts tasks. */
  private static final class Backend extends SparkListener {
    private final ScriptedClient client;
    long starts;
    long ends;

    Backend(ScriptedClient client) {
      this.client = client;
    }

    @Override
    public void onExecutorAdded(SparkListenerExecutorAdded event) {
      client.registered(event.executorId());
    }

    @Override
    public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
      client.gone(event.executorId());
    }

    @Override
    public void onTaskStart(SparkListenerTaskStart event) {
      starts++;
    }

    @Override
    public void onTaskEnd(SparkListenerTaskEnd event) {
      ends++;
    }
  }

  /** Accepts every line and counts them. */
  private static final class Lines extends AbstractFunction1<String, Object> {
    long count;

    @Override
    public Object apply(String line) {
      count++;
      return Boolean.TRUE;
    }
  }

  /** Spark takes any suffix for a codec; a plain file may be called what it likes here. */
  private static InputStream open(String file) throws IOException {
    if (!file.matches(".*\\.(zstd|lz4|lzf|snappy)")) {
      return new BufferedInputStream(new FileInputStream(file), 1 << 20);
    }
    Path path = new Path(new File(file).getAbsoluteFile().toURI());
    FileSystem files = path.getFileSystem(new Configuration());
    return EventLogFileReader.openEventLog(path, files);
  }

  private static void replay(String file, int passes) throws IOException {
    ObjectNode header = header(file);
    for (int pass = 1; pass <= passes; pass++) {
      AllocationDriver driver = new AllocationDriver(header, null);
      Backend backend = new Backend(driver.client);
      ReplayListenerBus bus = new ReplayListenerBus();
      bus.addListener(backend); // before the others: the backend knows of an executor first
      driver.listeners().forEach(bus::addListener);
      Lines lines = new Lines();
      long cpu = cpu();
      long process = PROCESS.getProcessCpuTime();
      long wall = System.nanoTime();
      try (InputStream in = open(file)) {
        bus.replay(in, file, false, lines);
      }
      System.out.println(Json.object()
          .put("pass", pass)
          .put("cpu_s", (cpu() - cpu) / 1e9)
          .put("process_cpu_s", (PROCESS.getProcessCpuTime() - process) / 1e9)
          .put("wall_s", (System.nanoTime() - wall) / 1e9)
          .put("mb", new File(file).length() / 1e6)
          .put("events", lines.count)
          .put("task_starts", backend.starts)
          .put("task_ends", backend.ends));
    }
  }

  /** A scenario header with the log's own Spark properties. */
  private static ObjectNode header(String file) throws IOException {
    ObjectNode header = Json.object();
    ObjectNode conf = header.putObject("conf");
    try (BufferedReader in = new BufferedReader(new InputStreamReader(open(file), StandardCharsets.UTF_8))) {
      String line;
      for (int i = 0; i < 100 && (line = in.readLine()) != null; i++) {
        JsonNode event = Json.MAPPER.readTree(line);
        if (event.path("Event").asText().equals("SparkListenerEnvironmentUpdate")) {
          for (Map.Entry<String, JsonNode> e : event.path("Spark Properties").properties()) {
            if (e.getKey().startsWith("spark.")) {
              conf.put(e.getKey(), e.getValue().asText());
            }
          }
          break;
        }
      }
    }
    return header;
  }

  private static void count(String file) throws IOException {
    Map<String, Long> kinds = new TreeMap<>();
    Lines lines = new Lines();
    ReplayListenerBus bus = new ReplayListenerBus();
    bus.addListener(new SparkFirehoseListener() {
      @Override
      public void onEvent(SparkListenerEvent event) {
        kinds.merge(event.getClass().getSimpleName(), 1L, Long::sum);
      }
    });
    try (InputStream in = open(file)) {
      bus.replay(in, file, false, lines);
    }
    ObjectNode out = Json.object().put("lines", lines.count);
    ObjectNode delivered = out.putObject("delivered");
    kinds.forEach(delivered::put);
    System.out.println(out);
  }

  private static void tick(String kind, int executors) throws IOException {
    boolean idle = kind.equals("idle");
    JsonNode header = Json.MAPPER.readTree("{\"conf\":{\"spark.executor.cores\":\"4\","
        + "\"spark.dynamicAllocation.minExecutors\":\"" + (idle ? executors : 0) + "\","
        + "\"spark.dynamicAllocation.executorIdleTimeout\":\"5s\"}}");
    AllocationDriver driver = new AllocationDriver(header, null);
    driver.post(event("{\"Event\":\"SparkListenerStageSubmitted\",\"Stage Info\":{\"Stage ID\":0,"
        + "\"Stage Attempt ID\":0,\"Stage Name\":\"s\",\"Number of Tasks\":" + (4 * executors + 4) + ","
        + "\"RDD Info\":[],\"Parent IDs\":[],\"Details\":\"\",\"Accumulables\":[],\"Resource Profile Id\":0},"
        + "\"Properties\":{}}"));
    for (int i = 1; i <= executors; i++) {
      driver.post(event("{\"Event\":\"SparkListenerExecutorAdded\",\"Timestamp\":0,\"Executor ID\":\"" + i
          + "\",\"Executor Info\":{\"Host\":\"h\",\"Total Cores\":4,\"Log Urls\":{},\"Attributes\":{},"
          + "\"Resources\":{},\"Resource Profile Id\":0}}"));
      if (!idle) {
        driver.post(event("{\"Event\":\"SparkListenerTaskStart\",\"Stage ID\":0,\"Stage Attempt ID\":0,"
            + "\"Task Info\":{\"Task ID\":" + i + ",\"Index\":" + (i - 1) + ",\"Attempt\":0,\"Launch Time\":0,"
            + "\"Executor ID\":\"" + i + "\",\"Host\":\"h\",\"Locality\":\"PROCESS_LOCAL\","
            + "\"Speculative\":false,\"Getting Result Time\":0,\"Finish Time\":0,\"Failed\":false,"
            + "\"Killed\":false,\"Accumulables\":[]}}"));
      }
    }
    long now = 10_000;
    long until = cpu() + (long) (WARM_UP_S * 1e9);
    while (cpu() < until) {
      driver.clock.setTime(now += 100);
      driver.tick();
    }
    long calls = 0;
    long start = cpu();
    until = start + (long) (MEASURE_S * 1e9);
    while (cpu() < until) {
      for (int i = 0; i < 20; i++, calls++) {
        driver.clock.setTime(now += 100);
        driver.tick();
      }
    }
    System.out.println(Json.object()
        .put("kind", kind)
        .put("executors", executors)
        .put("ms_per_tick", (cpu() - start) / 1e6 / calls));
  }

  private static SparkListenerEvent event(String json) throws IOException {
    return EventReader.read(Json.MAPPER.readTree(json));
  }

  private static long cpu() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }
}
