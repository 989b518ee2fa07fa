// java.net.http.HttpClient and com.sun.net.httpserver in their default settings.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.MessageDigest;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

class JavaNetHttp {
    static String member(String json, String name) {
        var found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    public static void main(String[] arguments) throws Exception {
        String api = System.getenv("API_URL"), key = System.getenv("API_KEY");
        var callbacks = new LinkedBlockingQueue<String>();
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
        server.createContext("/", exchange -> {
            var sent = exchange.getRequestHeaders().getFirst("X-API-KEY");
            var body = new String(exchange.getRequestBody().readAllBytes(), "UTF-8");
            boolean right = sent != null && MessageDigest.isEqual(sent.getBytes(), key.getBytes());
            if (right) callbacks.add(body);
            exchange.sendResponseHeaders(right ? 204 : 401, -1);
            exchange.close();
        });
        server.start();
        var client = HttpClient.newHttpClient();
        var create = HttpRequest.newBuilder(URI.create(api + "/gateway/mmo/v2/direct/payin/mpesa_ke"))
            .header("X-Api-Key", key)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(System.getenv("BODY")))
            .build();
        var created = client.send(create, BodyHandlers.ofString());
        var callback = callbacks.poll(30, TimeUnit.SECONDS);
        var path = "/gateway/mmo/v2/status/" + member(created.body(), "gatewayReference");
        var lookUp = HttpRequest.newBuilder(URI.create(api + path)).header("X-Api-Key", key).build();
        var found = client.send(lookUp, BodyHandlers.ofString());
        System.out.println("{\"created\":" + created.statusCode() + ",\"callback\":\"" + member(callback, "status")
            + "\",\"found\":\"" + member(found.body(), "status") + "\"}");
        System.in.read();
        System.exit(0);
    }
}
