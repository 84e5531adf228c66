import ember.*;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Tests of conversations, tools and constraints: ChatTest MODEL TOOLS_MODEL, which bindings/tool_model.py writes. */
public class ChatTest {
    static final String TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
    static final String TOOLS = """
            [{"type": "function", "function": {"name": "weather", "parameters":
            {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]""";

    static String said(Stream<ReplyEvent> events) {
        try (events) {
            return events.filter(ReplyEvent::isText).map(ReplyEvent::text).collect(Collectors.joining());
        }
    }

    static void matches(String what, String got, String regex) {
        if (!Pattern.compile(regex).matcher(got).matches()) throw new AssertionError(what + ": " + got);
    }

    static void conversations(Model model) {
        var context = model.context(256, 1);
        var chat = new ChatOptions().template(TEMPLATE);
        var how = new Options().maxTokens(8);
        var conversation = context.conversation("Be \"brief\". Grüße 🌙", chat, how);
        var first = conversation.send("Tell of the sea.").toList();
        var text = first.stream().map(ReplyEvent::text).collect(Collectors.joining());
        EmberTest.equal("kinds", first.stream().limit(first.size() - 1).allMatch(ReplyEvent::isText), true);
        EmberTest.equal("the end", first.getLast().finish(), Event.Finish.MAX_TOKENS);
        var saved = conversation.save();
        var next = said(conversation.send("Go on."));
        var usage = conversation.usage();
        EmberTest.equal("reused", usage.reusedTokens() > 0 && usage.reusedTokens() < usage.promptTokens(), true);
        EmberTest.equal("generated", usage.generatedTokens(), 8);
        var messages = conversation.messages();
        EmberTest.equal("the system text", messages.contains("\"content\":\"Be \\\"brief\\\". Grüße 🌙\""), true);
        EmberTest.equal("roles", messages.split("\"role\":").length, 6);
        EmberTest.equal("says something", text.isEmpty(), false);
        conversation.undo();
        EmberTest.equal("again", said(conversation.send("Go on.")), next);
        try (var loaded = context.conversation(saved, chat, how)) {
            EmberTest.equal("what was saved", said(loaded.send("Go on.")), next);
        }
        EmberTest.refused(3, "damaged", () -> context.conversation(Arrays.copyOf(saved, 20), chat, how));

        // Left early, the reply becomes no message; it is under way until then.
        conversation.undo();
        var before = conversation.messages();
        try (var early = conversation.send("Why?")) {
            EmberTest.refused(7, "under way", () -> conversation.add(Message.user("x")));
            EmberTest.refused(7, "under way", () -> conversation.send("x"));
            EmberTest.equal("three events", early.limit(3).count(), 3L);
        }
        conversation.undo();
        EmberTest.equal("as before", conversation.messages(), before);

        // An interrupted thread; the next reply goes on.
        Thread.currentThread().interrupt();
        EmberTest.equal("interrupted", conversation.send("Why?").toList().getLast().finish(), Event.Finish.CANCELLED);
        EmberTest.equal("stays interrupted", Thread.interrupted(), true);
        EmberTest.equal("goes on", said(conversation.send("Go on.")).isEmpty(), false);
        var drawn = context.conversation("", chat, new Options().maxTokens(8).topK(40).temperature(0.8f).seed(3));
        EmberTest.equal("drawn", said(drawn.send("Why?")).isEmpty(), false);

        // Refusals.
        EmberTest.refused(1, "no message to reply to", () -> context.conversation("", chat, how).send(""));
        EmberTest.refused(1, "king", () -> conversation.add(new Message("king", "x")));
        EmberTest.refused(4, "marks of thoughts", () -> conversation.setThinkingBudget(4));
        EmberTest.refused(4, "switches thinking", () -> context.conversation("", new ChatOptions().template(TEMPLATE).thinking(true), how));
        EmberTest.refused(4, "template", () -> context.conversation("", new ChatOptions(), how));
        EmberTest.refused(0, "conversation is closed", () -> conversation.send("x").forEach(event -> conversation.close()));
        EmberTest.refused(0, "conversation is closed", () -> conversation.messages());

        // Too long: turns are dropped, or the reply is refused.
        try (var small = model.context(96, 1); var talk = small.conversation("", chat, how)) {
            int dropped = 0;
            for (int i = 0; i < 10; i++) {
                said(talk.send("Tell of the sea and the moon."));
                dropped += talk.usage().droppedTurns();
            }
            EmberTest.equal("dropped", dropped > 2, true);
            talk.setWhenFull(Conversation.WhenFull.REFUSE, 20);
            EmberTest.refused(6, "no turn may be dropped", () -> talk.send("And the boat?"));
        }
    }

    static void copies(Model model) {
        var chat = new ChatOptions().template(TEMPLATE);
        try (var context = model.context(256, 1, 2)) {
            var conversation = context.conversation("", chat, new Options().maxTokens(8).temperature(0.9f).seed(4));
            said(conversation.send("Tell of the sea."));
            var copy = conversation.fork(1);
            EmberTest.equal("copied", copy.messages(), conversation.messages());
            // The random numbers go on as in the other one, and the copy runs only what is new.
            var text = said(copy.send("Go on."));
            EmberTest.equal("reused", copy.usage().reusedTokens() > 8, true);
            EmberTest.equal("took", copy.usage().prefill().isPositive() && copy.usage().decode().isPositive(), true);
            EmberTest.equal("by itself", conversation.messages().split("\"role\":").length, 3);
            EmberTest.equal("as the copy", said(conversation.send("Go on.")), text);
            EmberTest.refused(1, "2", () -> conversation.fork(2));
            conversation.close();
            conversation.close();
            // What both had goes with the last of them.
            Thread.currentThread().interrupt();
            EmberTest.equal("interrupted", copy.send("Why?").toList().getLast().finish(), Event.Finish.CANCELLED);
            Thread.interrupted();
            EmberTest.equal("goes on", said(copy.send("Why?")).isEmpty(), false);
            copy.close();
            EmberTest.refused(0, "conversation is closed", () -> copy.fork(0));
        }

        // What is dropped is the caller's to say.
        try (var small = model.context(96, 1); var talk = small.conversation("", chat, new Options().maxTokens(8))) {
            var asked = new ArrayList<List<Integer>>();
            talk.setOnFull((tokens, positions, turns) -> {
                asked.add(List.of(positions, turns));
                return turns;
            });
            for (int i = 0; i < 6; i++) said(talk.send("Tell of the sea and the moon."));
            EmberTest.equal("asked", !asked.isEmpty() && asked.stream().allMatch(one -> one.get(0) == 96 && one.get(1) > 0), true);
            var reason = new IllegalStateException("nothing");
            talk.setOnFull((tokens, positions, turns) -> { throw reason; });
            SamplerTest.thrown(reason, () -> {
                for (int i = 0; i < 6; i++) said(talk.send("Tell of the sea and the moon."));
            });
            talk.setOnFull((tokens, positions, turns) -> 0);
            EmberTest.refused(6, "", () -> talk.send("Tell of the sea and the moon."));
            talk.setOnFull(null);
            EmberTest.equal("as before", said(talk.send("Tell of the sea and the moon.")).isEmpty(), false);
        }
    }

    static void constraints(Model model) {
        var context = model.context(512, 1);
        var none = new ConstraintOptions();
        java.util.function.BiFunction<Constraint, Integer, List<Event>> constrained = (constraint, n) -> {
            try (constraint) {
                context.rewind(0);
                return context.generate("The king said", new Options().constraint(constraint).maxTokens(n).temperature(1.5f).seed(5)).toList();
            }
        };
        java.util.function.Function<Constraint, String> complete = constraint -> {
            var events = constrained.apply(constraint, 200);
            EmberTest.equal("progress", events.getLast().progress(), Event.Progress.COMPLETE);
            EmberTest.equal("finish", events.getLast().finish(), Event.Finish.EOG);
            return events.stream().map(Event::text).collect(Collectors.joining());
        };
        var schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"yes\", \"no\"]}}, \"required\": [\"a\"], \"additionalProperties\": false}";
        matches("schema", complete.apply(Constraint.jsonSchema(model, schema)), "\\{\\s*\"a\"\\s*:\\s*\"(yes|no)\"\\s*\\}\\s*");
        matches("regex", complete.apply(Constraint.regex(model, "[a-c]{3}-[0-9]{1,3}0", none)), "[a-c]{3}-[0-9]{1,3}0");
        EmberTest.equal("grammar", complete.apply(Constraint.lark(model, "start: \"ab\" \"cd\"\n", none)), "abcd");
        matches("choices", complete.apply(Constraint.choices(model, List.of("Grüße", "a\0b"), none)), "Grüße|a\0b");
        EmberTest.equal("cut off", constrained.apply(Constraint.jsonObject(model, none), 1).getLast().progress(), Event.Progress.UNFINISHED);
        var waits = Constraint.jsonObject(model, new ConstraintOptions().trigger("never said").whitespace(0).repeat(true));
        EmberTest.equal("waits", constrained.apply(waits, 4).getLast().progress(), Event.Progress.WAITING);
        context.rewind(0);
        EmberTest.equal("without", context.generate("The", new Options().maxTokens(1)).toList().getLast().progress(), Event.Progress.NONE);
        int comma = model.tokenize(",", false, false)[0];
        context.rewind(0);
        try (var after = Constraint.choices(model, List.of(" he said"), new ConstraintOptions().triggerToken(comma))) {
            EmberTest.equal("after a token", EmberTest.text(context.generate("Once upon a time", new Options().maxTokens(9).constraint(after))), ", he said");
        }
        EmberTest.refused(0, "constraint is closed", () -> context.generate("The", new Options().constraint(waits)));
        EmberTest.refused(4, "propertyNames", () -> Constraint.jsonSchema(model, "{\"propertyNames\": {\"maxLength\": 3}}"));
        EmberTest.refused(1, "choices", () -> Constraint.choices(model, List.of(), none));
        var limited = new ConstraintOptions().limit(ConstraintOptions.Limit.SOURCE, 3);
        EmberTest.refused(1, "3", () -> Constraint.regex(model, "a{9}", limited));
        EmberTest.equal("nothing to hold", Constraint.chat(model, new ChatOptions().template(TEMPLATE), "").isEmpty(), true);
        EmberTest.refused(1, "repeat", () -> Constraint.jsonObject(model, new ConstraintOptions().repeat(true)));
        var plain = new ChatOptions().template("{{ messages[0].content }}");
        var tokens = model.tokenizeChat(List.of(Message.user("<|endoftext|>")), plain);
        EmberTest.equal("no control token", Arrays.equals(tokens, model.tokenize("<|endoftext|>", true, false)), true);
        context.close();
    }

    static void tools(Model model) {
        try (var context = model.context();
                var conversation = context.conversation("", new ChatOptions().tools(TOOLS), new Options().maxTokens(40))) {
            var events = conversation.send("What is the weather in Paris?").toList();
            EmberTest.equal("begins", events.getFirst().kind(), ReplyEvent.Kind.CALL_BEGIN);
            var calls = events.stream().filter(ReplyEvent::isCall).toList();
            EmberTest.equal("calls", calls.size(), 1);
            var call = calls.getFirst();
            EmberTest.equal("name", call.name(), "weather");
            EmberTest.equal("arguments", call.text(), "{\"city\": \"Paris\"}");
            var pieces = new ArrayList<String>();
            for (var event : events) if (event.kind() == ReplyEvent.Kind.CALL_ARGUMENTS) pieces.add(event.text());
            EmberTest.equal("pieces", String.join("", pieces), call.text());
            conversation.add(Message.tool(call, "It is sunny, 21 degrees."));
            matches("answer", said(conversation.send("")), ".*sunny.*");
            EmberTest.equal("the id", conversation.messages().contains("\"tool_call_id\":\"" + call.id() + "\""), true);
            // The choice of one reply.
            EmberTest.refused(1, "tool_choice", () -> conversation.setToolChoice("sing"));
            conversation.setToolChoice("none");
            EmberTest.equal("none", conversation.send("What is the weather in Bern?").filter(ReplyEvent::isCall).count(), 0L);
            conversation.setToolChoice("required");
            EmberTest.equal("required", conversation.send("What is the weather in Bern?").anyMatch(ReplyEvent::isCall), true);
            var required = new ChatOptions().tools(TOOLS).toolChoice("required").parallelCalls(false);
            try (var must = context.conversation("", required, new Options().maxTokens(60))) {
                matches("Bern", must.send("What is the weather in Bern?").filter(ReplyEvent::isCall).toList().getFirst().text(), ".*Bern.*");
            }
            // Calls of one's own generations are held to their schemas.
            var calling = new ChatOptions().tools(TOOLS).toolChoice("weather");
            var prompt = model.applyChatTemplate(List.of(Message.user("What is the weather in Bern?")), new ChatOptions().tools(TOOLS));
            try (var held = Constraint.chat(model, calling, prompt).orElseThrow(); var parser = model.chatParser(prompt, calling)) {
                context.rewind(0);
                var own = new ArrayList<ReplyEvent>();
                context.generate(prompt, new Options().constraint(held).renderSpecial(true).parseSpecial(true).maxTokens(60)).forEach(event -> {
                    own.addAll(parser.push(event.text()));
                    if (event.isEnd()) own.addAll(parser.finish(event.finish()));
                });
                matches("held", own.stream().filter(ReplyEvent::isCall).toList().getFirst().text(), "\\{\\s*\"city\"\\s*:\\s*\".*Bern.*\"\\s*\\}");
            }
            EmberTest.refused(1, "tool_choice", () -> context.conversation("", new ChatOptions().tools(TOOLS).toolChoice("sing"), new Options()));
        }
    }

    public static void main(String[] arguments) {
        try (var model = Model.load(arguments[0])) {
            conversations(model);
            copies(model);
            constraints(model);
        }
        if (!java.nio.file.Files.exists(java.nio.file.Path.of(arguments[1]))) {
            System.out.println("SKIPPED: tools, for " + arguments[1] + " is not there");
            return;
        }
        try (var model = Model.load(arguments[1])) {
            tools(model);
        }
        System.out.println("conversations, tools and constraints of Java are fine");
    }
}
