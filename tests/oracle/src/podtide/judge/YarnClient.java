package podtide.judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Function;
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
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;
import org.apache.hadoop.yarn.client.api.impl.AMRMClientImpl;
import org.apache.hadoop.yarn.exceptions.YarnException;

/**
 * Hadoop's own AM client, with its own table of requests, over a resource manager that says what it is told.
 *
 * <p>The table decides which request a container answers; every call on it is written down.
 */
final class YarnClient extends AMRMClientImpl<ContainerRequest> {
  static final ApplicationAttemptId ATTEMPT =
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);

  private final YarnLines lines;
  private final boolean asks;
  private final Function<Integer, Resource> sizes; // what the allocator asks for, by profile
  private boolean answering; // the requests are up to date, containers are being matched
  private List<Container> passing = new ArrayList<>(); // the containers of this pass of matching
  private List<Container> left = new ArrayList<>();
  private int passed;
  private Container matched;
  private String location;
  private JsonNode answer = Json.object();
  private int nodes;

  YarnClient(YarnLines lines, JsonNode options, Function<Integer, Resource> sizes) {
    this.lines = lines;
    this.sizes = sizes;
    asks = options.path("asks").asBoolean(false);
    nodes = options.path("clusterNodes").asInt(10);
    rmClient = new Manager();
  }

  /** What the resource manager says to the next call. */
  void script(JsonNode next) {
    answer = next;
    answering = false;
  }

  /** Containers are handled without a call. */
  void handle(List<Container> containers) {
    answering = true;
    begin(containers);
  }

  /** The round is over: what happens to requests from now on is Spark bringing them up to date. */
  void end() {
    answering = false;
  }

  private void begin(List<Container> containers) {
    passing = containers;
    left = new ArrayList<>();
    passed = 0;
  }

  // ---- Hadoop's client

  @Override
  public synchronized void addContainerRequest(ContainerRequest request) {
    super.addContainerRequest(request);
    lines.added(request);
  }

  @Override
  public synchronized void removeContainerRequest(ContainerRequest request) {
    super.removeContainerRequest(request);
    if (!answering) {
      lines.cancelled(request);
      return;
    }
    lines.more("match").addObject()
        .put("container", matched.getId().getContainerId())
        .put("request", lines.name(request))
        .put("at", location);
    left.remove(left.size() - 1);
  }

  /** Spark asks for each container what it could answer, in three passes over those that are left. */
  @Override
  public synchronized List<? extends Collection<ContainerRequest>> getMatchingRequests(
      Priority priority, String where, Resource size) {
    if (answering) {
      if (passed >= passing.size()) {
        begin(left);
      }
      matched = passing.get(passed++);
      left.add(matched);
      location = where;
    }
    return super.getMatchingRequests(priority, where, size);
  }

  /** All requests of a profile, oldest first. */
  List<String> waiting(int profile) {
    List<String> names = new ArrayList<>();
    for (Collection<ContainerRequest> equal
        : super.getMatchingRequests(Priority.newInstance(profile), ResourceRequest.ANY, sizes.apply(profile))) {
      equal.forEach(request -> names.add(lines.name(request)));
    }
    return names;
  }

  @Override
  public synchronized void releaseAssignedContainer(ContainerId container) {
    super.releaseAssignedContainer(container);
    lines.more("release").add(container.getContainerId());
  }

  @Override
  public synchronized void updateBlacklist(List<String> additions, List<String> removals) {
    super.updateBlacklist(new ArrayList<>(additions), new ArrayList<>(removals));
    lines.close();
    ObjectNode line = lines.at();
    ObjectNode told = line.putObject("blacklist");
    told.set("add", Json.strings(additions));
    told.set("remove", Json.strings(removals));
    lines.say(line);
  }

  // ---- what scenarios write

  List<Container> containers(JsonNode written) {
    List<Container> containers = new ArrayList<>();
    for (JsonNode one : written) {
      int profile = one.path("rp").asInt(0);
      Resource own = sizes.apply(profile);
      long memory = one.has("memory") ? one.get("memory").asLong() : own == null ? 1024 : own.getMemorySize();
      int cores = one.has("vcores") ? one.get("vcores").asInt() : own == null ? 1 : own.getVirtualCores();
      containers.add(Container.newInstance(
          id(one), NodeId.newInstance(one.get("host").asText(), 8041), "http", Resource.newInstance(memory, cores),
          Priority.newInstance(profile), null));
    }
    return containers;
  }

  static List<ContainerStatus> statuses(JsonNode written) {
    List<ContainerStatus> statuses = new ArrayList<>();
    for (JsonNode one : written) {
      statuses.add(ContainerStatus.newInstance(
          id(one), ContainerState.COMPLETE, one.path("diagnostics").asText(""), one.path("exit").asInt(0)));
    }
    return statuses;
  }

  private static ContainerId id(JsonNode written) {
    return ContainerId.newContainerId(ATTEMPT, written.get("id").asLong());
  }

  /** The resource manager, as scripted. */
  private final class Manager implements ApplicationMasterProtocol {
    @Override
    public AllocateResponse allocate(AllocateRequest request) throws YarnException {
      lines.close();
      if (asks) {
        lines.say(heartbeat(request));
      }
      if (answer.has("throw")) {
        throw new YarnException(answer.get("throw").asText());
      }
      nodes = answer.path("clusterNodes").asInt(nodes);
      List<NodeReport> updated = new ArrayList<>();
      for (JsonNode node : answer.path("updatedNodes")) {
        Resource none = Resource.newInstance(0, 0);
        NodeState state = NodeState.valueOf(node.path("state").asText("DECOMMISSIONING"));
        NodeId host = NodeId.newInstance(node.get("host").asText(), 8041);
        updated.add(NodeReport.newInstance(host, state, "http", "/r", none, none, 0, "", 0));
      }
      List<Container> allocated = containers(answer.path("allocated"));
      answering = true;
      begin(allocated);
      JsonNode room = answer.path("available");
      return AllocateResponse.newInstance(
          0, statuses(answer.path("completed")), allocated, updated,
          Resource.newInstance(room.path("memory").asLong(0), room.path("vcores").asInt(0)), null, nodes, null,
          new ArrayList<>());
    }

    private ObjectNode heartbeat(AllocateRequest request) {
      ObjectNode line = lines.at();
      ObjectNode said = line.putObject("heartbeat");
      ArrayNode asked = said.putArray("asks");
      for (ResourceRequest ask : request.getAskList()) {
        asked.addObject()
            .put("priority", ask.getPriority().getPriority())
            .put("location", ask.getResourceName())
            .put("n", ask.getNumContainers())
            .put("relaxLocality", ask.getRelaxLocality())
            .put("label", ask.getNodeLabelExpression());
      }
      ArrayNode released = said.putArray("releases");
      request.getReleaseList().forEach(container -> released.add(container.getContainerId()));
      var exclusions = request.getResourceBlacklistRequest();
      said.set("exclude", Json.strings(new TreeSet<>(exclusions.getBlacklistAdditions())));
      said.set("include", Json.strings(new TreeSet<>(exclusions.getBlacklistRemovals())));
      return line;
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
}
