// Answers a message as the model was trained to; the answer is printed as it comes.
//
//   chat -m MODEL -p MESSAGE [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
import Ember
import ExampleOptions

await run { options in
    let context = try AsyncContext(try await Model.load(options.model))
    let how = GenerateOptions(maxTokens: options.tokens)
    let sampler = try options.sampler()
    for try await event in context.chat([.user(options.prompt)], options: how, sampler: sampler) {
        show(event.text)
    }
    show("\n")
}
