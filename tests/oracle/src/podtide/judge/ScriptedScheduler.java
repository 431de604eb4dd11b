package podtide.judge;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.spark.scheduler.ExecutorLossReason;
import org.apache.spark.scheduler.cluster.k8s.KubernetesClusterSchedulerBackend;
import scala.Tuple2;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import sun.reflect.ReflectionFactory;

/**
 * The scheduler backend as the pods allocator and the lifecycle manager see it: it knows the executors that the
 * scenario says, and tells what is asked of it. No constructor runs, so it needs no SparkContext; everything that
 * those two call is replaced here.
 */
final class ScriptedScheduler extends KubernetesClusterSchedulerBackend {
  private List<String> known;
  private Map<String, Long> registered;
  private Set<String> active;
  private BiConsumer<String, ExecutorLossReason> removed;
  private BiConsumer<String, Boolean> asked;

  private ScriptedScheduler() { // for the compiler
    super(null, null, null, null, null, null, null, null, null);
  }

  /**
   * @param removed told of every removal
   * @param asked told of every question whether an executor is active, and its answer
   */
  static ScriptedScheduler make(BiConsumer<String, ExecutorLossReason> removed, BiConsumer<String, Boolean> asked) {
    try {
      ScriptedScheduler made = (ScriptedScheduler) ReflectionFactory.getReflectionFactory()
          .newConstructorForSerialization(ScriptedScheduler.class, Object.class.getDeclaredConstructor())
          .newInstance();
      made.known = List.of();
      made.registered = Map.of();
      made.active = Set.of();
      made.removed = removed;
      made.asked = asked;
      return made;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("cannot make a scheduler backend", e);
    }
  }

  void know(List<String> executors) {
    known = new ArrayList<>(executors);
  }

  void register(Map<String, Long> executors) {
    registered = new LinkedHashMap<>(executors);
  }

  void activate(Set<String> executors) {
    active = new HashSet<>(executors);
  }

  @Override
  public Seq<String> getExecutorIds() {
    return Json.seq(known);
  }

  @Override
  public scala.collection.immutable.Map<String, Object> getExecutorsWithRegistrationTs() {
    List<Tuple2<String, Object>> pairs = new ArrayList<>();
    registered.forEach((executor, at) -> pairs.add(new Tuple2<>(executor, at)));
    return Map$.MODULE$.<String, Object>from(CollectionConverters.asScala(pairs));
  }

  @Override
  public boolean isExecutorActive(String executor) {
    boolean answer = active.contains(executor);
    asked.accept(executor, answer);
    return answer;
  }

  @Override
  public void doRemoveExecutor(String executor, ExecutorLossReason reason) {
    removed.accept(executor, reason);
  }
}
