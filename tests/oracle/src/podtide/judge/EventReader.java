package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerSpeculativeTaskSubmitted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskLocation;
import org.apache.spark.scheduler.TaskLocation$;
import org.apache.spark.util.JsonProtocol;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Event log JSON into Spark's event objects, by Spark's own JsonProtocol.
 *
 * <p>Three things that decide about executors never reach an event log, so a scenario carries them beside the
 * fields that JsonProtocol knows: {@code "Shuffle Dep ID"} and {@code "Task Locality Preferences"} (a list of
 * hosts per task) in any stage info, and {@code taskIndex} with {@code partitionId} in
 * SparkListenerSpeculativeTaskSubmitted.
 */
final class EventReader {
  private EventReader() {}

  static SparkListenerEvent read(JsonNode json) {
    String name = json.path("Event").asText();
    if (name.endsWith("SparkListenerSpeculativeTaskSubmitted") && json.has("taskIndex")) {
      return new SparkListenerSpeculativeTaskSubmitted(
          json.path("stageId").asInt(),
          json.path("stageAttemptId").asInt(),
          json.path("taskIndex").asInt(-1),
          json.path("partitionId").asInt(-1));
    }
    SparkListenerEvent event = JsonProtocol.sparkEventFromJson(json.toString());
    if (event instanceof SparkListenerStageSubmitted) {
      complete(((SparkListenerStageSubmitted) event).stageInfo(), json.path("Stage Info"));
    } else if (event instanceof SparkListenerJobStart) {
      JsonNode infos = json.path("Stage Infos");
      int i = 0;
      for (StageInfo info : CollectionConverters.asJava(((SparkListenerJobStart) event).stageInfos())) {
        complete(info, infos.path(i++));
      }
    }
    return event;
  }

  private static void complete(StageInfo info, JsonNode json) {
    if (json.has("Shuffle Dep ID")) {
      Object shuffle = json.get("Shuffle Dep ID").asInt();
      Hidden.set(info, "shuffleDepId", Option.apply(shuffle));
    }
    if (json.has("Task Locality Preferences")) {
      List<Object> tasks = new ArrayList<>();
      for (JsonNode hosts : json.get("Task Locality Preferences")) {
        List<TaskLocation> places = new ArrayList<>();
        hosts.forEach(host -> places.add(TaskLocation$.MODULE$.apply(host.asText())));
        tasks.add(Json.seq(places));
      }
      Hidden.set(info, "taskLocalityPreferences", Json.seq(tasks));
    }
  }
}
