import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** An application with Kafka's own client, unmodified: asks in transactions, and prints the results, each on a line. */
public class Application {
  public static void main(String[] arguments) {
    String bootstrap = arguments[0], queries = arguments[1], results = arguments[2];
    int count = Integer.parseInt(arguments[3]);
    Map<String, Object> producing =
        Map.of("bootstrap.servers", bootstrap, "transactional.id", "application-" + queries);
    try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      for (int number = 0; number < count; number++) {
        send(producer, queries, "aborted-" + number);
        producer.abortTransaction();
        send(producer, queries, "asked-" + number);
        producer.commitTransaction();
      }
      send(producer, queries, "aborted-last");
      producer.abortTransaction();
    }
    Map<String, Object> consuming =
        Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "application-" + queries,
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(results));
      Set<String> keys = new HashSet<>();
      // What comes twice comes within the polls behind the last.
      for (int quiet = 0; quiet < 5; ) {
        var records = consumer.poll(Duration.ofMillis(200));
        for (var record : records) {
          keys.add(record.key());
          System.out.println(record.value());
        }
        quiet = records.isEmpty() && keys.size() >= count ? quiet + 1 : 0;
      }
    }
  }

  private static void send(KafkaProducer<String, String> producer, String topic, String id) {
    producer.beginTransaction();
    producer.send(new ProducerRecord<>(topic, id, "{\"query_id\": \"" + id + "\", \"text\": \"blue lantern\"}"));
    producer.flush();
  }
}
