package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;

/** What drives one of Spark's classes: it was made from a scenario's header and takes the lines that follow. */
interface Driver {
  /** Carries out one line. What this throws is answered as the line's error, and the scenario goes on. */
  void step(JsonNode line);
}
