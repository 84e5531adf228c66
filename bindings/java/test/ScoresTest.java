import ember.*;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * Tests of vectors and scores: ScoresTest DENSE_FOLDER DENSE_LINES RANK_FOLDER RANK_LINES. Files of lines are made by bindings/lines.py of what
 * sentence-transformers and transformers gave: fields between tabs, numbers between spaces.
 */
public class ScoresTest {
    static float[] numbers(String text) {
        var words = text.split(" ");
        var out = new float[words.length];
        for (int i = 0; i < out.length; i++) out[i] = Float.parseFloat(words[i]);
        return out;
    }

    static void near(String what, float[] got, float[] want) {
        EmberTest.equal(what + ": length", got.length, want.length);
        for (int i = 0; i < got.length; i++)
            if (!(Math.abs(got[i] - want[i]) < 2e-3)) throw new AssertionError(what + ": " + Arrays.toString(got) + " instead of " + Arrays.toString(want));
    }

    public static void main(String[] arguments) throws Exception {
        dense(arguments[0], Files.readAllLines(Path.of(arguments[1])));
        rank(arguments[2], Files.readAllLines(Path.of(arguments[3])));
        System.out.println("vectors and scores are as they should be");
    }

    /** The vectors of a folder with a Dense module are narrower than the model's layers. */
    static void dense(String folder, List<String> lines) {
        if (lines.size() < 8) throw new AssertionError(lines.size() + " lines");
        var closed = new Context[1];
        try (var model = Model.load(folder); var context = model.context()) {
            closed[0] = context;
            var info = model.info();
            EmberTest.equal("lengths", List.of(info.embeddingLength(), info.vectorLength(), info.prompts()), List.of(36, 7, 3));
            for (var line : lines) {
                var fields = line.split("\t"); // text, normalize, dimensions, numbers
                var options = new EmbedOptions().normalize(fields[1].equals("true")).dimensions(Integer.parseInt(fields[2]));
                near(line, context.embed(List.of(fields[0]), options)[0], numbers(fields[3]));
            }
            var prompted = context.embed(List.of("w5 w6 w7", "w5 w6 w9 w4"));
            var named = context.embed(List.of("w7", "w9 w4"), new EmbedOptions().prompt("query"));
            EmberTest.equal("with a prompt", Arrays.deepEquals(named, prompted), true);
            var rows = context.embed(List.of("w7 w8"), new EmbedOptions().pooling(EmbedOptions.Pooling.NONE));
            EmberTest.equal("rows", List.of(rows.length, rows[0].length), List.of(model.tokenize("w7 w8", true, false).length, 36));
            var cut = context.embed(List.of("w7 w8"), new EmbedOptions().pooling(EmbedOptions.Pooling.NONE).dimensions(5));
            EmberTest.equal("cut rows", Arrays.equals(cut[1], Arrays.copyOf(rows[1], 5)), true);
            EmberTest.equal("of no texts", context.embed(List.of()).length, 0);
            EmberTest.refused(1, "1 to 7", () -> context.embed(List.of("w7"), new EmbedOptions().dimensions(8)));
            EmberTest.refused(1, "\"passage\"", () -> context.embed(List.of("w7"), new EmbedOptions().prompt("passage")));
        }
        EmberTest.refused(0, "context is closed", () -> closed[0].embed(List.of("w7")));
    }

    /** Lines: model, labels, the query, a text, its scores, its score after the query. */
    static void rank(String folder, List<String> lines) {
        if (lines.size() < 8) throw new AssertionError(lines.size() + " lines");
        for (var line : lines) {
            var fields = line.split("\t", -1);
            try (var model = Model.load(folder + "/" + fields[0] + ".gguf"); var context = model.context()) {
                EmberTest.equal("labels", String.join("|", model.labels()), fields[1]);
                near(line, context.classify(List.of(fields[3], "a"), new ClassifyOptions())[0], numbers(fields[4]));
                var document = List.of(fields[3]);
                if (fields[5].isEmpty()) EmberTest.refused(4, "", () -> context.rerank("a", document, new ClassifyOptions()));
                else near(line, context.rerank(fields[2], document, new ClassifyOptions()), numbers(fields[5]));
                var logits = context.classify(document, new ClassifyOptions().activation(ClassifyOptions.Activation.NONE))[0];
                if (logits.length == 1) near(line, new float[] {(float) (1 / (1 + Math.exp(-logits[0])))}, numbers(fields[4]));
            }
        }
    }
}
