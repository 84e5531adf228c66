import Ember
import Foundation
import Testing

@Suite struct ChatTests {
    private let messages = [Message.system("<Be> brief & \"kind\"."), .user("Grüße 🌙\n")]
    private let template = """
        {% for m in messages %}[{{ m.role }}] {{ m.content }}|{% endfor %}\
        {% if tools %}{{ tools[0] | tojson }}{% endif %}{{ mood }}{% if add_generation_prompt %}[assistant] {% endif %}
        """

    @Test func templates() throws {
        let start = "[system] <Be> brief & \"kind\".|[user] Grüße 🌙\n|"
        func text(_ change: (inout ChatOptions) -> Void) throws -> String {
            var options = ChatOptions(template: template, addGenerationPrompt: false)
            change(&options)
            return try bundled.applyChatTemplate(messages, options: options)
        }
        #expect(try text { $0.addGenerationPrompt = true } == start + "[assistant] ")
        #expect(try text { _ in } == start)
        #expect(try text { $0.variables = ["mood": "merry"] } == start + "merry")
        // In the order that the tool was written in.
        let tool: JSON = ["type": "function", "function": ["name": "sum", "arguments": [1, 2.5, true, nil]]]
        #expect(try text { $0.tools = [tool] } == start + tool.description)

        let calls = Message(
            role: "assistant", content: "", name: "n", reasoningContent: "r", toolCalls: [["id": 7]], toolCallID: "i")
        let all = "{% set m = messages[0] %}{{ m.name ~ m.reasoning_content ~ m.tool_calls[0].id ~ m.tool_call_id }}"
        #expect(try bundled.applyChatTemplate([calls], options: ChatOptions(template: all)) == "nr7i")
        let date = ChatOptions(
            template: "{{ strftime_now('%d %H') }}", now: Date(timeIntervalSince1970: 1_588_738_089),
            timeZone: try #require(TimeZone(secondsFromGMT: 3 * 3600)))
        #expect(try bundled.applyChatTemplate([], options: date) == "06 07")
    }

    @Test func refusals() throws {
        // The bundled model has no template.
        expectRefusal(.unsupported) { try bundled.applyChatTemplate(messages) }
        expectRefusal(.unsupported) { try bundled.chatTemplate() }
        expectRefusal(.invalidArgument, "no kings") {
            try bundled.applyChatTemplate(messages, options: ChatOptions(template: "{{ raise_exception('no kings') }}"))
        }
        expectRefusal(.format) { try bundled.applyChatTemplate(messages, options: ChatOptions(template: "{% for %}")) }
        expectRefusal(.invalidArgument) {
            try bundled.applyChatTemplate(json: "no messages", options: ChatOptions(template: template))
        }
        #expect(throws: EmberError.self) {
            try bundled.applyChatTemplate(messages, options: ChatOptions(templateName: "no such name"))
        }
    }

    /// With SmolLM2, which `make models` fetches.
    @Test func aModelThatCanChat() async throws {
        let model = try Model(chatModelPath)
        #expect(try model.chatTemplate().contains("<|im_start|>"))
        expectRefusal(.notFound) { try model.chatTemplate("tool_use") }
        let question = Message.user("What is the capital of France?")
        let how = GenerateOptions(maxTokens: 6)
        let context = try Context(model)
        var answer = ""
        try context.chat([question], options: how).forEach { answer += $0.text }
        #expect(answer == "L'Étoile,")  // a very small model; llama.cpp begins this answer in the same way
        let more = try context.chat([question, .assistant(answer), .user("No.")], options: how)
        _ = try more.next()
        #expect(try more.usage.reusedTokens > 20)

        var streamed = ""
        for try await event in try AsyncContext(model).chat([question], options: how) { streamed += event.text }
        #expect(streamed == answer)
    }

    @Test func messagesAreCodable() throws {
        let message = Message(
            role: "assistant", content: "é\n", reasoningContent: "r", toolCalls: [["a": [1, 1.5, "x", nil, false]]])
        let data = try JSONEncoder().encode(message)
        #expect(String(decoding: data, as: UTF8.self).contains("\"reasoning_content\":\"r\""))
        #expect(try JSONDecoder().decode(Message.self, from: data) == message)
    }

    @Test func jsonTexts() throws {
        let value: JSON = ["b": 1, "a": [true, nil, -2, 0.5, "\"\\\n\u{1}é🌙"], "": [:], "e": []]
        #expect(value.description == #"{"b": 1, "a": [true, null, -2, 0.5, "\"\\\n\u0001é🌙"], "": {}, "e": []}"#)
        #expect(try JSON(parsing: value.description) == value)
        #expect(value["a"]?[2] == -2 && value["no"] == nil && value["a"]?[9] == nil)
        let spelled = #" [ 1 , 1e3, "\u00e9\ud83c\udf19\ud800x\/\b\f\r\t" ] "#
        #expect(try JSON(parsing: spelled) == [1, .double(1000), "é🌙\u{fffd}x/\u{8}\u{c}\r\t"])
        #expect(try JSON(parsing: "9223372036854775808") == .double(0x1p63))
        #expect(JSON.double(.infinity).description == "null")
        for text in [
            "", "{", "[1", "[1,]", "{\"a\"}", "{\"a\":}", "{1:2}", "tru", "nul", "1 2", "\"", "\"\\u12\"", "\"\\x\"",
            "\"\u{1}\"", "+1", ".5", "-", "\"\\", "\"\\u+123\"", String(repeating: "[", count: 100_000),
        ] {
            expectRefusal(.invalidArgument, "JSON") { try JSON(parsing: text) }
        }
    }
}
