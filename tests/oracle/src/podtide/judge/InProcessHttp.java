package podtide.judge;

import io.fabric8.kubernetes.client.http.AsyncBody;
import io.fabric8.kubernetes.client.http.HttpClient;
import io.fabric8.kubernetes.client.http.HttpRequest;
import io.fabric8.kubernetes.client.http.HttpResponse;
import io.fabric8.kubernetes.client.http.StandardHttpClient;
import io.fabric8.kubernetes.client.http.StandardHttpClientBuilder;
import io.fabric8.kubernetes.client.http.StandardHttpHeaders;
import io.fabric8.kubernetes.client.http.StandardHttpRequest;
import io.fabric8.kubernetes.client.http.StandardWebSocketBuilder;
import io.fabric8.kubernetes.client.http.WebSocket;
import io.fabric8.kubernetes.client.http.WebSocketResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The HTTP layer of fabric8's Kubernetes client, answered by a function in the calling thread: no socket, no
 * thread, so the order of calls is the order in which Spark makes them. Streams over web sockets fail; the client
 * then falls back to plain requests.
 */
final class InProcessHttp extends StandardHttpClient<InProcessHttp, InProcessHttp.Maker, InProcessHttp.Setup> {
  /** The server: a request to what it answers. */
  interface Server {
    Answer answer(String method, java.net.URI uri, String body);
  }

  /** A status code and a body of JSON. */
  static final class Answer {
    final int code;
    final byte[] body;

    Answer(int code, byte[] body) {
      this.code = code;
      this.body = body;
    }
  }

  /** What fabric8 is given to make its clients with. */
  static final class Maker implements HttpClient.Factory {
    private final Server server;

    Maker(Server server) {
      this.server = server;
    }

    @Override
    public Setup newBuilder() {
      return new Setup(this);
    }
  }

  /** A client in the making. */
  static final class Setup extends StandardHttpClientBuilder<InProcessHttp, Maker, Setup> {
    Setup(Maker maker) {
      super(maker);
    }

    @Override
    public InProcessHttp build() {
      return new InProcessHttp(this, client == null ? new AtomicBoolean() : client.getClosed());
    }

    @Override
    protected Setup newInstance(Maker maker) {
      return new Setup(maker);
    }
  }

  private final Server server;

  private InProcessHttp(Setup setup, AtomicBoolean closed) {
    super(setup, closed);
    server = setup.getClientFactory().server;
  }

  @Override
  public CompletableFuture<WebSocketResponse> buildWebSocketDirect(
      StandardWebSocketBuilder builder, WebSocket.Listener listener) {
    return CompletableFuture.failedFuture(new UnsupportedOperationException("no web sockets here"));
  }

  @Override
  public CompletableFuture<HttpResponse<AsyncBody>> consumeBytesDirect(
      StandardHttpRequest request, AsyncBody.Consumer<List<ByteBuffer>> consumer) {
    try {
      Answer answer = server.answer(request.method(), request.uri(), text(request.body()));
      return CompletableFuture.completedFuture(new Response(request, answer.code, new Body(answer.body, consumer)));
    } catch (RuntimeException e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  private static String text(StandardHttpRequest.BodyContent body) {
    if (body instanceof StandardHttpRequest.StringBodyContent) {
      return ((StandardHttpRequest.StringBodyContent) body).getContent();
    }
    if (body instanceof StandardHttpRequest.ByteArrayBodyContent) {
      return new String(((StandardHttpRequest.ByteArrayBodyContent) body).getContent(), StandardCharsets.UTF_8);
    }
    return null;
  }

  @Override
  protected void doClose() {
    // nothing is open
  }

  /** A body that is there at once, handed over when it is asked for. */
  private static final class Body implements AsyncBody {
    private final byte[] bytes;
    private final AsyncBody.Consumer<List<ByteBuffer>> consumer;
    private final CompletableFuture<Void> done = new CompletableFuture<>();
    private boolean handedOver;

    Body(byte[] bytes, AsyncBody.Consumer<List<ByteBuffer>> consumer) {
      this.bytes = bytes;
      this.consumer = consumer;
    }

    @Override
    public void consume() {
      if (handedOver) {
        return;
      }
      handedOver = true;
      try {
        consumer.consume(List.of(ByteBuffer.wrap(bytes)), this);
        done.complete(null);
      } catch (Exception e) {
        done.completeExceptionally(e);
      }
    }

    @Override
    public CompletableFuture<Void> done() {
      return done;
    }

    @Override
    public void cancel() {
      done.cancel(false);
    }
  }

  /** An answer as fabric8 wants to see it. */
  private static final class Response extends StandardHttpHeaders implements HttpResponse<AsyncBody> {
    private final HttpRequest request;
    private final int code;
    private final AsyncBody body;

    Response(HttpRequest request, int code, AsyncBody body) {
      super(Map.of("content-type", List.of("application/json")));
      this.request = request;
      this.code = code;
      this.body = body;
    }

    @Override
    public int code() {
      return code;
    }

    @Override
    public AsyncBody body() {
      return body;
    }

    @Override
    public HttpRequest request() {
      return request;
    }

    @Override
    public Optional<HttpResponse<?>> previousResponse() {
      return Optional.empty();
    }
  }
}
