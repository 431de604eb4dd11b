import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.ExecutorDiskUtils;
import org.apache.spark.network.shuffle.ExternalBlockStoreClient;
import org.apache.spark.network.shuffle.protocol.ExecutorShuffleInfo;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/** What executors say to a shuffle service, line by line: register APP EXEC DIR, fetch APP EXEC BLOCK, path DIR FILE. */
public class ShuffleClient {
  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    Map<String, ExternalBlockStoreClient> clients = new HashMap<>();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      String answer;
      try {
        if (words[0].equals("path")) {
          answer = ExecutorDiskUtils.getFilePath(new String[] {words[1]}, 64, words[2]);
        } else {
          ExternalBlockStoreClient client = clients.computeIfAbsent(words[1], ShuffleClient::client);
          answer = words[0].equals("register") ? register(client, port, words) : fetch(client, port, words);
        }
      } catch (Exception problem) {
        answer = "error " + problem;
      }
      System.out.println("> " + answer.replace('\n', ' ')); // Spark logs to standard output, too
    }
    System.exit(0);
  }

  private static ExternalBlockStoreClient client(String app) {
    MapConfigProvider conf = new MapConfigProvider(Map.of("spark.shuffle.io.maxRetries", "0"));
    ExternalBlockStoreClient made = new ExternalBlockStoreClient(new TransportConf("shuffle", conf), null, false, 5000);
    made.init(app);
    return made;
  }

  private static String register(ExternalBlockStoreClient client, int port, String[] words) throws Exception {
    String sorted = "org.apache.spark.shuffle.sort.SortShuffleManager";
    ExecutorShuffleInfo info = new ExecutorShuffleInfo(new String[] {words[3]}, 64, sorted);
    client.registerWithShuffleServer("127.0.0.1", port, words[2], info);
    return "registered";
  }

  private static String fetch(ExternalBlockStoreClient client, int port, String[] words) throws Exception {
    CompletableFuture<String> answer = new CompletableFuture<>();
    BlockFetchingListener listener =
        new BlockFetchingListener() {
          @Override
          public void onBlockFetchSuccess(String block, ManagedBuffer data) {
            try {
              answer.complete(StandardCharsets.UTF_8.decode(data.nioByteBuffer()).toString());
            } catch (Exception problem) {
              answer.completeExceptionally(problem);
            }
          }

          @Override
          public void onBlockFetchFailure(String block, Throwable problem) {
            answer.complete("error " + problem);
          }
        };
    client.fetchBlocks("127.0.0.1", port, words[2], new String[] {words[3]}, listener, null);
    return answer.get(20, TimeUnit.SECONDS);
  }
}
