// Continues a sentence with the bundled model. Run it from the repository's root.
import Ember

let model = try Model("examples/models/ember-tales.gguf")
let context = try Context(model)
let generation = try context.generate("Once upon a time", options: GenerateOptions(maxTokens: 32, echo: true))
while let event = try generation.next() {
    print(event.text, terminator: "")
}
print()
