package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ThreadPoolExecutor;
import org.apache.spark.ExpireDeadHosts$;
import org.apache.spark.Heartbeat;
import org.apache.spark.HeartbeatReceiver;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskSchedulerIsSet$;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.rpc.ThreadSafeRpcEndpoint;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.scheduler.ExecutorKilled$;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages;
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.ManualClock;
import scala.Option;
import scala.Tuple2;
import scala.concurrent.Future;
import scala.concurrent.Future$;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * What the driver does with executors that fall silent, leave by themselves, or are on a host that must go: scenarios from
 * standard input, one JSON object a line, answers to standard output.
 *
 * <p>Real are HeartbeatReceiver, CoarseGrainedSchedulerBackend with its DriverEndpoint, the task scheduler, the listener bus and
 * the RPC environment of a SparkContext (master local). Scripted are the receiver's clock, its looks (its own timer does
 * nothing within the minute), the executors behind their references, and doKillExecutors, which removes executors as
 * KubernetesClusterSchedulerBackend does.
 *
 * <p>{"conf": {..}, "lines": [[at, what, argument, ..], ..]}; what: register (id, host), beat (id), look, kill (ids), decommission
 * (ids), killHost (host), decommissionHost (host), exits (id, message). The answer: for each line the list of what happened.
 */
public final class SilenceTable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ClassTag<Object> ANY = ClassTag$.MODULE$.apply(Object.class);

  private final SparkContext context;
  private final ManualClock clock = new ManualClock(0);
  private final List<List<Object>> said = Collections.synchronizedList(new ArrayList<>());
  private final Backend backend;
  private final HeartbeatReceiver receiver;
  private final RpcEndpointRef beats;

  private SilenceTable(JsonNode settings) throws Exception {
    SparkConf conf = new SparkConf(false).setMaster("local[1]").setAppName("judge").set("spark.ui.enabled", "false");
    settings.fields().forEachRemaining(one -> conf.set(one.getKey(), one.getValue().asText()));
    context = new SparkContext(conf);
    backend = new Backend((TaskSchedulerImpl) context.taskScheduler(), context.env().rpcEnv());
    Method set = SparkContext.class.getDeclaredMethod(
        "_schedulerBackend_$eq", org.apache.spark.scheduler.SchedulerBackend.class);
    set.setAccessible(true);
    set.invoke(context, backend);
    context.listenerBus().addToSharedQueue(new SparkListener() {
      @Override public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
        said.add(List.of("removed", event.executorId(), event.reason()));
      }
    });
    receiver = new HeartbeatReceiver(context, clock);
    beats = context.env().rpcEnv().setupEndpoint("judged-heartbeats", receiver);
    beats.askSync(TaskSchedulerIsSet$.MODULE$, ANY);
  }

  /** The backend of a cluster manager that kills as Kubernetes' does. */
  private final class Backend extends CoarseGrainedSchedulerBackend {
    Backend(TaskSchedulerImpl scheduler, RpcEnv env) { super(scheduler, env); }

    @Override public Future<Object> doKillExecutors(scala.collection.immutable.Seq<String> ids) {
      List<Object> kill = new ArrayList<>(List.of("kill"));
      for (String id : CollectionConverters.asJava(ids)) {
        // executorsPendingToRemove: whether its end is no failure
        kill.add(List.of(id, executorsPendingToRemove().apply(id)));
        removeExecutor(id, ExecutorKilled$.MODULE$);
      }
      said.add(kill);
      return Future$.MODULE$.successful(true);
    }

    @Override public scala.collection.immutable.Seq<String> decommissionExecutors(
        Tuple2<String, ExecutorDecommissionInfo>[] executors, boolean adjust, boolean byExecutor) {
      List<Object> call = new ArrayList<>(List.of("decommission", adjust, byExecutor));
      for (Tuple2<String, ExecutorDecommissionInfo> one : executors) call.add(List.of(one._1(), one._2().message()));
      said.add(call);
      return super.decommissionExecutors(executors, adjust, byExecutor);
    }

    @Override public Future<Object> doRequestTotalExecutors(
        scala.collection.immutable.Map<org.apache.spark.resource.ResourceProfile, Object> totals) {
      said.add(List.of("request", totals.size()));
      return Future$.MODULE$.successful(true);
    }
  }

  /** An executor, as far as the driver's reference to it goes. */
  private static final class Executor implements ThreadSafeRpcEndpoint {
    private final RpcEnv env;
    Executor(RpcEnv env) { this.env = env; }
    @Override public RpcEnv rpcEnv() { return env; }
  }

  private void line(JsonNode line) throws Exception {
    clock.setTime(line.get(0).asLong());
    String what = line.get(1).asText(), first = line.path(2).asText();
    RpcEndpointRef endpoint = backend.driverEndpoint();
    switch (what) {
      case "register" -> {
        RpcEnv env = context.env().rpcEnv();
        RpcEndpointRef executor = env.setupEndpoint("executor-" + first, new Executor(env));
        endpoint.askSync(new CoarseGrainedClusterMessages.RegisterExecutor(first, executor, line.get(3).asText(), 1,
            scala.collection.immutable.Map$.MODULE$.empty(), scala.collection.immutable.Map$.MODULE$.empty(),
            scala.collection.immutable.Map$.MODULE$.empty(), 0), ANY);
        endpoint.send(new CoarseGrainedClusterMessages.LaunchedExecutor(first));
      }
      case "beat" -> beat(first);
      case "look" -> beats.askSync(ExpireDeadHosts$.MODULE$, ANY);
      case "kill" -> backend.killExecutors(ids(line), false, false, false);
      case "decommission" -> {
        @SuppressWarnings("unchecked")
        Tuple2<String, ExecutorDecommissionInfo>[] executors = new Tuple2[line.size() - 2];
        for (int i = 2; i < line.size(); i++)
          executors[i - 2] = new Tuple2<>(line.get(i).asText(), new ExecutorDecommissionInfo("bye", Option.empty()));
        backend.decommissionExecutors(executors, false, false);
      }
      case "killHost" -> backend.killExecutorsOnHost(first);
      case "decommissionHost" -> backend.decommissionExecutorsOnHost(first);
      case "exits" -> endpoint.send(new CoarseGrainedClusterMessages.RemoveExecutor(
          first, new ExecutorLossReason(line.get(3).asText())));
      default -> throw new IllegalArgumentException(what);
    }
    settle();
  }

  private void beat(String executor) {
    @SuppressWarnings({"unchecked", "rawtypes"})
    Tuple2<Object, scala.collection.immutable.Seq<org.apache.spark.util.AccumulatorV2<?, ?>>>[] none = new Tuple2[0];
    BlockManagerId manager = BlockManagerId.apply(executor, "host", 1, Option.empty());
    beats.askSync(new Heartbeat(executor, none, manager, new scala.collection.mutable.HashMap<>()), ANY);
  }

  private static scala.collection.immutable.Seq<String> ids(JsonNode line) {
    List<String> ids = new ArrayList<>();
    for (int i = 2; i < line.size(); i++) ids.add(line.get(i).asText());
    return CollectionConverters.asScala(ids).toList();
  }

  /** Wait until everything that was sent is dealt with, and what that sent. */
  private void settle() throws Exception {
    Field field = HeartbeatReceiver.class.getDeclaredField("killExecutorThread");
    field.setAccessible(true);
    ThreadPoolExecutor killer = (ThreadPoolExecutor) field.get(receiver);
    for (int round = 0; round < 4; round++) {
      killer.submit(() -> {}).get();
      backend.driverEndpoint().askSync(new CoarseGrainedClusterMessages.IsExecutorAlive("~"), ANY);
      context.listenerBus().waitUntilEmpty();
      beat("~");
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String text = lines.readLine(); text != null; text = lines.readLine()) {
      if (text.isBlank()) continue;
      JsonNode scenario = JSON.readTree(text);
      SilenceTable judged = new SilenceTable(scenario.path("conf"));
      ArrayNode answers = JSON.createArrayNode();
      try {
        for (JsonNode line : scenario.get("lines")) {
          judged.line(line);
          answers.add(JSON.valueToTree(new ArrayList<>(judged.said)));
          judged.said.clear();
        }
      } finally {
        judged.context.stop();
      }
      System.out.println(answers);
    }
  }
}
