// RoundTrip HOST PORT TRUST_STORE USER PASSWORD [KEY_STORE]: one confirmed message there and back over TLS, with the
// broker verified. With a key store the client has a certificate and logs in with EXTERNAL. The stores are PKCS #12, password "secret".

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import com.rabbitmq.client.GetResponse;
import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

public class RoundTrip {
    static final char[] PASSWORD = "secret".toCharArray();

    static KeyStore store(String path) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(path)) {
            store.load(file, PASSWORD);
        }
        return store;
    }

    static SSLContext context(String trusted, String own) throws Exception {
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store(trusted));
        KeyManager[] keys = null;
        if (own != null) {
            KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            factory.init(store(own), PASSWORD);
            keys = factory.getKeyManagers();
        }
        SSLContext context = SSLContext.getInstance("TLSv1.3");
        context.init(keys, trust.getTrustManagers(), null);
        return context;
    }

    public static void main(String[] arguments) throws Exception {
        String own = arguments.length > 5 ? arguments[5] : null;
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost(arguments[0]);
        factory.setPort(Integer.parseInt(arguments[1]));
        factory.setUsername(arguments[3]);
        factory.setPassword(arguments[4]);
        factory.useSslProtocol(context(arguments[2], own));
        factory.setSocketConfigurator(socket -> {
            SSLParameters parameters = ((SSLSocket) socket).getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            ((SSLSocket) socket).setSSLParameters(parameters);
        });
        if (own != null) {
            factory.setSaslConfig(DefaultSaslConfig.EXTERNAL);
        }
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            String queue = channel.queueDeclare().getQueue();
            channel.confirmSelect();
            byte[] body = new byte[300_000];
            body[299_999] = 42;
            channel.basicPublish("", queue, null, body);
            channel.waitForConfirmsOrDie(50_000);
            GetResponse got = channel.basicGet(queue, true);
            if (!java.util.Arrays.equals(got.getBody(), body)) {
                throw new IllegalStateException("another body");
            }
        }
    }
}
