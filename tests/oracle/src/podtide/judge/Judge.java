package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/**
 * Asks real Spark what it would decide.
 *
 * <pre>
 *   Judge [--kind K] [--out DIR] PATH...   X.jsonl(.gz) -> X.out.jsonl(.gz); a folder stands for its scenarios
 *   Judge [--kind K] --serve               a line in, its output lines out, then a line with a single dot;
 *                                          a line with "conf" opens a new scenario
 * </pre>
 *
 * <p>All scenarios of a call are of one kind ({@link Scenario#KINDS}; eam unless told): several kinds share
 * settings of Spark's that are one for the whole JVM.
 */
public final class Judge {
  private Judge() {}

  public static void main(String[] arguments) throws IOException {
    String kind = "eam";
    Path folder = null;
    boolean serve = false;
    List<Path> scenarios = new ArrayList<>();
    for (int i = 0; i < arguments.length; i++) {
      boolean followed = i + 1 < arguments.length;
      if (arguments[i].equals("--serve")) {
        serve = true;
      } else if (arguments[i].equals("--kind") && followed) {
        kind = arguments[++i];
      } else if (arguments[i].equals("--out") && followed) {
        folder = Files.createDirectories(Path.of(arguments[++i]));
      } else {
        collect(Path.of(arguments[i]), scenarios);
      }
    }
    if (!Scenario.KINDS.contains(kind) || serve != scenarios.isEmpty()) {
      System.err.println("usage: Judge [--kind K] (--serve | [--out DIR] PATH...), K of " + Scenario.KINDS);
      System.exit(2);
    }
    if (serve) {
      serve(kind);
    } else {
      files(kind, folder, scenarios);
    }
    System.exit(0); // Spark leaves threads behind
  }

  private static void serve(String kind) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), 1 << 16);
    Scenario scenario = null;
    String text;
    while ((text = in.readLine()) != null) {
      JsonNode header = header(text, scenario == null);
      if (header != null) {
        scenario = new Scenario(kind, header, out);
      } else {
        scenario.line(text);
      }
      out.append(".\n");
      if (!in.ready()) {
        out.flush(); // a caller that sends many lines at once need not be answered line by line
      }
    }
    out.flush();
  }

  /** The line parsed if it opens a scenario, else null. Looking for the key first spares parsing twice. */
  private static JsonNode header(String text, boolean mustBe) {
    if (!mustBe && !text.contains("\"conf\"")) {
      return null;
    }
    try {
      JsonNode json = Json.MAPPER.readTree(text);
      return mustBe || json.has("conf") ? json : null;
    } catch (IOException e) {
      return mustBe ? Json.object() : null;
    }
  }

  private static void files(String kind, Path folder, List<Path> scenarios) throws IOException {
    long start = System.nanoTime();
    for (Path scenario : scenarios) {
      String name = scenario.getFileName().toString().replaceFirst("\\.jsonl", ".out.jsonl");
      Path answers = folder == null ? scenario.resolveSibling(name) : folder.resolve(name);
      try (BufferedReader in = reader(scenario); BufferedWriter out = writer(answers)) {
        String text = in.readLine();
        if (text == null) {
          continue;
        }
        Scenario running = new Scenario(kind, header(text, true), out);
        while ((text = in.readLine()) != null) {
          running.line(text);
        }
      }
    }
    System.err.printf("%d scenarios in %.2f s%n", scenarios.size(), (System.nanoTime() - start) / 1e9);
  }

  private static void collect(Path path, List<Path> scenarios) throws IOException {
    if (!Files.isDirectory(path)) {
      scenarios.add(path);
      return;
    }
    try (Stream<Path> entries = Files.list(path)) {
      entries.filter(p -> p.toString().matches(".*\\.jsonl(\\.gz)?"))
          .filter(p -> !p.toString().matches(".*\\.(out|expect)\\.jsonl(\\.gz)?"))
          .sorted()
          .forEach(scenarios::add);
    }
  }

  private static BufferedReader reader(Path path) throws IOException {
    InputStream in = new FileInputStream(path.toFile());
    if (path.toString().endsWith(".gz")) {
      in = new GZIPInputStream(in, 1 << 16);
    }
    return new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
  }

  private static BufferedWriter writer(Path path) throws IOException {
    OutputStream out = new FileOutputStream(path.toFile());
    if (path.toString().endsWith(".gz")) {
      out = new GZIPOutputStream(out, 1 << 16);
    }
    return new BufferedWriter(new OutputStreamWriter(out, StandardCharsets.UTF_8), 1 << 16);
  }
}
