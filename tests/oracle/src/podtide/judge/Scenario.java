package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * One scenario while it runs: the header makes the driver, every further line is a step.
 *
 * <p>Whatever a line makes Spark (or the parser) throw becomes an {@code error} object naming the line, and the
 * scenario goes on. A header that Spark rejects ends it: the lines that follow say nothing.
 */
final class Scenario {
  private final Appendable out;
  private AllocationDriver driver;
  private int lines = 1;

  Scenario(JsonNode header, Appendable out) {
    this.out = out;
    try {
      driver = new AllocationDriver(header, this::write);
    } catch (Exception | AssertionError e) { // Spark asserts with errors
      write(Json.object().put("error", "construct: " + e));
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
