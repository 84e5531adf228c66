import Ember
import Foundation
import Testing

/// The path of a model that calls tools, which bindings/tool_model.py writes.
let toolsModelPath =
    ProcessInfo.processInfo.environment["EMBER_TOOLS_MODEL"] ?? root + "/build/tools.gguf"

/// A tool, and the mark of what calls it.
let weather: JSON = [
    "type": "function",
    "function": [
        "name": "weather",
        "parameters": ["type": "object", "properties": ["city": ["type": "string"]], "required": ["city"]],
    ],
]

private let plain = ChatOptions(
    template: "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>")

@Suite struct ConversationTests {
    @Test func turns() throws {
        let how = GenerateOptions(maxTokens: 8)
        var context: Context? = try newContext(ContextOptions(size: 256, sequences: 2, threads: 1))
        let conversation = try Conversation(
            try #require(context), system: "Be brief. Grüße 🌙", chat: plain, options: how)
        let first = try conversation.send("Tell of the sea.").text()
        #expect(!first.isEmpty)
        let fork = try conversation.fork(sequence: 1)
        let saved = try conversation.save()
        let next = try conversation.send("Go on.").text()
        #expect(try fork.send("Go on.").text() == next)
        let usage = try conversation.usage
        #expect(usage.reusedTokens > 0 && usage.reusedTokens < usage.promptTokens && usage.generatedTokens == 8)
        #expect(usage.finishReason == .maxTokens)
        let inSecond = GenerateOptions(maxTokens: 8, sequence: 1)
        let loaded = try Conversation(try #require(context), saved: saved, chat: plain, options: inSecond)
        #expect(try loaded.send("Go on.").text() == next)
        let messages = try conversation.messages
        #expect(messages[0]?["content"] == "Be brief. Grüße 🌙" && messages[2]?["content"] == .string(first))
        #expect(messages[4]?["role"] == "assistant" && messages[5] == nil)
        try conversation.undo()
        var kinds: Set<ReplyEvent.Kind> = []
        var again = ""
        try conversation.send("Go on.").forEach {
            kinds.insert($0.kind)
            again += $0.text
        }
        #expect(again == next && kinds == [.text, .end])
        expectRefusal(.format, "damaged") {
            try Conversation(try #require(context), saved: Array(saved.dropLast()), chat: plain)
        }
        context = nil  // which the conversation keeps
        #expect(try !conversation.send("And then?").text().isEmpty)
    }

    @Test func repliesThatAreGivenUp() throws {
        let context = try newContext(ContextOptions(size: 256, threads: 1))
        let how = GenerateOptions(maxTokens: 8)
        let conversation = try Conversation(context, chat: plain, options: how)
        let asked: JSON = [["role": "user", "content": "Why?"]]
        do {
            let reply = try conversation.send("Why?")
            #expect(try reply.next()?.kind == .text)
            expectRefusal(.busy, "under way") { try conversation.add(.user("x")) }
            expectRefusal(.busy, "under way") { try conversation.send("x") }
        }  // it is let go
        #expect(try conversation.messages == asked)
        let reply = try conversation.send()
        #expect(try reply.next() != nil)
        reply.giveUp()
        #expect(try reply.next() == nil)
        let other = try conversation.send()
        reply.giveUp()  // is not the other's
        #expect(try !other.text().isEmpty)
        #expect(try other.next() == nil)

        let token = CancelToken()
        let cancelled = try Conversation(context, chat: plain, options: how, cancelToken: token)
        token.cancel()
        var last: ReplyEvent?
        try cancelled.send("Why?").forEach { last = $0 }
        #expect(last?.finishReason == .cancelled)

        struct Enough: Error {}
        let throwing = try Sampler(.custom { _, _ in throw Enough() })
        let ends = try Conversation(context, chat: plain, options: how, sampler: throwing)
        #expect(throws: Enough.self) { try ends.send("Why?").text() }
        let drawn = try Conversation(context, chat: plain, options: how, sampler: Sampler(seed: 3, .temperature(0.8)))
        #expect(try !drawn.send("Why?").text().isEmpty)
    }

    @Test func fullSequences() throws {
        let context = try newContext(ContextOptions(size: 96, threads: 1))
        let conversation = try Conversation(context, chat: plain, options: GenerateOptions(maxTokens: 8))
        var dropped = 0
        func talk() throws {
            for _ in 0..<10 {
                _ = try conversation.send("Tell of the sea and the moon.").text()
                dropped += try conversation.usage.droppedTurns
            }
        }
        try talk()
        #expect(dropped > 2)
        struct Full: Error {}
        var answer: Int? = 0
        try conversation.setOnFull { needed, size, turns in
            #expect(needed > size && size == 96 && turns > 0)
            guard let answer else { throw Full() }
            return answer
        }
        expectRefusal(.contextFull) { try talk() }
        answer = nil
        #expect(throws: Full.self) { try talk() }
        answer = 1
        try talk()
        try conversation.setOnFull(nil)
        try talk()
        try conversation.setWhenFull(.refuse, reserve: 20)
        expectRefusal(.contextFull, "no turn may be dropped") { try conversation.send("And the boat?") }
    }

    @Test func refusals() throws {
        let context = try newContext()
        let conversation = try Conversation(context, chat: plain)
        expectRefusal(.invalidArgument, "no message to reply to") { try conversation.send() }
        expectRefusal(.invalidArgument, "king") { try conversation.add(Message(role: "king", content: "x")) }
        expectRefusal(.unsupported, "marks of thoughts") { try conversation.setThinkingBudget(4) }
        var thinks = plain
        thinks.thinking = true
        expectRefusal(.unsupported, "switches thinking") { try Conversation(context, chat: thinks) }
        expectRefusal(.unsupported, "template") { try Conversation(context) }
    }

    /// SmolLM2 calls the tool by itself, and answers with its result.
    @Test func tools() throws {
        let model = try Model(toolsModelPath)
        let context = try Context(model)
        let conversation = try Conversation(
            context, chat: ChatOptions(tools: [weather]), options: GenerateOptions(maxTokens: 40))
        var events: [ReplyEvent] = []
        try conversation.send("What is the weather in Paris?").forEach { events.append($0) }
        #expect(events.first?.kind == .callBegin && events.last?.kind == .end)
        let call = try #require(events.first { $0.kind == .callDone })
        #expect(call.name == "weather" && call.id.count == 9 && call.index == 0)
        #expect(try JSON(parsing: call.text)["city"] == "Paris")
        #expect(events.filter { $0.kind == .callArguments }.map(\.text).joined() == call.text)
        try conversation.add(.tool("It is sunny, 21 degrees.", for: call))
        #expect(try conversation.send().text().contains("sunny"))
        #expect(try conversation.messages[2]?["tool_call_id"] == .string(call.id))
        expectRefusal(.invalidArgument, "tool_choice") {
            try Conversation(context, chat: ChatOptions(tools: [weather], toolChoice: "sing"))
        }
        // The choice of one reply.
        expectRefusal(.invalidArgument, "tool_choice") { try conversation.setToolChoice("sing") }
        for (choice, calls) in [("none", false), ("required", true)] {
            try conversation.setToolChoice(choice)
            var kinds: [ReplyEvent.Kind] = []
            try conversation.send("What is the weather in Bern?").forEach { kinds.append($0.kind) }
            #expect(kinds.contains(.callDone) == calls)
        }

        // The same by hand: what a host's own generation writes is constrained, and read by a parser.
        let options = ChatOptions(tools: [weather], toolChoice: "required", parallelCalls: false)
        let question = [Message.user("What is the weather in Bern?")]
        let prompt = try model.applyChatTemplate(question, options: options)
        let constraint = try #require(try Constraint.chat(model, options: options, prompt: prompt))
        #expect(try Constraint.chat(model, options: ChatOptions(), prompt: prompt) == nil)
        let parser = try ChatParser(model, options: options, prompt: prompt)
        #expect(try parser.format.name == "hermes" && parser.format.thinkingOpen.isEmpty)
        let how = GenerateOptions(maxTokens: 60, renderSpecial: true, constraint: constraint)
        let generation = try context.chat(question, chatOptions: options, options: how)
        var read: [ReplyEvent] = []
        try generation.forEach { read += try parser.push($0.text) }
        read += try parser.finish(try #require(generation.finishReason))
        let calls = read.filter { $0.kind == .callDone }
        #expect(calls.count == 1)
        #expect(try JSON(parsing: calls[0].text)["city"] == "Bern")
        #expect(try generation.usage.progress == .complete)
    }

    @Test func tasks() async throws {
        let context = try AsyncContext(bundled, options: ContextOptions(size: 256, threads: 1))
        let how = GenerateOptions(maxTokens: 8)
        let conversation = try await AsyncConversation(context, system: "Be brief.", chat: plain, options: how)
        var text = ""
        for try await event in conversation.send("Tell of the sea.") { text += event.text }
        #expect(try await conversation.messages[2]?["content"] == .string(text))
        #expect(try await conversation.usage.generatedTokens == 8)
        let saved = try await conversation.save()

        // A loop that is left gives the reply up; a second one meanwhile is refused.
        for try await _ in conversation.send("Why?") {
            await #expect(throws: EmberError.self) {
                for try await _ in conversation.send("x") {}
            }
            break
        }
        try await conversation.withConversation { try $0.undo() }
        #expect(try await conversation.messages[3] == nil)

        let task = Task {
            var last: ReplyEvent?
            while last?.finishReason != .cancelled {
                for try await event in conversation.send("And then?") { last = event }
            }
        }
        task.cancel()
        try await task.value

        let loaded = try await AsyncConversation(context, saved: saved, chat: plain, options: how)
        try await loaded.add(.user("Go on."))
        var events = 0
        for try await _ in loaded.send() { events += 1 }
        #expect(events > 1)
    }

    @Test func repliesInPieces() throws {
        let hermes = """
            {% for m in messages %}<u>{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}\
            </tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<a>{% if not enable_thinking | default(true) %}\
            <think></think>{% endif %}{% endif %}{# <think> #}
            """
        let options = ChatOptions(tools: [["name": "f", "parameters": [:]]], template: hermes)
        let parser = try ChatParser(bundled, options: options)
        #expect(try parser.push("<think>So").map(\.text) == ["So"])
        #expect(try parser.isThinking)
        let call = "<tool_call>{\"name\": \"f\",\"arguments\": {\"a\":1}}</tool_call>"
        var events = try parser.push(".</think>\n\nYes.\n" + call)
        events += try parser.push("<tool_call>{\"name\": \"h\"}</tool_call>")
        events += try parser.finish(.endOfGeneration)
        #expect(try !parser.isThinking)
        #expect(events.first { $0.kind == .callDone }?.text == "{\"a\":1}")
        let broken = try #require(events.first { $0.kind == .callBroken })
        #expect(broken.reason == "no tool is named \"h\"" && broken.index == 1 && broken.text.hasPrefix("<tool_call>"))
        let format = try parser.format
        #expect(format.name == "hermes" && format.thinkingClose == "</think>")
        #expect(format.thinkingVariable == "enable_thinking")
        #expect(format.thinkingOn == "true" && format.thinkingOff == "false")
        var off = options
        off.thinking = false
        #expect(try bundled.applyChatTemplate([.user("Hi")], options: off) == "<u>Hi<a><think></think>")
        expectRefusal(.unsupported, "template") { try ChatParser(bundled) }
        let content = ChatOptions(template: "{{ messages[0].content }}")
        #expect(
            try bundled.tokenizeChat([.user("<|endoftext|>")], options: content) == bundled.tokenize("<|endoftext|>"))
    }
}
