// Continues a prompt; the text is printed as it comes.
//
//   generate -m MODEL -p PROMPT [-n N] [--temp T] [--top-k K] [--top-p P] [--seed S]
import Ember
import ExampleOptions

await run { options in
    let context = try AsyncContext(try await Model.load(options.model))
    let how = GenerateOptions(maxTokens: options.tokens)
    let sampler = try options.sampler()
    show(options.prompt)
    for try await event in context.generate(options.prompt, options: how, sampler: sampler) {
        show(event.text)
    }
    show("\n")
}
