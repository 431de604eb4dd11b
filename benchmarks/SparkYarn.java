package podtide.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.net.DNSToSwitchMapping;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.LocalResource;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;
import org.apache.hadoop.yarn.client.api.impl.AMRMClientImpl;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.util.RackResolver;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.yarn.ContainerLocalityPreferences;
import org.apache.spark.deploy.yarn.LocalityPreferredContainerPlacementStrategy;
import org.apache.spark.deploy.yarn.SparkRackResolver;
import org.apache.spark.deploy.yarn.YarnAllocator;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfile$;
import org.apache.spark.rpc.RpcAddress;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcTimeout;
import org.apache.spark.util.ManualClock;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * What real Spark takes on YARN, beside what podtide takes for the same.
 *
 * <pre>
 *   SparkYarn placement CONTAINERS HOSTS ROUNDS   localityOfRequestedContainers
 *   SparkYarn beat CONTAINERS HOSTS ROUNDS        allocateResources with so many missing (0 hosts: no hints), then
 *                                                 with all of them cancelled
 *   SparkYarn matching CONTAINERS HOSTS ROUNDS    handleAllocatedContainers of as many as are wanted, launches included
 *   SparkYarn round RUNNING CHANGED ROUNDS        allocateResources where some containers ended and as many came
 * </pre>
 *
 * <p>YarnAllocator works over Hadoop's own AMRMClientImpl; behind that the resource manager says what this program wants.
 * Containers are not launched (spark.yarn.launchContainers=false). The first rounds, a quarter of them and one at least, are
 * warm-up.
 * Output: one JSON object a line, {@code {"what":..,"ms":..}}: the median of the thread's CPU time.
 */
public final class SparkYarn {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final ApplicationAttemptId APP =
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);
  private static final int TASKS_EACH = 4;

  private SparkYarn() {}

  /** Addresses rather than names: Hadoop asks the name service for names, whatever the topology script knows. */
  private static String host(int number) {
    return "10.0." + number / 40 + "." + number % 40;
  }

  /** The topology script: forty hosts to a rack. */
  public static final class Racks implements DNSToSwitchMapping {
    @Override
    public List<String> resolve(List<String> names) {
      List<String> racks = new ArrayList<>(names.size());
      for (String name : names) {
        racks.add("/rack" + name.substring(0, name.lastIndexOf('.')));
      }
      return racks;
    }

    @Override
    public void reloadCachedMappings() {}

    @Override
    public void reloadCachedMappings(List<String> names) {}
  }

  /** The resource manager: says once what was prepared, nothing otherwise. */
  private static final class Manager implements ApplicationMasterProtocol {
    List<Container> allocated = new ArrayList<>();
    List<ContainerStatus> completed = new ArrayList<>();

    @Override
    public AllocateResponse allocate(AllocateRequest request) {
      AllocateResponse said =
          AllocateResponse.newInstance(
              0, completed, allocated, new ArrayList<>(), Resource.newInstance(0, 0), null, 100, null, new ArrayList<>());
      allocated = new ArrayList<>();
      completed = new ArrayList<>();
      return said;
    }

    @Override
    public RegisterApplicationMasterResponse registerApplicationMaster(RegisterApplicationMasterRequest request) {
      throw new UnsupportedOperationException();
    }

    @Override
    public FinishApplicationMasterResponse finishApplicationMaster(FinishApplicationMasterRequest request) {
      throw new UnsupportedOperationException();
    }
  }

  private static final class Client extends AMRMClientImpl<ContainerRequest> {
    Client(Manager manager) {
      rmClient = manager;
    }
  }

  /** The driver: takes everything, and has given no executor id yet. */
  private static final class Driver extends RpcEndpointRef {
    Driver(SparkConf conf) {
      super(conf);
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
    public void send(Object message) {}

    @Override
    @SuppressWarnings("unchecked")
    public <T> scala.concurrent.Future<T> ask(Object message, RpcTimeout timeout, ClassTag<T> kind) {
      return (scala.concurrent.Future<T>) scala.concurrent.Future$.MODULE$.successful((Object) 0);
    }
  }

  private static SparkConf conf() {
    return new SparkConf(false)
        .set("spark.master", "yarn")
        .set("spark.app.name", "bench")
        .set("spark.executor.instances", "0")
        .set("spark.executor.cores", Integer.toString(TASKS_EACH))
        .set("spark.yarn.launchContainers", "false");
  }

  private static YarnConfiguration yarn() throws ReflectiveOperationException {
    YarnConfiguration conf = new YarnConfiguration();
    conf.setClass("net.topology.node.switch.mapping.impl", Racks.class, DNSToSwitchMapping.class);
    Method reset = RackResolver.class.getDeclaredMethod("reset");
    reset.setAccessible(true);
    reset.invoke(null);
    RackResolver.init(conf);
    return conf;
  }

  /** Ten to thirty tasks on each host. */
  private static scala.collection.immutable.Map<String, Object> hints(int hosts) {
    List<Tuple2<String, Object>> pairs = new ArrayList<>();
    for (int i = 0; i < hosts; i++) {
      pairs.add(new Tuple2<>(host(i), (Object) (10 + i * 7 % 21)));
    }
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(pairs));
  }

  private static <K, V> scala.collection.immutable.Map<K, V> of(K key, V value) {
    List<Tuple2<K, V>> pairs = Collections.singletonList(new Tuple2<>(key, value));
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(pairs));
  }

  private interface Timed {
    /** One round; prepares itself, and adds what it took in nanoseconds. */
    void round(Map<String, List<Long>> took) throws Exception;
  }

  private static void measure(int rounds, Timed work) throws Exception {
    Map<String, List<Long>> took = new java.util.LinkedHashMap<>();
    for (int i = 0; i < rounds; i++) {
      if (i == Math.max(1, rounds / 4)) {
        took.clear();
      }
      work.round(took);
    }
    took.forEach(
        (what, times) -> {
          Collections.sort(times);
          System.out.println("{\"what\":\"" + what + "\",\"ms\":" + times.get(times.size() / 2) / 1e6 + "}");
        });
  }

  private static void timed(Map<String, List<Long>> took, String what, Runnable work) {
    long begun = THREADS.getCurrentThreadCpuTime();
    work.run();
    took.computeIfAbsent(what, name -> new ArrayList<>()).add(THREADS.getCurrentThreadCpuTime() - begun);
  }

  /** One application. */
  private static final class Application {
    final Manager manager = new Manager();
    final SparkConf conf = conf();
    final ResourceProfile profile = ResourceProfile$.MODULE$.getOrCreateDefaultProfile(conf);
    final YarnAllocator allocator;
    long containers = 0;

    Application(YarnConfiguration yarn) {
      scala.collection.immutable.Map<String, LocalResource> resources =
          scala.collection.immutable.Map$.MODULE$.from(
              CollectionConverters.asScala(new ArrayList<Tuple2<String, LocalResource>>()));
      allocator =
          new YarnAllocator(
              "spark://driver", new Driver(conf), yarn, conf, new Client(manager), APP, null, resources,
              new SparkRackResolver(yarn), new ManualClock(0));
    }

    void want(int executors, int hosts) {
      allocator.requestTotalExecutorsWithPreferredLocalities(
          of(profile, (Object) executors), of((Object) 0, (Object) (executors * TASKS_EACH)), of((Object) 0, hints(hosts)),
          scala.collection.immutable.Set$.MODULE$.<String>empty());
    }

    Container container(int host) {
      Resource resource = allocator.rpIdToYarnResource().get((Object) 0);
      return Container.newInstance(
          ContainerId.newContainerId(APP, ++containers), NodeId.newInstance(host(host), 8041), "http", resource,
          Priority.newInstance(0), null);
    }
  }

  private static void placement(int containers, int hosts, int rounds) throws Exception {
    YarnConfiguration yarn = yarn();
    SparkConf conf = conf();
    ResourceProfile profile = ResourceProfile$.MODULE$.getOrCreateDefaultProfile(conf);
    LocalityPreferredContainerPlacementStrategy strategy =
        new LocalityPreferredContainerPlacementStrategy(conf, yarn, new SparkRackResolver(yarn));
    scala.collection.immutable.Map<String, Object> hints = hints(hosts);
    scala.collection.mutable.HashMap<String, scala.collection.mutable.Set<ContainerId>> there =
        new scala.collection.mutable.HashMap<>();
    scala.collection.immutable.Seq<ContainerRequest> pending =
        CollectionConverters.asScala(new ArrayList<ContainerRequest>()).toSeq();
    measure(
        rounds,
        took ->
            timed(
                took,
                "placement",
                () -> {
                  ContainerLocalityPreferences[] placed =
                      strategy.localityOfRequestedContainers(
                          containers, containers * TASKS_EACH, hints, there, pending, profile);
                  if (placed.length != containers || placed[containers - 1].nodes() == null) {
                    throw new IllegalStateException("not all of them are localized");
                  }
                }));
  }

  private static void beat(int containers, int hosts, int rounds) throws Exception {
    YarnConfiguration yarn = yarn();
    measure(
        rounds,
        took -> {
          Application application = new Application(yarn);
          application.want(containers, hosts);
          timed(took, "beat", application.allocator::allocateResources);
          application.want(0, hosts);
          timed(took, "cancel", application.allocator::allocateResources);
        });
  }

  private static void matching(int containers, int hosts, int rounds) throws Exception {
    YarnConfiguration yarn = yarn();
    measure(
        rounds,
        took -> {
          Application application = new Application(yarn);
          application.want(containers, hosts);
          application.allocator.allocateResources();
          List<Container> given = new ArrayList<>();
          for (int i = 0; i < containers; i++) {
            given.add(application.container(i % Math.max(hosts, 2_000)));
          }
          scala.collection.immutable.Seq<Container> all = CollectionConverters.asScala(given).toSeq();
          timed(took, "matching", () -> application.allocator.handleAllocatedContainers(all));
          if (application.allocator.getNumExecutorsRunning() != containers) {
            throw new IllegalStateException("not all of them run");
          }
        });
  }

  private static void round(int running, int changed, int rounds) throws Exception {
    Application application = new Application(yarn());
    application.want(running, 0);
    application.allocator.allocateResources();
    List<Long> alive = new ArrayList<>();
    for (int i = 0; i < running; i++) {
      application.manager.allocated.add(application.container(i % 2_000));
      alive.add(application.containers);
    }
    application.allocator.allocateResources();
    int[] oldest = {0};
    measure(
        rounds,
        took -> {
          for (int i = 0; i < changed; i++) {
            ContainerId id = ContainerId.newContainerId(APP, alive.get(oldest[0]++));
            application.manager.completed.add(ContainerStatus.newInstance(id, ContainerState.COMPLETE, "", -102));
            if (application.allocator.getNumExecutorsRunning() < running) {
              application.manager.allocated.add(application.container((int) (application.containers % 2_000)));
              alive.add(application.containers);
            }
          }
          timed(took, "round", application.allocator::allocateResources);
        });
    if (application.allocator.getNumExecutorsRunning() != running - changed) {
      throw new IllegalStateException("others run: " + application.allocator.getNumExecutorsRunning());
    }
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 4) {
      System.err.println("usage: SparkYarn placement|beat|matching|round N N ROUNDS");
      System.exit(2);
    }
    int[] numbers = Arrays.stream(arguments).skip(1).mapToInt(Integer::parseInt).toArray();
    switch (arguments[0]) {
      case "placement":
        placement(numbers[0], numbers[1], numbers[2]);
        break;
      case "beat":
        beat(numbers[0], numbers[1], numbers[2]);
        break;
      case "matching":
        matching(numbers[0], numbers[1], numbers[2]);
        break;
      case "round":
        round(numbers[0], numbers[1], numbers[2]);
        break;
      default:
        throw new IllegalArgumentException(arguments[0]);
    }
    System.exit(0);
  }
}
