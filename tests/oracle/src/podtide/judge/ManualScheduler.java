package podtide.judge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.Callable;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.RunnableScheduledFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.spark.util.ManualClock;

/**
 * A ScheduledThreadPoolExecutor of one thread on a manual clock, with the rules of the JDK's: what is due first
 * runs first, ties in the order in which they came, a repeated task keeps its place in line and ends when it
 * throws; a shutdown drops repeated tasks and lets delayed ones run.
 */
final class ManualScheduler extends AbstractExecutorService implements ScheduledExecutorService {
  /** One task. Its runs are those of a FutureTask; only when it runs is decided here. */
  private final class Task<V> extends FutureTask<V> implements RunnableScheduledFuture<V> {
    private final long place = places++;
    private final long delay;
    private long due;

    Task(Callable<V> body, long due, long delay) {
      super(body);
      this.due = due;
      this.delay = delay;
    }

    @Override
    public boolean isPeriodic() {
      return delay > 0;
    }

    @Override
    public void run() {
      if (!isPeriodic()) {
        super.run();
      } else if (runAndReset() && !shutdown) {
        due = clock.getTimeMillis() + delay;
        queue.add(this);
      }
    }

    @Override
    public boolean cancel(boolean interrupt) {
      queue.remove(this);
      return super.cancel(interrupt);
    }

    @Override
    public long getDelay(TimeUnit unit) {
      return unit.convert(due - clock.getTimeMillis(), TimeUnit.MILLISECONDS);
    }

    @Override
    public int compareTo(Delayed other) {
      return ORDER.compare(this, (Task<?>) other);
    }
  }

  private static final Comparator<ManualScheduler.Task<?>> ORDER =
      Comparator.<ManualScheduler.Task<?>>comparingLong(task -> task.due).thenComparingLong(task -> task.place);

  private final ManualClock clock;
  private final PriorityQueue<Task<?>> queue = new PriorityQueue<>(ORDER);
  private long places;
  private boolean shutdown;

  ManualScheduler(ManualClock clock) {
    this.clock = clock;
  }

  /** Lets time pass: everything due until then runs, with the clock at its due time. */
  void advance(long until) {
    while (!queue.isEmpty() && queue.peek().due <= until) {
      Task<?> task = queue.poll();
      forward(task.due);
      task.run();
    }
    forward(until);
  }

  private void forward(long time) {
    if (time > clock.getTimeMillis()) {
      clock.setTime(time);
    }
  }

  /** When the repeated task that was made with this handle runs next; null when it never does. */
  Long next(Object handle) {
    return queue.contains(handle) ? (Long) ((Task<?>) handle).due : null;
  }

  /** How many tasks wait that run only once. */
  long waiting() {
    return queue.stream().filter(task -> !task.isPeriodic()).count();
  }

  /** When what is in the queue is due, in order. */
  List<Long> due() {
    List<Long> times = new ArrayList<>();
    queue.stream().sorted(ORDER).forEach(task -> times.add(task.due));
    return times;
  }

  private <V> Task<V> add(Callable<V> body, long delay, long repeat) {
    if (shutdown) {
      throw new RejectedExecutionException("shut down");
    }
    Task<V> task = new Task<>(body, clock.getTimeMillis() + Math.max(0, delay), repeat);
    queue.add(task);
    return task;
  }

  @Override
  public void execute(Runnable body) {
    add(java.util.concurrent.Executors.callable(body), 0, 0);
  }

  @Override
  public ScheduledFuture<?> schedule(Runnable body, long delay, TimeUnit unit) {
    return add(java.util.concurrent.Executors.callable(body), unit.toMillis(delay), 0);
  }

  @Override
  public <V> ScheduledFuture<V> schedule(Callable<V> body, long delay, TimeUnit unit) {
    return add(body, unit.toMillis(delay), 0);
  }

  @Override
  public ScheduledFuture<?> scheduleWithFixedDelay(Runnable body, long initial, long delay, TimeUnit unit) {
    return add(java.util.concurrent.Executors.callable(body), unit.toMillis(initial), unit.toMillis(delay));
  }

  @Override
  public ScheduledFuture<?> scheduleAtFixedRate(Runnable body, long initial, long period, TimeUnit unit) {
    throw new UnsupportedOperationException("Spark schedules with fixed delays only");
  }

  @Override
  public void shutdown() {
    shutdown = true;
    queue.removeIf(Task::isPeriodic);
  }

  @Override
  public List<Runnable> shutdownNow() {
    shutdown = true;
    List<Runnable> left = new ArrayList<>(queue);
    queue.clear();
    return left;
  }

  @Override
  public boolean isShutdown() {
    return shutdown;
  }

  @Override
  public boolean isTerminated() {
    return shutdown && queue.isEmpty();
  }

  /** Waiting moves the clock: what is due within the time runs. */
  @Override
  public boolean awaitTermination(long timeout, TimeUnit unit) {
    long end = clock.getTimeMillis() + unit.toMillis(timeout);
    while (!queue.isEmpty() && queue.peek().due <= end) {
      advance(Math.max(queue.peek().due, clock.getTimeMillis()));
    }
    if (!queue.isEmpty()) {
      forward(end);
    }
    return queue.isEmpty();
  }
}
