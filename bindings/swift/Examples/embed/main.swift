// Prints how alike two texts are: the cosine of their vectors.
//
//   embed -m MODEL TEXT TEXT
import Ember
import ExampleOptions
import Foundation

await run { options in
    guard options.texts.count == 2 else { throw UsageError("give two texts to compare") }
    let context = try AsyncContext(try await Model.load(options.model))
    let vectors = try await context.embed(options.texts)
    let cosine = zip(vectors[0], vectors[1]).reduce(0) { $0 + Double($1.0) * Double($1.1) }
    print(String(format: "%.4f", cosine))
}
