using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text.RegularExpressions;
using System.Threading;
using Ember;

/// <summary>Conversations, tools, constraints and the parser of replies.</summary>
public static class ChatTest
{
    private const string Template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
    private const string ToolList = @"[{""type"": ""function"", ""function"": {""name"": ""weather"", ""parameters"":
        {""type"": ""object"", ""properties"": {""city"": {""type"": ""string""}}, ""required"": [""city""]}}}]";

    private static readonly Model Tales = Model.Load(Test.Tales);

    private static ChatOptions Plain => new ChatOptions { Template = Template };

    private static GenerateOptions Eight => new GenerateOptions { MaxTokens = 8 };

    private static Context Small(uint positions, uint sequences = 1)
    {
        return Tales.CreateContext(new ContextOptions { Positions = positions, Sequences = sequences, Threads = 1 });
    }

    private static int Roles(Conversation conversation) => Regex.Matches(conversation.Messages, "\"role\":").Count;

    private static void Matches(string what, string got, string regex)
    {
        if (!Regex.IsMatch(got, "^(?:" + regex + ")$", RegexOptions.Singleline)) throw new Exception(what + ": " + got);
    }

    public static void Conversations()
    {
        var context = Small(256);
        var conversation = context.CreateConversation("Be \"brief\". Grüße 🌙", Plain, Eight);
        var first = conversation.Send("Tell of the sea.").ToList();
        Test.True("kinds", first.Take(first.Count - 1).All(one => one.IsText));
        Test.Equal("the end", first.Last().Finish, FinishReason.MaxTokens);
        var saved = conversation.Save();
        var next = conversation.Send("Go on.").ReadToEnd().Text;
        var usage = conversation.Usage;
        Test.True("reused", usage.ReusedTokens > 0 && usage.ReusedTokens < usage.PromptTokens);
        Test.Equal("generated", usage.GeneratedTokens, 8u);
        Test.True("took", usage.Prefill > TimeSpan.Zero && usage.Decode > TimeSpan.Zero);
        Test.True("the system text", conversation.Messages.Contains("\"content\":\"Be \\\"brief\\\". Grüße 🌙\""));
        Test.Equal("roles", Roles(conversation), 5);
        conversation.Undo();
        Test.Equal("again", conversation.Send("Go on.").ReadToEnd().Text, next);
        using (var loaded = context.LoadConversation(saved, Plain, Eight)) Test.Equal("what was saved", loaded.Send("Go on.").ReadToEnd().Text, next);
        Test.Refused(Status.Format, "damaged", () => context.LoadConversation(saved.Take(20).ToArray(), Plain));

        // Left early, the reply becomes no message; it is under way until then.
        conversation.Undo();
        var before = conversation.Messages;
        using (var early = conversation.Send("Why?"))
        {
            Test.Refused(Status.Busy, "under way", () => conversation.Add(Message.User("x")));
            Test.Refused(Status.Busy, "under way", () => conversation.Send("x"));
            Test.Equal("three events", early.Take(3).Count(), 3);
        }
        conversation.Undo();
        Test.Equal("as before", conversation.Messages, before);

        // Cancelled, in events and tasks; the next reply goes on.
        var source = new CancellationTokenSource();
        var events = new List<ReplyEvent>();
        foreach (var one in conversation.Send("Why?", source.Token))
        {
            events.Add(one);
            source.Cancel();
        }
        Test.Equal("cancelled", events.Last().Finish, FinishReason.Cancelled);
        Test.True("goes on", conversation.Send("Go on.").ReadToEnd().Text != "");
        Test.Thrown<OperationCanceledException>(() => conversation.SendAsync("Why?", null, source.Token).GetAwaiter().GetResult());
        var later = new CancellationTokenSource();
        Test.Thrown<OperationCanceledException>(() => conversation.SendAsync("Why?", one => later.Cancel(), later.Token).GetAwaiter().GetResult());
        var pieces = new List<string>();
        var answer = conversation.SendAsync("Go on.", one => pieces.Add(one.Text)).Result;
        Test.Equal("in a task", string.Concat(pieces), answer.Text);

        // Refusals.
        Test.Refused(Status.InvalidArgument, "no message to reply to", () => context.CreateConversation("", Plain).Send(""));
        Test.Refused(Status.InvalidArgument, "king", () => conversation.Add(new Message("king", "x")));
        Test.Refused(Status.Unsupported, "marks of thoughts", () => conversation.SetThinkingBudget(4));
        var thinking = new ChatOptions { Template = Template, Thinking = Thinking.On };
        Test.Refused(Status.Unsupported, "switches thinking", () => context.CreateConversation("", thinking));
        Test.Refused(Status.Unsupported, "template", () => context.CreateConversation());
        Test.Disposed("conversation", () =>
        {
            foreach (var one in conversation.Send("x")) conversation.Dispose();
        });
        Test.Disposed("conversation", () => Test.Equal("none", conversation.Messages, null));
        context.Dispose();
    }

    public static void Copies()
    {
        using (var context = Small(256, 2))
        {
            var how = new GenerateOptions { MaxTokens = 8, Sampler = new Sampler(4).Temperature(0.9f) };
            var conversation = context.CreateConversation("", Plain, how);
            conversation.Send("Tell of the sea.").ReadToEnd();
            var copy = conversation.Fork(1);
            Test.Equal("copied", copy.Messages, conversation.Messages);
            // The random numbers go on as in the other one, and the copy runs only what is new.
            var text = copy.Send("Go on.").ReadToEnd().Text;
            Test.True("reused", copy.Usage.ReusedTokens > 8);
            Test.Equal("by itself", Roles(conversation), 2);
            Test.Equal("as the copy", conversation.Send("Go on.").ReadToEnd().Text, text);
            Test.Refused(Status.InvalidArgument, "2", () => conversation.Fork(2));
            conversation.Dispose();
            conversation.Dispose();
            var source = new CancellationTokenSource();
            source.Cancel();
            Test.Equal("cancelled", copy.Send("Why?", source.Token).ReadToEnd().Finish, FinishReason.Cancelled);
            Test.True("goes on", copy.Send("Why?").ReadToEnd().Text != "");
            copy.Dispose();
            Test.Disposed("conversation", () => copy.Fork(0));
        }
    }

    public static void Full()
    {
        using (var small = Small(96))
        using (var talk = small.CreateConversation("", Plain, Eight))
        {
            var dropped = 0u;
            Action say = () =>
            {
                talk.Send("Tell of the sea and the moon.").ReadToEnd();
                dropped += talk.Usage.DroppedTurns;
            };
            for (var i = 0; i < 8; i++) say();
            Test.True("dropped", dropped > 2);
            var asked = new List<uint[]>();
            talk.SetOnFull((tokens, positions, turns) =>
            {
                asked.Add(new[] { positions, turns });
                return turns;
            });
            for (var i = 0; i < 6; i++) say();
            Test.True("asked", asked.Count > 0 && asked.All(one => one[0] == 96 && one[1] > 0));
            var reason = new InvalidOperationException("nothing");
            talk.SetOnFull((tokens, positions, turns) => { throw reason; });
            Test.Equal("thrown", Test.Thrown<InvalidOperationException>(() => { for (var i = 0; i < 6; i++) say(); }), reason);
            talk.SetOnFull((tokens, positions, turns) => 0);
            Test.Refused(Status.ContextFull, "", () => say());
            talk.SetOnFull(null);
            say();
            talk.SetWhenFull(WhenFull.Refuse, 20);
            Test.Refused(Status.ContextFull, "no turn may be dropped", () => talk.Send("And the boat?"));
        }
    }

    public static void Constraints()
    {
        using (var context = Small(512))
        {
            Func<Constraint, uint, Completion> constrained = (constraint, n) =>
            {
                using (constraint)
                {
                    context.Rewind(0);
                    var options = new GenerateOptions { MaxTokens = n, Constraint = constraint, Sampler = new Sampler(5).Temperature(1.5f) };
                    return context.Generate("The king said", options).ReadToEnd();
                }
            };
            Func<Constraint, string> complete = constraint =>
            {
                var all = constrained(constraint, 200);
                Test.Equal("progress", all.Usage.Progress, ConstraintProgress.Complete);
                Test.Equal("finish", all.Finish, FinishReason.Eog);
                return all.Text;
            };
            const string schema = "{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"yes\", \"no\"]}}, \"required\": [\"a\"], \"additionalProperties\": false}";
            Matches("schema", complete(Constraint.JsonSchema(Tales, schema)), "\\{\\s*\"a\"\\s*:\\s*\"(yes|no)\"\\s*\\}\\s*");
            Matches("regex", complete(Constraint.Regex(Tales, "[a-c]{3}-[0-9]{1,3}0")), "[a-c]{3}-[0-9]{1,3}0");
            Test.Equal("grammar", complete(Constraint.Lark(Tales, "start: \"ab\" \"cd\"\n")), "abcd");
            Matches("choices", complete(Constraint.Choices(Tales, new[] { "Grüße", "a\0b" })), "Grüße|a\0b");
            Test.Equal("cut off", constrained(Constraint.JsonObject(Tales), 1).Usage.Progress, ConstraintProgress.Unfinished);
            var waits = Constraint.JsonObject(Tales, new ConstraintOptions { Triggers = { "never said" }, Whitespace = 0, Repeat = true });
            Test.Equal("waits", constrained(waits, 4).Usage.Progress, ConstraintProgress.Waiting);
            Test.Disposed("constraint", () => context.Generate("The", new GenerateOptions { Constraint = waits }));
            context.Rewind(0);
            var comma = Tales.Tokenize(",", false)[0];
            using (var after = Constraint.Choices(Tales, new[] { " he said" }, new ConstraintOptions { TriggerTokens = { comma } }))
            {
                var all = context.Generate("Once upon a time", new GenerateOptions { MaxTokens = 9, Constraint = after }).ReadToEnd();
                Test.Equal("after a token", all.Text, ", he said");
            }
            Test.Refused(Status.Unsupported, "propertyNames", () => Constraint.JsonSchema(Tales, "{\"propertyNames\": {\"maxLength\": 3}}"));
            Test.Refused(Status.InvalidArgument, "choices", () => Constraint.Choices(Tales, new string[0]));
            Test.Refused(Status.InvalidArgument, "3", () => Constraint.Regex(Tales, "a{9}", new ConstraintOptions { Limits = { { ConstraintLimit.Source, 3 } } }));
            Test.Refused(Status.InvalidArgument, "repeat", () => Constraint.JsonObject(Tales, new ConstraintOptions { Repeat = true }));
            Test.Equal("nothing to hold", Constraint.Chat(Tales, Plain), null);
            var tokens = Tales.TokenizeChat(new[] { Message.User("<|endoftext|>") }, new ChatOptions { Template = "{{ messages[0].content }}" });
            Test.Same("no control token", tokens, Tales.Tokenize("<|endoftext|>"));
        }
    }

    public static void Parser()
    {
        const string template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
            + "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}{% if enable_thinking %}<think>{% endif %}</think>";
        var options = new ChatOptions { Template = template, Tools = ToolList };
        var parser = Tales.CreateChatParser("", options);
        Test.Equal("calls", parser.Format.Calls, "hermes");
        Test.Equal("thoughts", parser.Format.ThinkingClose, "</think>");
        const string reply = "<think>Hm.</think>Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
        var events = new List<ReplyEvent>();
        var thought = false;
        for (var i = 0; i < reply.Length; i += 3)
        {
            events.AddRange(parser.Push(reply.Substring(i, Math.Min(3, reply.Length - i))));
            thought |= parser.IsThinking;
        }
        events.AddRange(parser.Finish(FinishReason.Eog));
        Func<ChatEventKind, string> joined = kind => string.Concat(events.Where(one => one.Kind == kind).Select(one => one.Text));
        Test.True("thought", thought && !parser.IsThinking);
        Test.Equal("thinking", joined(ChatEventKind.Thinking), "Hm.");
        Test.Equal("text", joined(ChatEventKind.Text), "Let me see.");
        var call = events.Single(one => one.IsCall);
        Test.Equal("name", call.Name, "weather");
        Test.Equal("arguments", call.Text, "{\"city\": \"Bern\"}");
        Test.Equal("pieces", joined(ChatEventKind.CallArguments), call.Text);
        parser.Dispose();
        Test.Disposed("parser", () => parser.Push("a"));
        Test.Refused(Status.Unsupported, "template", () => Tales.CreateChatParser());
        options.ToolChoice = "sing";
        Test.Refused(Status.InvalidArgument, "tool_choice", () => Tales.CreateChatParser("", options));
    }

    public static void Chats()
    {
        if (Skipped("chats", Test.ChatModel)) return;
        using (var model = Model.Load(Test.ChatModel))
        using (var context = model.CreateContext())
        {
            // What is quoted arrives as it is.
            const string said = "\"Grüße\" \\ 🌙\n\t<&>\u0001";
            var messages = new List<Message> { Message.System("Be brief."), Message.User(said), Message.Assistant("x"), Message.User(new string('y', 900)) };
            Test.True("quoted", model.ApplyChatTemplate(messages).Contains(said));
            messages = new List<Message> { Message.User("What is the capital of France?") };
            var six = new GenerateOptions { MaxTokens = 6 };
            var answer = context.Chat(messages, six).ReadToEnd().Text;
            Test.Equal("answer", answer, "L'Étoile,"); // llama.cpp begins this answer in the same way
            messages.Add(Message.Assistant(answer));
            messages.Add(Message.User("And of Italy?"));
            var next = context.ChatAsync(messages, six).Result;
            Test.True("goes on", next.Text != "" && next.Usage.ReusedTokens > 0);
        }
    }

    private static bool Skipped(string what, string path)
    {
        if (File.Exists(path)) return false;
        Console.WriteLine("SKIPPED: " + what + ", for " + path + " is not there");
        return true;
    }

    public static void Tools()
    {
        var path = Path.Combine(Test.Work, "tools.gguf");
        if (Skipped("tools", path)) return;
        using (var model = Model.Load(path))
        using (var context = model.CreateContext())
        {
            var conversation = context.CreateConversation("", new ChatOptions { Tools = ToolList }, new GenerateOptions { MaxTokens = 40 });
            var events = conversation.Send("What is the weather in Paris?").ToList();
            Test.Equal("begins", events[0].Kind, ChatEventKind.CallBegin);
            var call = events.Single(one => one.IsCall);
            Test.Equal("name", call.Name, "weather");
            Test.Equal("arguments", call.Text, "{\"city\": \"Paris\"}");
            Test.Equal("pieces", string.Concat(events.Where(one => one.Kind == ChatEventKind.CallArguments).Select(one => one.Text)), call.Text);
            conversation.Add(Message.Tool(call, "It is sunny, 21 degrees."));
            Matches("answer", conversation.Send("").ReadToEnd().Text, ".*sunny.*");
            Test.True("the id", conversation.Messages.Contains("\"tool_call_id\":\"" + call.Id + "\""));
            // Answered by a function, as the example in README.md does.
            var asked = new List<string>();
            using (var answered = context.CreateConversation("", new ChatOptions { Tools = ToolList }))
            {
                var all = answered.Send("What is the weather in Paris?", one =>
                {
                    asked.Add(one.Text);
                    return "It is sunny, 21 degrees.";
                }).ToList();
                Test.Same("asked", asked, new[] { "{\"city\": \"Paris\"}" });
                Test.Equal("replies", all.Count(one => one.IsEnd), 2);
                Matches("answered", string.Concat(all.Where(one => one.IsText).Select(one => one.Text)), ".*sunny.*");
                answered.SetToolChoice("required");
                Test.Thrown<InvalidOperationException>(() => answered.Send("What is the weather in Rome?", one => "It is sunny.", 2).ToList());
            }
            // The choice of one reply.
            Test.Refused(Status.InvalidArgument, "tool_choice", () => conversation.SetToolChoice("sing"));
            conversation.SetToolChoice("none");
            Test.Equal("none", conversation.Send("What is the weather in Bern?").ReadToEnd().Calls.Count, 0);
            var must = new ChatOptions { Tools = ToolList, ToolChoice = "required", ParallelCalls = false };
            using (var required = context.CreateConversation("", must, new GenerateOptions { MaxTokens = 60 }))
            {
                Matches("Bern", required.Send("What is the weather in Bern?").ReadToEnd().Calls[0].Text, ".*Bern.*");
            }
            // Calls of one's own generations are held to their schemas.
            var calling = new ChatOptions { Tools = ToolList, ToolChoice = "weather" };
            var prompt = model.ApplyChatTemplate(new[] { Message.User("What is the weather in Bern?") }, new ChatOptions { Tools = ToolList });
            using (var held = Constraint.Chat(model, calling, prompt))
            using (var parser = model.CreateChatParser(prompt, calling))
            {
                context.Rewind(0);
                var own = new List<ReplyEvent>();
                foreach (var one in context.Generate(prompt, new GenerateOptions { Constraint = held, RenderSpecial = true, ParseSpecial = true, MaxTokens = 60 }))
                {
                    own.AddRange(parser.Push(one.Text));
                    if (one.IsEnd) own.AddRange(parser.Finish(one.Finish.Value));
                }
                Matches("held", own.First(one => one.IsCall).Text, "\\{\\s*\"city\"\\s*:\\s*\".*Bern.*\"\\s*\\}");
            }
        }
    }
}
