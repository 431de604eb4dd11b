package podtide.judge;

import io.fabric8.kubernetes.api.model.Pod;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshot;
import org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStore;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** A snapshots store that leaves deliveries to the scenario, and tells of the lists that a source hands over. */
final class ScriptedStore implements ExecutorPodsSnapshotsStore {
  long interval;
  int notified;
  private Function1<Seq<ExecutorPodsSnapshot>, BoxedUnit> subscriber;
  private final Consumer<List<Pod>> replaced;

  ScriptedStore(Consumer<List<Pod>> replaced) {
    this.replaced = replaced;
  }

  /** Hands snapshots to the one who subscribed; what that throws is thrown. */
  void deliver(Seq<ExecutorPodsSnapshot> snapshots) {
    subscriber.apply(snapshots);
  }

  @Override
  public void addSubscriber(long millis, Function1<Seq<ExecutorPodsSnapshot>, BoxedUnit> onNewSnapshots) {
    interval = millis;
    subscriber = onNewSnapshots;
  }

  @Override
  public void notifySubscribers() {
    notified++;
  }

  @Override
  public void updatePod(Pod pod) {
    throw new UnsupportedOperationException("no source here updates single pods");
  }

  @Override
  public void replaceSnapshot(Seq<Pod> pods) {
    replaced.accept(new ArrayList<>(CollectionConverters.asJava(pods)));
  }

  @Override
  public void stop() {
    // nothing runs
  }
}
