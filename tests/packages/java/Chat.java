import ember.*;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Answers each line of standard input, as it comes. */
public class Chat {
    public static void main(String[] arguments) throws Exception {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var model = Model.load(arguments[0]);
                var context = model.context();
                var chat = context.conversation("", new ChatOptions(), new Options().maxTokens(32))) {
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                chat.send(line).filter(ReplyEvent::isText).forEach(event -> out.print(event.text()));
                out.println();
            }
        }
    }
}
