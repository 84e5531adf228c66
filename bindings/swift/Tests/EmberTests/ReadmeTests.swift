import Ember
import Foundation
import Testing

/// The Swift blocks of README.md are the program hello, the manifest that test.sh builds, and the bodies of the functions
/// here, from the blank line on.
@Suite struct ReadmeTests {
    private let model = bundled
    private let template = ChatOptions(template: "{% for m in messages %}{{ m.content }}{% endfor %}")

    @Test func blocksAreCompiled() throws {
        let readme = try readFile("bindings/swift/README.md")
        let here = try String(contentsOfFile: #filePath, encoding: .utf8)
        let blocks = readme.components(separatedBy: "```swift\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(try blocks[0] == readFile("bindings/swift/Examples/hello/main.swift"))
        #expect(blocks[1].contains("package"))
        for block in blocks.dropFirst(2) {
            let lines = block.split(separator: "\n", omittingEmptySubsequences: false)
            let body = lines.map { $0.isEmpty ? "" : "        " + $0 }.joined(separator: "\n")
            #expect(here.contains("\n\n" + body + "    }\n"), "no function ends with:\n\(block)")
        }
        #expect(blocks.count >= 12)
    }

    @Test func streaming() throws {
        let context = try Context(model)

        let sampler = try Sampler(seed: 42, .topK(40), .topP(0.95), .temperature(0.8))
        let options = GenerateOptions(maxTokens: 100, stop: ["\n"], topLogprobs: 3)
        let generation = try context.generate("The wolf said", options: options, sampler: sampler)
        while let event = try generation.next() {
            switch event.kind {
            case .echo, .token: print(event.text, terminator: "")  // event.token, event.logprob, event.top …
            case .end: print(event.text, event.finishReason!, event.usage!.generatedTokens)
            }
        }
    }

    @Test func whole() throws {
        let context = try Context(model)

        let answer = try context.complete("Once upon a time", options: GenerateOptions(maxTokens: 8))
        print(answer.text, answer.usage.generatedTokens)
    }

    @Test func several() throws {
        let model = model

        let many = try Context(model, options: ContextOptions(sequences: 3))
        let drawn = try Sampler(seed: 7, .temperature(0.8))
        let all = try many.completions(
            "Once upon a time", count: 3, options: GenerateOptions(maxTokens: 8, logprobs: true), sampler: drawn)
        while let turn = try all.next() {
            if turn.event.kind == .end { print(turn.index, turn.event.usage!.generatedTokens) }
        }
        print(try all.text(of: all.rank()[0]))
    }

    @Test func tasks() async throws {
        let context = try AsyncContext(model)

        let task = Task {
            var text = ""
            let options = GenerateOptions(maxTokens: 400)
            for try await event in context.generate("The old lighthouse", options: options) {
                text += event.text
                if event.finishReason == .cancelled { print("the reader has left") }
            }
            return text
        }
        let vectors = try await context.embed(["A cat sleeps.", "The kitten naps."])  // between two tokens of the task
        task.cancel()
        print(try await task.value, vectors.count)
    }

    @Test func alone() async throws {
        let context = try AsyncContext(model)

        let likeliest = try await context.withContext { context in
            try context.rewind()
            try context.decode([47, 1069, 602])
            return try context.withLogits(at: 2) { try Sampler(.greedy).sample($0) }
        }
        print(likeliest)
    }

    @Test func together() async throws {

        let engine = try Engine(model, options: EngineOptions(parallel: 16, context: ContextOptions(size: 512)))
        let answers = try await withThrowingTaskGroup(of: String.self) { group in
            for name in ["wolf", "king", "sea", "moon"] {
                group.addTask {
                    var answer = ""
                    let options = GenerateOptions(maxTokens: 16, timeLimit: .seconds(60), priority: 1)
                    do {
                        for try await event in try engine.submit("The \(name) said", options: options) {
                            answer += event.text
                        }
                    } catch let error as EmberError where error.status == .queueFull {
                        answer = "busy, try again later"
                    }
                    return answer
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        print(answers, try engine.metrics.tokensPerSecond)
    }

    @Test func loading() async throws {
        let path = modelPath

        let model = try await Model.load(path, options: ModelOptions(memoryLimit: 2 << 30)) { done in
            print("\(Int(100 * done)) %")  // what this throws ends the loading
        }
        print(try model.memory.weights, try Context(model).memory.kv)
    }

    @Test func cancelling() throws {
        let context = try Context(model)

        let token = CancelToken()
        let watchdog = Thread { token.cancel() }
        watchdog.start()
        let answer = try context.complete(
            "Once upon a time", options: GenerateOptions(maxTokens: 400), cancelToken: token)
        if answer.finishReason == .cancelled { print("out of time after", answer.usage.generatedTokens, "tokens") }
    }

    @Test func errors() throws {
        let context = try Context(model)

        do {
            try context.decode(Array(repeating: 47, count: 100_000))
        } catch let error as EmberError where error.status == .contextFull {
            print("cut the prompt: \(error)")
        }
    }

    @Test func conversation() throws {
        let context = try Context(model)

        var conversation = "The king said:"
        for line in [" \"Who are you?\"", " \"And you?\""] {
            conversation += line
            let options = GenerateOptions(maxTokens: 16, reusePrefix: true)
            conversation += try context.complete(conversation, options: options).text
        }
        print(conversation)
    }

    @Test func state() throws {
        let context = try Context(model)

        _ = try context.complete("The king said:", options: GenerateOptions(maxTokens: 8))
        let state = try context.saveState()  // or saveState(to: path)
        let other = try Context(model)
        try other.loadState(state)
        print(try other.complete("", options: GenerateOptions(maxTokens: 8)).text)
    }

    @Test func forgetting() throws {
        let context = try Context(Model(chatModelPath), options: ContextOptions(size: 64))

        let options = GenerateOptions(maxTokens: 100, shift: .init(keep: 8, drop: 32))  // the first 8 stay
        let story = try context.complete("Once upon a time", options: options)
        print(story.text, story.usage.shiftedTokens)
        try context.shift(keep: 8, drop: 16)  // the same by hand
    }

    /// The tests of conversations look at what a model says with a tool.
    @Test func toolChat() throws {
        let path = toolsModelPath

        let city: JSON = ["type": "object", "properties": ["city": ["type": "string"]], "required": ["city"]]
        let weather: JSON = ["type": "function", "function": ["name": "weather", "parameters": city]]
        let conversation = try Conversation(Context(Model(path)), chat: ChatOptions(tools: [weather]))
        var (message, calls) = ("What is the weather in Paris?", [ReplyEvent]())
        repeat {
            calls = []
            try conversation.send(message).forEach { event in
                if event.kind == .text { print(event.text, terminator: "") }
                if event.kind == .callDone { calls.append(event) }  // event.text is {"city": "Paris"}
            }
            for call in calls { try conversation.add(.tool("It is sunny, 21 degrees.", for: call)) }
            message = ""  // what was added is answered
        } while !calls.isEmpty
    }

    @Test func toolChatIsShort() throws {
        let readme = try readFile("bindings/swift/README.md")
        let blocks = readme.components(separatedBy: "```swift\n").map { $0.components(separatedBy: "```")[0] }
        let block = try #require(blocks.first { $0.contains(".callDone") })
        #expect(block.split(separator: "\n").count < 20)
    }

    @Test func form() throws {
        let context = try Context(model)

        let answer: JSON = [
            "type": "object", "properties": ["ok": ["enum": ["yes", "no"]]], "required": ["ok"],
            "additionalProperties": false,
        ]
        let schema = try Constraint(model, .jsonSchema(answer), options: ConstraintOptions(whitespace: 0))
        let done = try context.complete("Is water wet? ", options: GenerateOptions(constraint: schema))
        print(done.text, done.usage.progress == .complete)  // or it was cut off
    }

    @Test func tokenizerAlone() throws {
        let path = modelPath

        let tokenizer = try Tokenizer(path)  // or a tokenizer.json; model.tokenizer is a model's own
        print(try tokenizer.count("Once upon a time"), tokenizer.info.vocabularySize)
        if tokenizer.info.fimMiddle != nil {
            // For generate(tokens:).
            print(try tokenizer.fimPrompt(prefix: "def add(a, b):\n    return ", suffix: "\n"))
        }
    }

    @Test func drafts() throws {
        let (context, smallModel) = (try Context(model), model)

        let draft = try DraftContext(smallModel)  // of the same vocabulary
        let options = GenerateOptions(maxTokens: 64, lookup: .init(count: 8), draft: .init(draft, count: 4))
        let list = try context.complete("One, two, three, four, one, two, three,", options: options)
        print(list.text, "\(list.usage.acceptedTokens) of \(list.usage.draftedTokens) came true")
    }

    @Test func chat() async throws {
        let template = template

        let context = try AsyncContext(model)
        var messages = [Message.system("Be brief."), .user("Once upon a time")]
        var answer = ""
        let options = GenerateOptions(maxTokens: 4)
        for try await event in context.chat(messages, chatOptions: template, options: options) {
            print(event.text, terminator: "")
            answer += event.text
        }
        messages += [.assistant(answer), .user("And then?")]
    }

    @Test func tools() throws {
        let messages = [Message.user("What is the weather?")]

        let city: JSON = ["type": "object", "properties": ["city": ["type": "string"]]]
        let weather: JSON = ["type": "function", "function": ["name": "weather", "parameters": city]]
        var options = ChatOptions(tools: [weather], variables: ["enable_thinking": false])
        options.template = "{{ tools | tojson }}"  // instead of the model's
        print(try model.applyChatTemplate(messages, options: options))
    }

    @Test func embeddings() throws {
        let context = try Context(model)

        let vectors = try context.embed(["A cat sleeps.", "The kitten naps."])
        let cosine = zip(vectors[0], vectors[1]).reduce(0) { $0 + $1.0 * $1.1 }
        print(cosine)
    }

    @Test func scores() throws {
        let context = try Context(model)

        for ending in [" king.", " xylophone."] {
            let score = try context.score("Once upon a time there was a", ending)
            print(ending, score.logprob)
        }
    }

    @Test func stage() throws {
        let context = try Context(model)

        let short = try Sampler(
            .topK(40),
            .custom { tokens, logits in
                for (index, token) in tokens.enumerated() where token == 14 { logits[index] += 2 }
            },
            .temperature(0.8))
        print(try context.complete("Once upon a time", sampler: short).text)
    }

    @Test func logits() throws {
        let context = try Context(model)

        let tokens = try model.tokenize("Once upon a time")
        try context.decode(tokens)
        let sampler = try Sampler(.greedy)
        let next = try context.withLogits(at: tokens.count - 1) { logits in
            try sampler.sample(logits)  // the library's own memory: read it here, copy what you keep
        }
        print(try model.detokenize([next]))
    }
}
