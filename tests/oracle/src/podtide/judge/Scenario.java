package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;

/**
 * One scenario while it runs: the header makes the driver of its kind, every further line is a step.
 *
 * <p>Whatever a line makes Spark (or the parser) throw becomes an {@code error} object naming the line, and the
 * scenario goes on. A header that Spark rejects ends it: the lines that follow say nothing. A table of pods has
 * no header: its first row is a row like the others.
 */
final class Scenario {
  static final String TABLE = "podstates";
  static final List<String> KINDS = List.of("eam", "pods", "lifecycle", "store", "poll", TABLE, "yarn");

  private final Appendable out;
  private Driver driver;
  private int lines = 1;

  Scenario(String kind, JsonNode header, Appendable out) {
    this.out = out;
    try {
      driver = open(kind, header);
      if (kind.equals(TABLE)) {
        driver.step(header);
      }
    } catch (Exception | AssertionError e) { // Spark asserts with errors
      write(Json.object().put("error", "construct: " + e));
    }
  }

  private Driver open(String kind, JsonNode header) {
    switch (kind) {
      case "eam":
        return new AllocationDriver(header, this::write)::step;
      case "pods":
        return new PodsDriver(header, this::write);
      case "lifecycle":
        return new LifecycleDriver(header, this::write);
      case "store":
        return new StoreDriver(header, this::write);
      case "poll":
        return new PollDriver(header, this::write);
      case TABLE:
        return new PodTable(this::write);
      case "yarn":
        return new YarnDriver(header, this::write);
      default:
        throw new IllegalArgumentException("no kind of scenario " + kind + "; there are " + KINDS);
    }
  }

  void line(String text) {
    lines++;
    if (driver == null || text.isBlank()) {
      return;
    }
    try {
      driver.step(Json.MAPPER.readTree(text));
    } catch (Exception | AssertionError e) {
      write(Json.object().put("error", "line " + lines + ": " + e));
    }
  }

  private void write(JsonNode node) {
    try {
      out.append(node.toString()).append('\n');
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
