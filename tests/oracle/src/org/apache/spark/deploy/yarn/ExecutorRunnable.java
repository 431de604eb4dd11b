package org.apache.spark.deploy.yarn;

import java.util.function.Function;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.LocalResource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import scala.Option;
import scala.collection.immutable.Map;

/**
 * Stands before Spark's class of the same name, which would ask a node manager to start an executor.
 *
 * <p>The constructor is Spark's; what {@link #run} does is told from outside.
 */
public class ExecutorRunnable {
  /** What starting an executor throws, by its id; null where it succeeds. One for the whole JVM. */
  public static Function<String, Throwable> fate = executor -> null;

  private final String executor;

  public ExecutorRunnable(
      Option<Container> container, YarnConfiguration conf, SparkConf sparkConf, String masterAddress,
      String executorId, String hostname, int executorMemory, int executorCores, String appId,
      SecurityManager securityMgr, Map<String, LocalResource> localResources, int resourceProfileId) {
    executor = executorId;
  }

  public void run() {
    Throwable end = fate.apply(executor);
    if (end != null) {
      ExecutorRunnable.<RuntimeException>raise(end);
    }
  }

  /** Throws whatever it is, checked or not, as Scala would. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void raise(Throwable thrown) throws T {
    throw (T) thrown;
  }
}
